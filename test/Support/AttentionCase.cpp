//===- AttentionCase.cpp - One attention problem --------------------------===//

#include "AttentionCase.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace attn;

std::string CaseOperand::type(bool isTensor) const {
  std::string text = isTensor ? "tensor<" : "memref<";
  for (auto [size, open] : llvm::zip_equal(data.shape, isOpen))
    text += (open ? "?" : std::to_string(size)) + "x";
  text += element;
  if (!isDense && !isTensor) {
    auto written = [&](int64_t number) {
      return statesStrides ? std::to_string(number) : "?";
    };
    text += ", strided<[";
    for (size_t d = 0; d + 1 < strides.size(); ++d)
      text += written(strides[d]) + ", ";
    text += "1], offset: " + written(offset()) + ">";
  }
  return text + ">";
}

CaseOperand *AttentionCase::find(StringRef name) {
  for (CaseOperand &operand : operands)
    if (operand.name == name)
      return &operand;
  return nullptr;
}

SmallVector<Array> AttentionCase::arrays() const {
  SmallVector<Array> arrays;
  for (const CaseOperand &operand : operands)
    arrays.push_back(operand.data);
  for (const CaseOperand &capture : captures)
    arrays.push_back(capture.data);
  return arrays;
}

/// Writes READ(%c0, %i, %j) as the read of capture 0 in the form of the op.
static std::string withReads(std::string body, const AttentionCase &c) {
  for (size_t at; (at = body.find("READ(")) != std::string::npos;) {
    size_t end = body.find(')', at);
    auto [name, indices] = StringRef(body).slice(at + 5, end).split(", ");
    unsigned number = 0;
    name.drop_front(2).getAsInteger(10, number);
    std::string read = llvm::formatv(
        "{0} {1}[{2}] : {3}", c.isTensor ? "tensor.extract" : "memref.load",
        name, indices, c.captures[number].type(c.isTensor));
    body.replace(at, end + 1 - at, read);
  }
  return body;
}

static std::string layoutClause(const AttentionCase &c) {
  SmallVector<std::string> parts;
  for (auto [name, layout] :
       {std::pair<StringRef, Layout>{"query", c.queryLayout},
        {"key", c.keyLayout},
        {"value", c.valueLayout},
        {"output", c.outputLayout}})
    if (layout == Layout::bshd)
      parts.push_back(name.str() + " = bshd");
  return parts.empty() ? "" : " layout(" + llvm::join(parts, ", ") + ")";
}

std::string AttentionCase::clauses() const {
  std::string clauses, captureNames, captureTypes, captureArgs;
  auto has = [&](StringRef name) -> const CaseOperand * {
    return const_cast<AttentionCase *>(this)->find(name);
  };
  for (StringRef name : {"bias", "mask", "kv_lengths", "sinks", "query_offset"})
    if (const CaseOperand *operand = has(name))
      clauses +=
          llvm::formatv(" {0}(%{0} : {1})", name, operand->type(isTensor));
  if (const CaseOperand *queries = has("query_segments"))
    clauses += llvm::formatv(
        " segments(%query_segments, %kv_segments : {0}, {1})",
        queries->type(isTensor), has("kv_segments")->type(isTensor));
  for (auto [index, capture] : llvm::enumerate(captures)) {
    captureNames += (index ? ", %" : "%") + capture.name;
    captureTypes += (index ? ", " : "") + capture.type(isTensor);
    captureArgs += ", %c" + std::to_string(index);
  }
  clauses += masks + scoring + layoutClause(*this);
  if (statesTiling)
    clauses += llvm::formatv(
        " tiling(#attn.tiling<block_query = {0}, block_key = {1}, "
        "product = \"{2}\", softmax = \"{3}\"{4}>)",
        blockQuery, blockKey, product, softmax,
        queryGradient.empty() ? ""
                              : ", query_gradient = \"" + queryGradient + "\"");
  if (!captures.empty())
    clauses += " captures(" + captureNames + " : " + captureTypes + ")";
  if (!scoreMod.empty())
    clauses += "\n    score_mod(%s" +
               std::string(element == "f64" ? ": f64" : "") +
               ", %b, %h, %i, %j" + captureArgs + ") {\n" +
               withReads(scoreMod, *this) + "    }";
  if (!maskMod.empty())
    clauses += "\n    mask_mod(%b, %h, %i, %j" + captureArgs + ") {\n" +
               withReads(maskMod, *this) + "    }";
  return clauses;
}

std::string AttentionCase::text() const {
  std::string arguments, destinations, inputs;
  auto addArgument = [&](const CaseOperand &operand) {
    arguments += (arguments.empty() ? "%" : ", %") + operand.name + ": " +
                 operand.type(isTensor);
  };
  for (const std::vector<CaseOperand> *group : {&operands, &captures})
    for (const CaseOperand &operand : *group)
      addArgument(operand);
  SmallVector<std::string> outNames, outTypes;
  for (const CaseOperand &out : outs) {
    outNames.push_back("%" + out.name);
    outTypes.push_back(out.type(isTensor));
    if (!isTensor)
      addArgument(out);
  }
  std::string names = llvm::join(outNames, ", "),
              types = llvm::join(outTypes, ", ");
  if (!isTensor)
    destinations = " outs(" + names + " : " + types + ")";
  for (int i = 0; i < 3; ++i)
    inputs += (i ? ", " : "") + operands[i].type(isTensor);
  std::string op = "attn.attention %query, %key, %value" + destinations +
                   clauses() + "\n    : " + inputs;
  if (!isTensor)
    return "func.func @f(" + arguments + ") {\n  " + op + "\n  return\n}\n";
  return "func.func @f(" + arguments + ") -> (" + types + ") {\n  " + names +
         " = " + op + "\n    -> " + types + "\n  return " + names + " : " +
         types + "\n}\n";
}

static SmallVector<int64_t> denseStrides(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides(shape.size(), 1);
  for (int64_t d = static_cast<int64_t>(shape.size()) - 2; d >= 0; --d)
    strides[d] = strides[d + 1] * shape[d + 1];
  return strides;
}

CaseOperand CaseOperand::dense(StringRef name, StringRef element,
                               ArrayRef<int64_t> shape) {
  CaseOperand operand;
  operand.name = name.str();
  operand.element = element.str();
  operand.data = Array(shape);
  operand.isOpen.assign(shape.size(), false);
  operand.strides = denseStrides(shape);
  return operand;
}

AttentionCase AttentionCase::probe(int64_t groupSize) const {
  int64_t groups = llvm::divideCeil(shape.kvLength, groupSize);
  AttentionCase c = *this;
  c.scoring = " scale(0.0)";
  c.scoreMod.clear();
  c.isTensor = false;
  c.element = c.outputElement = "f32";
  llvm::erase_if(c.operands, [](const CaseOperand &operand) {
    return operand.name == "bias" || operand.name == "sinks";
  });
  c.queryLayout = c.keyLayout = c.valueLayout = c.outputLayout = Layout::bhsd;
  c.operands[0] = CaseOperand::dense(
      "query", "f32", {shape.batch, shape.queryHeads, shape.queryLength, 1});
  c.operands[1] = CaseOperand::dense(
      "key", "f32", {shape.batch, shape.kvHeads, shape.kvLength, 1});
  c.operands[2] = CaseOperand::dense(
      "value", "f32", {shape.batch, shape.kvHeads, shape.kvLength, groups});
  for (int64_t row = 0; row < shape.batch * shape.kvHeads * shape.kvLength;
       ++row)
    c.operands[2].data.data[row * groups + row % shape.kvLength / groupSize] =
        1;
  c.outs = {CaseOperand::dense(
      "o", "f32", {shape.batch, shape.queryHeads, shape.queryLength, groups})};
  c.wantsLse = false;
  return c;
}
