//===- RandomAttention.cpp - Attention problems at random -----------------===//

#include "RandomAttention.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace attn;

CaseRange CaseRange::small() {
  static constexpr int64_t lengths[] = {1,  2,  3,  5,  7,  8, 16,
                                        17, 31, 33, 48, 63, 65};
  static constexpr int64_t depths[] = {1, 2, 8, 16, 24, 40, 59, 64};
  static constexpr int64_t ratios[] = {1, 1, 2, 3, 5};
  CaseRange range;
  range.lengths = lengths;
  range.depths = depths;
  range.ratios = ratios;
  static constexpr const char *softmaxes[] = {"exact", "conditional", "stale"};
  range.softmaxes = softmaxes;
  return range;
}

int64_t CaseGenerator::pick(ArrayRef<int64_t> from) {
  return from[between(0, from.size() - 1)];
}
int64_t CaseGenerator::between(int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random);
}
bool CaseGenerator::chance(double probability) {
  return std::bernoulli_distribution(probability)(random);
}

void CaseGenerator::fill(CaseOperand &operand, double low, double high) {
  std::uniform_int_distribution<int64_t> draw(low, high);
  for (double &element : operand.data.data)
    element = static_cast<double>(draw(random));
}

/// Dense or with gaps, with some sizes open; floats are drawn.
CaseOperand CaseGenerator::operand(StringRef name, StringRef element,
                                   ArrayRef<int64_t> shape, bool canBeOpen) {
  CaseOperand operand = CaseOperand::dense(name, element, shape);
  for (size_t d = 0; d < shape.size(); ++d)
    operand.isOpen[d] = canBeOpen && chance(0.3);
  if (shape.size() > 1 && chance(0.3)) {
    operand.isDense = false;
    operand.statesStrides = chance(0.5);
    int64_t stride = 1;
    for (int64_t d = static_cast<int64_t>(shape.size()) - 1; d >= 0; --d) {
      operand.strides[d] = stride;
      stride = stride * shape[d] + between(0, 3);
    }
  }
  if (element[0] == 'i')
    return operand;
  std::normal_distribution<double> normal;
  MLIRContext context;
  Builder b(&context);
  Type type = element == "bf16"  ? Type(b.getBF16Type())
              : element == "f16" ? Type(b.getF16Type())
              : element == "f32" ? Type(b.getF32Type())
                                 : Type(b.getF64Type());
  for (double &value : operand.data.data)
    value = roundToType(normal(random), type);
  return operand;
}

void CaseGenerator::drawSizes(AttentionCase &c) {
  constexpr int64_t blocks[] = {1, 2, 3, 4, 5, 7, 8, 16, 17, 32, 64};
  c.shape.batch = between(1, 2);
  c.shape.kvHeads = between(1, 2);
  c.shape.queryHeads = c.shape.kvHeads * pick(range.ratios);
  c.shape.queryLength = pick(range.lengths);
  c.shape.kvLength = chance(0.4) ? c.shape.queryLength : pick(range.lengths);
  if (chance(0.05)) {
    c.shape.queryLength = between(66, 200);
    c.shape.kvLength = between(66, 300);
  }
  c.shape.headDim = pick(range.depths);
  c.shape.valueDim = chance(0.5) ? c.shape.headDim : pick(range.depths);
  if (chance(0.04))
    *std::array{&c.shape.queryLength, &c.shape.kvLength, &c.shape.headDim,
                &c.shape.valueDim, &c.shape.batch}[between(0, 4)] = 0;
  if (c.shape.kvLength == 0 && !range.hasNoKeys)
    c.shape.kvLength = 1;
  AttentionShape &s = c.shape;
  int64_t ratio = s.queryHeads / s.kvHeads;
  for (int64_t *size : {&s.batch, &s.kvHeads, &ratio}) {
    s.queryHeads = s.kvHeads * ratio;
    if (s.batch * s.queryHeads * s.queryLength * s.kvLength *
            (s.headDim + s.valueDim) >
        range.mostWork)
      *size = 1;
  }
  s.queryHeads = s.kvHeads * ratio;
  c.blockQuery = pick(blocks);
  c.blockKey = pick(blocks);
  c.statesTiling = chance(range.statedTilings);
  if (!range.softmaxes.empty())
    c.softmax = range.softmaxes[between(0, range.softmaxes.size() - 1)];
  const char *elements[] = {"f32", "f32", "f32", "bf16", "f16", "f64"};
  c.element = elements[between(0, 5)];
  c.outputElement = c.element;
  if (chance(0.15))
    c.outputElement = "f32";
  for (Layout *layout :
       {&c.queryLayout, &c.keyLayout, &c.valueLayout, &c.outputLayout})
    *layout = chance(0.25) ? Layout::bshd : Layout::bhsd;
  c.isTensor = chance(0.25);
  c.wantsLse = chance(0.7);
}

void CaseGenerator::drawOperands(AttentionCase &c) {
  auto rows = [&](StringRef name, Layout layout, int64_t heads, int64_t length,
                  int64_t width, StringRef element) {
    SmallVector<int64_t> shape = {c.shape.batch, heads, length, width};
    if (layout == Layout::bshd)
      std::swap(shape[1], shape[2]);
    CaseOperand result = operand(name, element, shape);
    // The head dimensions must be known to tile.
    result.isOpen[3] = false;
    return result;
  };
  const AttentionShape &s = c.shape;
  c.operands.push_back(rows("query", c.queryLayout, s.queryHeads, s.queryLength,
                            s.headDim, c.element));
  c.operands.push_back(
      rows("key", c.keyLayout, s.kvHeads, s.kvLength, s.headDim, c.element));
  c.operands.push_back(rows("value", c.valueLayout, s.kvHeads, s.kvLength,
                            s.valueDim, c.element));
  c.outs.push_back(rows("output", c.outputLayout, s.queryHeads, s.queryLength,
                        s.valueDim, c.outputElement));
  if (c.wantsLse)
    c.outs.push_back(operand("lse", c.element == "f64" ? "f64" : "f32",
                             {s.batch, s.queryHeads, s.queryLength}));
}

void CaseGenerator::addBroadcast(AttentionCase &c, StringRef name,
                                 StringRef element) {
  SmallVector<int64_t> full = {c.shape.batch, c.shape.queryHeads,
                               c.shape.queryLength, c.shape.kvLength};
  SmallVector<int64_t> shape(ArrayRef<int64_t>(full).take_back(between(1, 4)));
  SmallVector<bool> isOne;
  for (int64_t &size : shape) {
    isOne.push_back(chance(0.3) || size == 1);
    if (isOne.back())
      size = 1;
  }
  CaseOperand result = operand(name, element, shape);
  // A dimension that broadcasts says so in its type.
  for (auto [open, one] : llvm::zip_equal(result.isOpen, isOne))
    open = open && !one;
  c.operands.push_back(std::move(result));
}

void CaseGenerator::drawMasks(AttentionCase &c) {
  const AttentionShape &s = c.shape;
  auto integerType = [&] { return chance(0.5) ? "i32" : "i64"; };
  bool isBanded = false;
  if (chance(0.4)) {
    c.masks += " causal";
    isBanded = true;
  }
  if (chance(0.35)) {
    auto bound = [&] { return chance(0.3) ? -1 : between(0, s.kvLength + 2); };
    c.masks += llvm::formatv(" window({0}, {1})", bound(), bound());
    isBanded = true;
  }
  bool isBottomRight = isBanded && chance(0.4);
  if (isBottomRight)
    c.masks += " bottom_right";
  if (range.hasElementMasks && chance(0.2)) {
    addBroadcast(c, "mask", "i1");
    fill(c.operands.back(), 0, chance(0.5) ? 1 : 3);
    for (double &element : c.operands.back().data.data)
      element = element != 0;
  }
  if (chance(0.3)) {
    c.operands.push_back(operand("kv_lengths", integerType(), {s.batch}));
    fill(c.operands.back(), chance(0.2) ? -2 : 0, s.kvLength + 2);
  }
  if (range.hasElementMasks && chance(0.25)) {
    int64_t ids = between(1, 4);
    c.operands.push_back(
        operand("query_segments", integerType(), {s.batch, s.queryLength}));
    fill(c.operands.back(), -1, ids);
    CaseOperand keys =
        operand("kv_segments", integerType(), {s.batch, s.kvLength});
    fill(keys, -1, ids);
    // Packed sequences have their ids in order.
    if (chance(0.7)) {
      llvm::sort(c.operands.back().data.data);
      llvm::sort(keys.data.data);
    }
    c.operands.push_back(std::move(keys));
  }
  if (chance(0.2)) {
    c.operands.push_back(
        operand("sinks", c.element == "f64" ? "f64" : "f32", {s.queryHeads}));
    // Beside a great one all keys are unlikely, a small one counts for nothing.
    double shift = std::array{0, 12, -12}[between(0, 2)];
    for (double &sink : c.operands.back().data.data)
      sink += shift;
    if (chance(0.2) && s.queryHeads > 0)
      c.operands.back().data.data[0] = -std::numeric_limits<double>::infinity();
  }
  if (isBanded && !isBottomRight && chance(0.3)) {
    int64_t count = chance(0.5) ? 1 : s.batch;
    CaseOperand offset = operand("query_offset", integerType(), {count});
    // One offset for all says so in its type.
    if (count == 1)
      offset.isOpen[0] = false;
    fill(offset, -5, s.kvLength + 5);
    c.operands.push_back(std::move(offset));
  }
}

void CaseGenerator::drawScoring(AttentionCase &c) {
  if (chance(0.4))
    c.scoring += llvm::formatv(
        " scale({0:f6})", std::array{0.25, 1.0, 0.0, -0.5, 8.0}[between(0, 4)]);
  if (chance(0.2))
    c.scoring += llvm::formatv(" softcap({0:f6})", chance(0.5) ? 1.5 : 20.0);
  if (!chance(0.25))
    return;
  const char *elements[] = {"f32", "bf16", "f16", "f64"};
  addBroadcast(c, "bias", elements[between(0, 3)]);
  CaseOperand &bias = c.operands.back();
  // Infinities, and the lowest finite number, which is a number and no mask.
  const double infinity = std::numeric_limits<double>::infinity();
  double lowest = bias.element == "f16"    ? -65504.0
                  : bias.element == "bf16" ? -0x1.fep127
                                           : -0x1.fffffep127;
  double special =
      std::array{-infinity, infinity, lowest, lowest}[between(0, 3)];
  if (chance(0.4))
    for (double &element : bias.data.data)
      if (chance(special == infinity ? 0.05 : 0.4))
        element = special;
}

void CaseGenerator::drawRegions(AttentionCase &c) {
  const AttentionShape &s = c.shape;
  std::string f = c.element == "f64" ? "f64" : "f32";
  auto capture = [&](StringRef element, ArrayRef<int64_t> shape) {
    unsigned number = c.captures.size();
    c.captures.push_back(
        operand("capture" + std::to_string(number), element, shape));
    if (element[0] == 'i')
      fill(c.captures.back(), 0, 1);
    return "%c" + std::to_string(number);
  };
  auto readOf = [&](StringRef name, StringRef indices) {
    return "READ(" + name.str() + ", " + indices.str() + ")";
  };
  std::string index = "      %d = arith.subi %j, %i : index\n";
  // A table for a window of keys, which hidden pairs would read beside.
  bool canAddWindow = !StringRef(c.masks).contains("window") &&
                      !StringRef(c.masks).contains("bottom_right") &&
                      !c.find("query_offset");
  switch (chance(0.25) ? between(0, canAddWindow ? 6 : 5) : -1) {
  case 0: // ALiBi.
    c.scoreMod = index +
                 "      %m = " + readOf(capture(f, {s.queryHeads}), "%h") +
                 "\n      %n = arith.index_cast %d : index to i32\n"
                 "      %x = arith.sitofp %n : i32 to " +
                 f + "\n      %y = arith.mulf %m, %x : " + f +
                 "\n      %r = arith.addf %s, %y : " + f + "\n";
    break;
  case 1: // A table of relative positions.
    c.scoreMod =
        index +
        llvm::formatv("      %o = arith.constant {0} : index\n"
                      "      %p = arith.addi %d, %o : index\n",
                      s.queryLength - 1)
            .str() +
        "      %m = " +
        readOf(capture(f, {s.queryLength + std::max<int64_t>(s.kvLength, 1)}),
               "%p") +
        "\n      %r = arith.addf %s, %m : " + f + "\n";
    break;
  case 2: // A bias by hand, with batch and head.
    c.scoreMod =
        "      %m = " +
        readOf(capture(f, {s.batch, s.queryHeads, s.queryLength, s.kvLength}),
               "%b, %h, %i, %j") +
        "\n      %r = arith.addf %s, %m : " + f + "\n";
    break;
  case 3: // Arithmetic on the score only. Without a jump, across which the
          // rounding of a score could take it: tanh(s / 2) is 0.5 where 0.45512
          // s is.
    c.scoreMod = "      %k = arith.constant 0.5 : " + f +
                 "\n      %l = arith.constant 0.45511961 : " + f +
                 "\n      %z = arith.mulf %s, %l : " + f +
                 "\n      %x = arith.mulf %s, %k : " + f +
                 "\n      %y = math.tanh %x : " + f +
                 "\n      %o = arith.cmpf ogt, %y, %k : " + f +
                 "\n      %r = arith.select %o, %y, %z : " + f + "\n";
    break;
  case 4: // By row, from two indices that are the same for the tile's columns.
    c.scoreMod = "      %m = " +
                 readOf(capture("f16", {s.queryLength, s.batch}), "%i, %b") +
                 "\n      %x = arith.extf %m : f16 to " + f +
                 "\n      %r = arith.subf %s, %x : " + f + "\n";
    break;
  case 5: // A column of a table that is not the innermost dimension.
    c.scoreMod = "      %m = " +
                 readOf(capture(f, {s.kvLength, s.queryHeads}), "%j, %h") +
                 "\n      %r = arith.addf %s, %m : " + f + "\n";
    break;
  case 6: {
    int64_t left = between(0, 9), right = between(0, 9);
    c.masks += llvm::formatv(" window({0}, {1})", left, right);
    c.scoreMod = index +
                 llvm::formatv("      %o = arith.constant {0} : index\n"
                               "      %p = arith.addi %d, %o : index\n",
                               left)
                     .str() +
                 "      %m = " + readOf(capture(f, {left + right + 1}), "%p") +
                 "\n      %r = arith.addf %s, %m : " + f + "\n";
    break;
  }
  default:
    break;
  }
  if (!c.scoreMod.empty())
    c.scoreMod += "      attn.yield %r : " + f + "\n";

  switch (range.hasElementMasks && chance(0.25) ? between(0, 5) : -1) {
  case 0: // Every third key.
    c.maskMod = "      %three = arith.constant 3 : index\n"
                "      %sum = arith.addi %i, %j : index\n"
                "      %m = arith.remui %sum, %three : index\n"
                "      %zero = arith.constant 0 : index\n"
                "      %r = arith.cmpi ne, %m, %zero : index\n";
    break;
  case 1: // A table.
    c.maskMod = "      %r = " +
                readOf(capture("i1", {s.queryLength, s.kvLength}), "%i, %j") +
                "\n";
    break;
  case 2: // Documents, by a capture that is read at the key.
    c.maskMod = "      %x = " + readOf(capture("i32", {s.kvLength}), "%j") +
                "\n      %one = arith.constant 1 : i32\n"
                "      %r = arith.cmpi eq, %x, %one : i32\n";
    break;
  case 3: // Per head.
    c.maskMod = "      %one = arith.constant 1 : index\n"
                "      %m = arith.andi %h, %one : index\n"
                "      %r = arith.cmpi eq, %m, %one : index\n";
    break;
  case 4: // Dilated causal.
    c.maskMod = index + "      %one = arith.constant 1 : index\n"
                        "      %m = arith.andi %d, %one : index\n"
                        "      %even = arith.cmpi ne, %m, %one : index\n"
                        "      %before = arith.cmpi sle, %j, %i : index\n"
                        "      %r = arith.andi %even, %before : i1\n";
    break;
  case 5: // By row only.
    c.maskMod = "      %two = arith.constant 2 : index\n"
                "      %r = arith.cmpi uge, %i, %two : index\n";
    break;
  default:
    break;
  }
  if (!c.maskMod.empty())
    c.maskMod += "      attn.yield %r : i1\n";
}

AttentionCase CaseGenerator::next() {
  AttentionCase c;
  drawSizes(c);
  drawOperands(c);
  drawMasks(c);
  drawScoring(c);
  drawRegions(c);
  // The op's order of operands.
  constexpr StringRef order[] = {"query",          "key",         "value",
                                 "bias",           "mask",        "kv_lengths",
                                 "query_segments", "kv_segments", "sinks",
                                 "query_offset"};
  llvm::sort(c.operands, [&](const CaseOperand &x, const CaseOperand &y) {
    return llvm::find(order, x.name) < llvm::find(order, y.name);
  });
  return c;
}
