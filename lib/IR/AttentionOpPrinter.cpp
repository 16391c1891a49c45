//===- AttentionOpPrinter.cpp - The attention ops as they are written -----===//
//
// AttentionOpAssembly.cpp shows the syntax.
//
//===----------------------------------------------------------------------===//

#include "AttentionSyntax.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace attn;

static void printOperands(OpAsmPrinter &p, StringRef name,
                          ValueRange operands) {
  if (operands.empty() || !operands.front())
    return;
  p << ' ' << name << '(';
  p.printOperands(operands);
  p << " : ";
  llvm::interleaveComma(operands.getTypes(), p);
  p << ')';
}

static void printLayouts(OpAsmPrinter &p, AttentionOpInterface op) {
  std::pair<StringRef, Layout> layouts[] = {{"query", op.getQueryLayout()},
                                            {"key", op.getKeyLayout()},
                                            {"value", op.getValueLayout()},
                                            {"output", op.getOutputLayout()}};
  auto isBshd = [](auto &entry) { return entry.second == Layout::bshd; };
  if (llvm::none_of(layouts, isBshd))
    return;
  p << " layout(";
  if (llvm::all_of(layouts, isBshd))
    p << "bshd";
  else
    llvm::interleaveComma(llvm::make_filter_range(layouts, isBshd), p,
                          [&](auto &entry) { p << entry.first << " = bshd"; });
  p << ')';
}

static void printRegionClause(OpAsmPrinter &p, StringRef name, Region &region) {
  if (region.empty())
    return;
  p << ' ' << name << '(';
  llvm::interleaveComma(region.getArguments(), p, [&](BlockArgument argument) {
    // A score is f32 unless it is said to be f64; the other types follow.
    p.printRegionArgument(argument, {}, !argument.getType().isF64());
  });
  p << ") ";
  p.printRegion(region, /*printEntryBlockArgs=*/false);
}

static void printGradients(OpAsmPrinter &p, AttentionBackwardOp op) {
  bool captures = !op.getCaptureGradients().empty();
  if (!op.getBiasGradient() && !op.getSinksGradient() && !captures)
    return;
  SmallVector<std::string> names;
  if (op.getBiasGradient())
    names.push_back("bias");
  if (op.getSinksGradient())
    names.push_back("sinks");
  if (captures)
    names.push_back("captures[" +
                    llvm::join(llvm::map_range(op.getCaptureGradients(),
                                               [](int64_t number) {
                                                 return std::to_string(number);
                                               }),
                               ", ") +
                    "]");
  p << " gradients(" << llvm::join(names, ", ") << ')';
}

static void printAttention(OpAsmPrinter &p, AttentionOpInterface op,
                           ValueRange positional, const Syntax &syntax) {
  auto backward = dyn_cast<AttentionBackwardOp>(*op);
  p << ' ';
  p.printOperands(positional);
  printOperands(p, "bias", op.getBias());
  printOperands(p, "mask", op.getMask());
  printOperands(p, "kv_lengths", op.getKvLengths());
  if (op.getQuerySegments() && op.getKvSegments())
    printOperands(p, "segments", {op.getQuerySegments(), op.getKvSegments()});
  printOperands(p, "sinks", op.getSinks());
  printOperands(p, "query_offset", op.getQueryOffset());
  if (backward)
    printOperands(p, "lse_gradient", backward.getLseGradient());
  printLayouts(p, op);
  if (std::optional<APFloat> scale = op.getScale())
    p << " scale(" << *scale << ')';
  if (std::optional<APFloat> softcap = op.getSoftcap())
    p << " softcap(" << *softcap << ')';
  if (op.getCausal())
    p << " causal";
  if (op.getWindowLeft() != -1 || op.getWindowRight() != -1)
    p << " window(" << op.getWindowLeft() << ", " << op.getWindowRight() << ')';
  if (op.getAlignment() == Alignment::bottom_right)
    p << " bottom_right";
  if (backward) {
    printGradients(p, backward);
    if (backward.getDeterministic())
      p << " deterministic";
  }
  if (TargetAttr target = op.getTargetAttr())
    p << " target(" << target << ')';
  if (TilingAttr tiling = op.getTilingAttr())
    p << " tiling(" << tiling << ')';
  printOperands(p, "outs", op.getOuts());
  printOperands(p, "captures", op.getCaptures());
  printRegionClause(p, "score_mod", op.getScoreMod());
  printRegionClause(p, "mask_mod", op.getMaskMod());

  p.printOptionalAttrDict(op->getAttrs(), syntax.attributes);
  p << " : ";
  llvm::interleaveComma(positional.getTypes(), p);
  if (op->getNumResults() != 0) {
    p << " -> ";
    llvm::interleaveComma(op->getResultTypes(), p);
  }
}

void AttentionOp::print(OpAsmPrinter &p) {
  printAttention(p, *this, {getQuery(), getKey(), getValue()}, forwardSyntax());
}

void AttentionBackwardOp::print(OpAsmPrinter &p) {
  printAttention(p, *this,
                 {getQuery(), getKey(), getValue(), getOutput(), getLse(),
                  getOutputGradient()},
                 backwardSyntax());
}
