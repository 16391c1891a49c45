//===- GpuEmitter.h - Short names for the ops of a GPU kernel ---*- C++ -*-===//

#ifndef ATTN_LIB_CONVERSION_COMMON_GPUEMITTER_H
#define ATTN_LIB_CONVERSION_COMMON_GPUEMITTER_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Builders.h"

namespace attn {

/// Scalar arithmetic works on i32 and index alike: constants take the type of
/// the other operand.
struct GpuEmitter {
  mlir::OpBuilder &b;
  mlir::Location loc;

  mlir::Value i32(int64_t value) {
    return mlir::arith::ConstantIntOp::create(b, loc, value, 32);
  }
  mlir::Value index(int64_t value) {
    return mlir::arith::ConstantIndexOp::create(b, loc, value);
  }
  mlir::Value like(mlir::Value x, int64_t value) {
    return mlir::arith::ConstantOp::create(
        b, loc, b.getIntegerAttr(x.getType(), value));
  }
  mlir::Value add(mlir::Value x, mlir::Value y) {
    return mlir::arith::AddIOp::create(b, loc, x, y);
  }
  mlir::Value add(mlir::Value x, int64_t y) {
    return y == 0 ? x : add(x, like(x, y));
  }
  mlir::Value sub(mlir::Value x, mlir::Value y) {
    return mlir::arith::SubIOp::create(b, loc, x, y);
  }
  mlir::Value mul(mlir::Value x, mlir::Value y) {
    return mlir::arith::MulIOp::create(b, loc, x, y);
  }
  mlir::Value mul(mlir::Value x, int64_t y) {
    return y == 1 ? x : mul(x, like(x, y));
  }
  /// Both operands are non-negative, y > 0.
  mlir::Value div(mlir::Value x, int64_t y) {
    return y == 1 ? x : div(x, like(x, y));
  }
  mlir::Value div(mlir::Value x, mlir::Value y) {
    return mlir::arith::DivUIOp::create(b, loc, x, y);
  }
  mlir::Value rem(mlir::Value x, int64_t y) { return rem(x, like(x, y)); }
  mlir::Value rem(mlir::Value x, mlir::Value y) {
    return mlir::arith::RemUIOp::create(b, loc, x, y);
  }
  mlir::Value bitAnd(mlir::Value x, int64_t y) {
    return mlir::arith::AndIOp::create(b, loc, x, like(x, y));
  }
  mlir::Value bitXor(mlir::Value x, mlir::Value y) {
    return mlir::arith::XOrIOp::create(b, loc, x, y);
  }
  mlir::Value max(mlir::Value x, mlir::Value y) {
    return mlir::arith::MaxSIOp::create(b, loc, x, y);
  }
  mlir::Value min(mlir::Value x, mlir::Value y) {
    return mlir::arith::MinSIOp::create(b, loc, x, y);
  }
  mlir::Value compare(mlir::arith::CmpIPredicate predicate, mlir::Value x,
                      mlir::Value y) {
    return mlir::arith::CmpIOp::create(b, loc, predicate, x, y);
  }
  mlir::Value equals(mlir::Value x, int64_t y) {
    return compare(mlir::arith::CmpIPredicate::eq, x, like(x, y));
  }
  mlir::Value less(mlir::Value x, mlir::Value y) {
    return compare(mlir::arith::CmpIPredicate::slt, x, y);
  }
  mlir::Value select(mlir::Value condition, mlir::Value x, mlir::Value y) {
    return mlir::arith::SelectOp::create(b, loc, condition, x, y);
  }
  mlir::Value toI32(mlir::Value index) {
    return mlir::arith::IndexCastOp::create(b, loc, b.getI32Type(), index);
  }
  mlir::Value toIndex(mlir::Value i32) {
    return mlir::arith::IndexCastOp::create(b, loc, b.getIndexType(), i32);
  }
  mlir::Value f32(double value) {
    return mlir::arith::ConstantOp::create(b, loc, b.getF32FloatAttr(value));
  }

  mlir::Value zero(mlir::Type type) {
    return mlir::arith::ConstantOp::create(b, loc, b.getZeroAttr(type));
  }
  mlir::Value bitOr(mlir::Value x, mlir::Value y) {
    return mlir::arith::OrIOp::create(b, loc, x, y);
  }
  mlir::Value both(mlir::Value x, mlir::Value y) {
    return mlir::arith::AndIOp::create(b, loc, x, y);
  }
  /// The value of the lane whose number differs by `distance`, a power of two;
  /// 32 or 64 bits.
  mlir::Value fromLane(mlir::Value value, int64_t distance);

  /// scf.if without results, and without an else branch.
  void branch(mlir::Value condition, llvm::function_ref<void()> body) {
    mlir::scf::IfOp::create(b, loc, condition,
                            [&](mlir::OpBuilder &, mlir::Location) {
                              body();
                              mlir::scf::YieldOp::create(b, loc);
                            });
  }
  using Values = llvm::SmallVector<mlir::Value>;
  /// scf.if that yields what either side returns.
  Values branchOr(mlir::Value condition, llvm::function_ref<Values()> body,
                  llvm::function_ref<Values()> otherwise) {
    auto yield = [&](llvm::function_ref<Values()> side) {
      return [&, side](mlir::OpBuilder &, mlir::Location) {
        mlir::scf::YieldOp::create(b, loc, side());
      };
    };
    auto op = mlir::scf::IfOp::create(b, loc, condition, yield(body),
                                      yield(otherwise));
    return Values(op.getResults());
  }
  /// scf.if that yields `body()`, or `otherwise` as it is.
  Values branch(mlir::Value condition, mlir::ValueRange otherwise,
                llvm::function_ref<Values()> body) {
    return branchOr(condition, body, [&]() { return Values(otherwise); });
  }
  /// A counted loop that carries `inits`; `body` returns what it yields.
  llvm::SmallVector<mlir::Value>
  loop(mlir::Value lower, mlir::Value upper, mlir::Value step,
       mlir::ValueRange inits,
       llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::Value,
                                                         mlir::ValueRange)>
           body) {
    auto op = mlir::scf::ForOp::create(
        b, loc, lower, upper, step, inits,
        [&](mlir::OpBuilder &, mlir::Location, mlir::Value i,
            mlir::ValueRange carried) {
          mlir::scf::YieldOp::create(b, loc, body(i, carried));
        });
    return llvm::SmallVector<mlir::Value>(op.getResults());
  }
  /// A loop that carries `inits` for as long as `condition` holds for them.
  Values
  repeatWhile(mlir::ValueRange inits,
              llvm::function_ref<mlir::Value(mlir::ValueRange)> condition,
              llvm::function_ref<Values(mlir::ValueRange)> body) {
    auto op = mlir::scf::WhileOp::create(
        b, loc, mlir::TypeRange(inits), inits,
        [&](mlir::OpBuilder &, mlir::Location, mlir::ValueRange carried) {
          mlir::scf::ConditionOp::create(b, loc, condition(carried), carried);
        },
        [&](mlir::OpBuilder &, mlir::Location, mlir::ValueRange carried) {
          mlir::scf::YieldOp::create(b, loc, body(carried));
        });
    return Values(op.getResults());
  }

  /// PTX that has no operation of its own in the NVVM dialect. In the text %0
  /// operand 0: results come first, then operands; it has side effects.
  llvm::SmallVector<mlir::Value> ptx(llvm::StringRef text,
                                     llvm::StringRef constraints,
                                     mlir::TypeRange results,
                                     mlir::ValueRange operands);
  void ptx(llvm::StringRef text, llvm::StringRef constraints,
           mlir::ValueRange operands);
};

} // namespace attn

#endif // ATTN_LIB_CONVERSION_COMMON_GPUEMITTER_H
