//===- AttentionParts.cpp - Operands by name and dimension ----------------===//

#include "AttentionParts.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace attn;

using Names = std::vector<std::string>;

static Names rows(Layout layout, const char *heads, const char *length,
                  const char *depth) {
  return layout == Layout::bhsd ? Names{"B", heads, length, depth}
                                : Names{"B", length, heads, depth};
}

/// The trailing dimensions of [B, Hq, Sq, Skv].
static Names broadcast(Value value) {
  Names names = {"B", "Hq", "Sq", "Skv"};
  if (value)
    names.erase(names.begin(),
                names.end() - cast<ShapedType>(value.getType()).getRank());
  return names;
}

Value attn::withoutCasts(Value value) {
  while (value) {
    Operation *op = value.getDefiningOp();
    if (!isa_and_nonnull<tensor::CastOp, memref::CastOp>(op))
      break;
    value = op->getOperand(0);
  }
  return value;
}

std::vector<AttentionPart> attn::getParts(AttentionOpInterface op) {
  std::vector<AttentionPart> parts;
  auto add = [&](StringRef name, Value value, Names dimensions,
                 bool isWritten = false, StringRef lowest = "",
                 StringRef highest = "") {
    if (value)
      parts.push_back({name.str(), withoutCasts(value), std::move(dimensions),
                       isWritten,
                       name == "bias" || name == "bias_gradient" ||
                           name == "mask" || name == "query_offset",
                       lowest, highest});
  };
  auto addIntegers = [&](StringRef name, Value value, Names dimensions,
                         StringRef highest) {
    add(name, value, std::move(dimensions), false, "0", highest);
  };
  add("query", op.getQuery(), rows(op.getQueryLayout(), "Hq", "Sq", "D"));
  add("key", op.getKey(), rows(op.getKeyLayout(), "Hkv", "Skv", "D"));
  add("value", op.getValue(), rows(op.getValueLayout(), "Hkv", "Skv", "Dv"));
  add("bias", op.getBias(), broadcast(op.getBias()));
  add("mask", op.getMask(), broadcast(op.getMask()));
  addIntegers("kv_lengths", op.getKvLengths(), {"B"}, "Skv");
  // A few long segments.
  addIntegers("query_segments", op.getQuerySegments(), {"B", "Sq"}, "3");
  addIntegers("kv_segments", op.getKvSegments(), {"B", "Skv"}, "3");
  add("sinks", op.getSinks(), {"Hq"});
  addIntegers("query_offset", op.getQueryOffset(), {"B"}, "max(0, Skv - Sq)");
  for (auto [index, capture] : llvm::enumerate(op.getCaptures()))
    add("capture" + llvm::utostr(index), capture, {});

  const Names output = rows(op.getOutputLayout(), "Hq", "Sq", "Dv");
  const Names lse = {"B", "Hq", "Sq"};
  SmallVector<std::pair<std::string, Names>> results;
  if (auto backward = dyn_cast<AttentionBackwardOp>(*op)) {
    add("output", backward.getOutput(), output);
    add("lse", backward.getLse(), lse);
    add("output_gradient", backward.getOutputGradient(), output);
    add("lse_gradient", backward.getLseGradient(), lse);
    results = {
        {"query_gradient", rows(op.getQueryLayout(), "Hq", "Sq", "D")},
        {"key_gradient", rows(op.getKeyLayout(), "Hkv", "Skv", "D")},
        {"value_gradient", rows(op.getValueLayout(), "Hkv", "Skv", "Dv")}};
    if (backward.getBiasGradient())
      results.emplace_back("bias_gradient", broadcast(op.getBias()));
    if (backward.getSinksGradient())
      results.emplace_back("sinks_gradient", Names{"Hq"});
    for (int64_t number : backward.getCaptureGradients())
      results.emplace_back("capture" + llvm::itostr(number) + "_gradient",
                           Names{});
  } else {
    results = {{"output", output}, {"lse", lse}};
  }
  for (auto [destination, result] : llvm::zip_first(op.getOuts(), results))
    if (op.isMemRefForm())
      add(result.first, destination, result.second, /*isWritten=*/true);
    else // an input whose elements do not matter
      add(result.first + "_destination", destination, result.second);
  for (auto [value, result] : llvm::zip_first(op->getResults(), results))
    add(result.first, value, result.second);
  return parts;
}
