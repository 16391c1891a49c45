//===- GpuEmitter.cpp - Short names for the ops of a GPU kernel -----------===//

#include "GpuEmitter.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace attn;

static LLVM::InlineAsmOp createAsm(OpBuilder &b, Location loc, Type result,
                                   ValueRange operands, StringRef text,
                                   StringRef constraints) {
  auto dialect =
      LLVM::AsmDialectAttr::get(b.getContext(), LLVM::AsmDialect::AD_ATT);
  return LLVM::InlineAsmOp::create(
      b, loc, result, operands, text, constraints, /*has_side_effects=*/true,
      /*is_align_stack=*/false, LLVM::TailCallKind::None, dialect,
      /*operand_attrs=*/ArrayAttr());
}

void GpuEmitter::ptx(StringRef text, StringRef constraints,
                     ValueRange operands) {
  createAsm(b, loc, LLVM::LLVMVoidType::get(b.getContext()), operands, text,
            constraints);
}

SmallVector<Value> GpuEmitter::ptx(StringRef text, StringRef constraints,
                                   TypeRange results, ValueRange operands) {
  if (results.size() == 1)
    return {createAsm(b, loc, results[0], operands, text, constraints)
                .getResult(0)};
  auto type = LLVM::LLVMStructType::getLiteral(b.getContext(),
                                               llvm::to_vector(results));
  Value all = createAsm(b, loc, type, operands, text, constraints).getResult(0);
  SmallVector<Value> values;
  for (int64_t i = 0, e = results.size(); i < e; ++i)
    values.push_back(LLVM::ExtractValueOp::create(b, loc, all, i));
  return values;
}

Value GpuEmitter::fromLane(Value value, int64_t distance) {
  auto shuffle = [&](Value word) -> Value {
    return NVVM::ShflOp::create(b, loc, word.getType(), i32(-1), word,
                                i32(distance), i32(31), NVVM::ShflKind::bfly,
                                UnitAttr());
  };
  Type type = value.getType();
  if (type.getIntOrFloatBitWidth() == 32)
    return shuffle(value);
  auto words = VectorType::get(2, b.getI32Type());
  Value halves = LLVM::BitcastOp::create(b, loc, words, value);
  Value low = vector::ExtractOp::create(b, loc, halves, 0);
  Value high = vector::ExtractOp::create(b, loc, halves, 1);
  Value other[] = {shuffle(low), shuffle(high)};
  Value swapped = vector::FromElementsOp::create(b, loc, words, other);
  return LLVM::BitcastOp::create(b, loc, type, swapped);
}
