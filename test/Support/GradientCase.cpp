//===- GradientCase.cpp - A backward problem and what to expect -----------===//

#include "GradientCase.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace attn;
using namespace mlir;

static bool chance(std::mt19937_64 &random, double probability) {
  return std::bernoulli_distribution(probability)(random);
}

/// An operand of this shape, dense or with gaps.
static CaseOperand likeOperand(StringRef name, StringRef element,
                               ArrayRef<int64_t> shape,
                               std::mt19937_64 &random) {
  CaseOperand operand = CaseOperand::dense(name, element, shape);
  if (shape.size() > 1 && chance(random, 0.3)) {
    operand.isDense = false;
    operand.statesStrides = chance(random, 0.5);
    int64_t stride = 1;
    for (int64_t d = static_cast<int64_t>(shape.size()) - 1; d >= 0; --d) {
      operand.strides[d] = stride;
      stride = stride * shape[d] + static_cast<int64_t>(random() % 3);
    }
  }
  return operand;
}

static Type typeOf(StringRef element, MLIRContext &context) {
  Builder b(&context);
  return element == "bf16"  ? Type(b.getBF16Type())
         : element == "f16" ? Type(b.getF16Type())
         : element == "f32" ? Type(b.getF32Type())
                            : Type(b.getF64Type());
}

void GradientCase::drawForward(const OracleResult &result,
                               std::mt19937_64 &random) {
  MLIRContext context;
  std::string accumulator = problem.element == "f64" ? "f64" : "f32";
  auto add = [&](StringRef name, StringRef element, const Array &data) {
    CaseOperand operand = likeOperand(name, element, data.shape, random);
    operand.data = data;
    roundToType(operand.data, typeOf(element, context));
    forward.push_back(std::move(operand));
  };
  auto drawn = [&](ArrayRef<int64_t> shape) {
    Array array(shape);
    std::normal_distribution<double> normal;
    for (double &element : array.data)
      element = normal(random);
    return array;
  };
  add("output", problem.outputElement, result.output);
  add("lse", accumulator, result.lse);
  add("output_gradient", chance(random, 0.8) ? problem.element : "f32",
      drawn(result.output.shape));
  if (chance(random, 0.4))
    add("lse_gradient", accumulator, drawn(result.lse.shape));
}

void GradientCase::drawRequests(std::mt19937_64 &random) {
  std::string accumulator = problem.element == "f64" ? "f64" : "f32";
  auto addOut = [&](const CaseOperand &operand, StringRef element) {
    outs.push_back(
        likeOperand("d_" + operand.name, element, operand.data.shape, random));
  };
  for (unsigned n = 0; n < 3; ++n)
    addOut(problem.operands[n],
           chance(random, 0.8) ? StringRef(problem.element) : "f32");
  if (const CaseOperand *bias = problem.find("bias"))
    if ((wantsBias = chance(random, 0.8)))
      addOut(*bias, accumulator);
  if (const CaseOperand *sinks = problem.find("sinks"))
    if ((wantsSinks = chance(random, 0.8)))
      addOut(*sinks, accumulator);
  for (auto [number, capture] : llvm::enumerate(problem.captures))
    if (capture.element[0] != 'i' && chance(random, 0.8)) {
      wantedCaptures.push_back(number);
      addOut(capture, accumulator);
    }
  // A dimension that broadcasts says so.
  for (CaseOperand &out : outs)
    out.isOpen.assign(out.data.shape.size(), false);
}

std::string GradientCase::text() const {
  const AttentionCase &c = problem;
  std::string arguments;
  auto addArguments = [&](ArrayRef<CaseOperand> operands) {
    for (const CaseOperand &operand : operands)
      arguments += (arguments.empty() ? "%" : ", %") + operand.name + ": " +
                   operand.type(c.isTensor);
  };
  addArguments(c.operands);
  addArguments(c.captures);
  addArguments(forward);
  SmallVector<std::string> names, types, requests, inputs;
  for (const CaseOperand &out : outs) {
    names.push_back("%" + out.name);
    types.push_back(out.type(c.isTensor));
  }
  std::string clauses;
  if (!c.isTensor) {
    addArguments(outs);
    clauses += " outs(" + llvm::join(names, ", ") + " : " +
               llvm::join(types, ", ") + ")";
  }
  if (forward.size() > 3)
    clauses +=
        " lse_gradient(%lse_gradient : " + forward[3].type(c.isTensor) + ")";
  if (wantsBias)
    requests.push_back("bias");
  if (wantsSinks)
    requests.push_back("sinks");
  if (!wantedCaptures.empty()) {
    SmallVector<std::string> numbers;
    for (int64_t number : wantedCaptures)
      numbers.push_back(std::to_string(number));
    requests.push_back("captures[" + llvm::join(numbers, ", ") + "]");
  }
  if (!requests.empty())
    clauses += " gradients(" + llvm::join(requests, ", ") + ")";
  for (ArrayRef<CaseOperand> group :
       {ArrayRef(c.operands).take_front(3), ArrayRef(forward).take_front(3)})
    for (const CaseOperand &operand : group)
      inputs.push_back(operand.type(c.isTensor));
  std::string op =
      "attn.attention_backward %query, %key, %value, %output, %lse, "
      "%output_gradient" +
      clauses + c.clauses() + "\n    : " + llvm::join(inputs, ", ");
  if (!c.isTensor)
    return "func.func @g(" + arguments + ") {\n  " + op + "\n  return\n}\n";
  std::string results = llvm::join(types, ", ");
  std::string list = llvm::join(names, ", ");
  return "func.func @g(" + arguments + ") -> (" + results + ") {\n  " + list +
         " = " + op + "\n    -> " + results + "\n  return " + list + " : " +
         results + "\n}\n";
}

llvm::Expected<GradientCase> GradientCase::create(AttentionCase drawn,
                                                  MLIRContext &context,
                                                  std::mt19937_64 &random) {
  // A bias of +inf makes NaN of its row: nothing to compare.
  if (CaseOperand *bias = drawn.find("bias"))
    for (double &element : bias->data.data)
      if (element == std::numeric_limits<double>::infinity())
        element = 1;
  llvm::Expected<CheckedCase> checked =
      CheckedCase::create(std::move(drawn), context, random,
                          std::numeric_limits<int64_t>::max() / 2,
                          /*poisonsVisible=*/false);
  if (!checked)
    return checked.takeError();
  GradientCase result;
  result.problem = checked->problem;
  result.drawForward(checked->expectedResult(), random);
  result.drawRequests(random);
  // The other schedule adds to the query gradient alone.
  if (!result.wantsBias && result.wantedCaptures.empty() &&
      result.problem.queryGradient.empty() && chance(random, 0.5))
    result.problem.queryGradient = "accumulated";
  AttentionBackwardOp op;
  result.module = parseSourceString<ModuleOp>(result.text(), &context);
  if (!result.module)
    return llvm::createStringError("does not parse: " + result.text());
  result.module->walk([&](AttentionBackwardOp found) { op = found; });
  SmallVector<Array> arrays = result.problem.arrays();
  for (const CaseOperand &operand : result.forward)
    arrays.push_back(operand.data);
  auto exact = evaluateBackward(op, arrays);
  if (!exact)
    return exact.takeError();
  auto straight = evaluateStraightforwardBackward(op, arrays);
  if (!straight)
    return straight.takeError();
  result.expected = std::move(*exact);
  for (auto [want, got] : llvm::zip_equal(result.expected, *straight))
    result.bounds.push_back(gradientBound(op, got.value, want));
  return result;
}

std::string GradientCase::compare(ArrayRef<Array> gradients) const {
  for (auto [out, got, want, bound] :
       llvm::zip_equal(outs, gradients, expected, bounds)) {
    double error = gradientError(got, want);
    // Written so that a NaN is beyond.
    if (!(error <= bound))
      return llvm::formatv("{0} error {1:e3}, bound {2:e3}", out.name, error,
                           bound);
  }
  return "";
}
