//===- Interpreter.h - Execute one op after the other ----------*- C++ -*-===//
//
// The interpreter is a table from op names to functions. Each group of ops has
// a file (Interpret*.cpp) that adds its functions to the table.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_REFERENCE_INTERPRETER_H
#define ATTN_LIB_REFERENCE_INTERPRETER_H

#include "ErrorText.h"
#include "LaneOp.h"
#include "Values.h"
#include "attn/Reference/TiledInterpreter.h"
#include "llvm/ADT/StringMap.h"

namespace attn::reference {

class HandlerTable;

class Interpreter {
public:
  explicit Interpreter(const TiledRunOptions &options) : options(options) {}

  /// Runs the body and returns what the function returns.
  llvm::Expected<llvm::SmallVector<Datum>>
  call(mlir::func::FuncOp function, llvm::ArrayRef<Datum> arguments);
  /// Runs a block and returns the operands of its terminator.
  llvm::Expected<llvm::SmallVector<Datum>>
  runBlock(mlir::Block &block, llvm::ArrayRef<Datum> arguments = {});
  llvm::Error runOp(mlir::Operation *op);

  const Datum &get(mlir::Value value) const;
  const Lanes &lanes(mlir::Value value) const { return *get(value).lanes; }
  const MemRef &memref(mlir::Value value) const { return *get(value).memref; }
  /// A scalar.
  Scalar scalar(mlir::Value value) const { return lanes(value).lanes.front(); }
  int64_t integer(mlir::Value value) const { return scalar(value).i; }
  int64_t integer(mlir::OpFoldResult value) const;
  Shape integers(mlir::ValueRange values) const;
  Shape integers(llvm::ArrayRef<mlir::OpFoldResult> values) const;

  /// Invalidates what `get` returned.
  void set(mlir::Value value, Datum datum) {
    environment[value] = std::move(datum);
  }
  void set(mlir::ValueRange values, llvm::ArrayRef<Datum> data);

  const TiledRunOptions &options;

private:
  llvm::Error runElementwise(mlir::Operation *op, const LaneOp &lane);

  llvm::DenseMap<mlir::Value, Datum> environment;
  llvm::DenseMap<mlir::Operation *, LaneOp> laneOps;
};

/// Functions by op name.
class HandlerTable {
public:
  using Handler = llvm::Error (*)(Interpreter &, mlir::Operation *);

  /// Adds `llvm::Error function(Interpreter &, OpTy)`.
  template <auto function> void add() {
    using OpTy = typename OpOf<decltype(function)>::type;
    handlers[OpTy::getOperationName()] = [](Interpreter &interpreter,
                                            mlir::Operation *op) {
      return function(interpreter, mlir::cast<OpTy>(op));
    };
  }
  Handler find(mlir::Operation *op) const {
    return handlers.lookup(op->getName().getStringRef());
  }

private:
  template <typename Function> struct OpOf;
  template <typename OpTy> struct OpOf<llvm::Error (*)(Interpreter &, OpTy)> {
    using type = OpTy;
  };
  llvm::StringMap<Handler> handlers;
};

void addControlHandlers(HandlerTable &table);
void addMemoryHandlers(HandlerTable &table);
void addTransferHandlers(HandlerTable &table);
void addVectorHandlers(HandlerTable &table);
void addProductHandlers(HandlerTable &table);

/// The elements of a constant attribute as a value.
llvm::Expected<Lanes> lanesOf(mlir::TypedAttr attribute);

/// Where the element at `indices` is in the buffer; an error when it is in no
/// element of the memref. `what` begins the message: "memref.load reads".
llvm::Expected<int64_t> locate(const MemRef &memref,
                               llvm::ArrayRef<int64_t> indices,
                               const llvm::Twine &what);

/// "[1, 2]".
std::string indexText(llvm::ArrayRef<int64_t> indices);
/// The name of an op, with its `attn.role` where it has one.
std::string nameOf(mlir::Operation *op);

} // namespace attn::reference

#endif // ATTN_LIB_REFERENCE_INTERPRETER_H
