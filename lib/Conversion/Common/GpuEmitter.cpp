//===- GpuEmitter.cpp - Short names for the ops of a GPU kernel -----------===//

#include "GpuEmitter.h"

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
