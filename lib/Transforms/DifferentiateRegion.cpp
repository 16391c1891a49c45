//===- DifferentiateRegion.cpp - The derivative of score_mod --------------===//
//
// The region is a straight line of scalar ops, so reverse mode is two passes
// over it: a copy of the ops in their order, then, last op first, what the
// gradient of each result adds to the gradients of its operands.
//
//   gradient of the yielded score = the argument
//   for op in reverse order, where a gradient has arrived at its result:
//     gradient of operand += gradient of result * d result / d operand
//
// Only what is active is differentiated: it depends on the score, or on a read
// of a capture whose gradient is asked for. Positions and what follows from
// them are constants, and any op may compute them.
//
// Where a derivative jumps, C18 of the op's documentation says what it is.
//
// Griewank and Walther, "Evaluating Derivatives" (2008), section 3.2.
//
//===----------------------------------------------------------------------===//

#include "DifferentiateRegion.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace attn;

//===----------------------------------------------------------------------===//
// Arithmetic that reads like formulas
//===----------------------------------------------------------------------===//

namespace {

/// A float value and the builder that computes with it.
struct Term {
  ImplicitLocOpBuilder *b = nullptr;
  Value value;

  Term number(double x) const {
    return {b,
            arith::ConstantOp::create(*b, b->getFloatAttr(value.getType(), x))};
  }
  template <typename OpTy> Term apply() const {
    return {b, OpTy::create(*b, value)};
  }
  template <typename OpTy> Term apply(Term other) const {
    return {b, OpTy::create(*b, value, other.value)};
  }
  Type type() const { return value.getType(); }
  unsigned width() const { return type().getIntOrFloatBitWidth(); }
  Term to(Type to) const {
    if (type() == to)
      return *this;
    if (width() < to.getIntOrFloatBitWidth())
      return {b, arith::ExtFOp::create(*b, to, value)};
    if (width() > to.getIntOrFloatBitWidth())
      return {b, arith::TruncFOp::create(*b, to, value)};
    return this->to(b->getF32Type()).to(to); // f16 and bf16
  }
};

Term operator+(Term x, Term y) { return x.apply<arith::AddFOp>(y); }
Term operator-(Term x, Term y) { return x.apply<arith::SubFOp>(y); }
Term operator*(Term x, Term y) { return x.apply<arith::MulFOp>(y); }
Term operator/(Term x, Term y) { return x.apply<arith::DivFOp>(y); }
Term operator-(Term x) { return x.apply<arith::NegFOp>(); }
Term operator+(double x, Term y) { return y.number(x) + y; }
Term operator-(double x, Term y) { return y.number(x) - y; }
Term operator*(double x, Term y) { return y.number(x) * y; }

/// `yes` where the condition holds.
Term where(Value condition, Term yes, Term no) {
  return {yes.b,
          arith::SelectOp::create(*yes.b, condition, yes.value, no.value)};
}
Value compare(Term x, arith::CmpFPredicate predicate, Term y) {
  return arith::CmpFOp::create(*x.b, predicate, x.value, y.value);
}
Value isZero(Term x) {
  return compare(x, arith::CmpFPredicate::OEQ, x.number(0));
}

/// The share of the gradient that goes to x where the greater of x and y is
/// taken: half when they are equal.
Term shareOfGreater(Term x, Term y, Term g) {
  Term share =
      where(compare(x, arith::CmpFPredicate::OEQ, y), 0.5 * g, g.number(0));
  return where(compare(x, arith::CmpFPredicate::OGT, y), g, share);
}

} // namespace

//===----------------------------------------------------------------------===//
// Rules
//===----------------------------------------------------------------------===//

/// Gradients of the operands; one without a value is 0.
using Gradients = SmallVector<Term, 3>;

/// From the operands, the result and its gradient.
using Rule = Gradients (*)(ArrayRef<Term> x, Term y, Term g);

#define RULE(...)                                                              \
  [](ArrayRef<Term> x, Term y, Term g) -> Gradients { return {__VA_ARGS__}; }

static Rule findRule(StringRef op) {
  using namespace llvm::numbers;
  static const llvm::StringMap<Rule> rules = {
      {"arith.addf", RULE(g, g)},
      {"arith.subf", RULE(g, -g)},
      {"arith.mulf", RULE(g * x[1], g * x[0])},
      {"arith.divf", RULE(g / x[1], -(g * y) / x[1])},
      {"arith.negf", RULE(-g)},
      {"arith.maximumf",
       RULE(shareOfGreater(x[0], x[1], g), shareOfGreater(x[1], x[0], g))},
      {"arith.maxnumf",
       RULE(shareOfGreater(x[0], x[1], g), shareOfGreater(x[1], x[0], g))},
      {"arith.minimumf",
       RULE(shareOfGreater(x[1], x[0], g), shareOfGreater(x[0], x[1], g))},
      {"arith.minnumf",
       RULE(shareOfGreater(x[1], x[0], g), shareOfGreater(x[0], x[1], g))},
      {"arith.select", RULE(Term(), where(x[0].value, g, g.number(0)),
                            where(x[0].value, g.number(0), g))},
      // Left as they are: a sum of gradients is not to be rounded to the
      // narrow type of what is differentiated.
      {"arith.extf", RULE(g)},
      {"arith.truncf", RULE(g)},
      {"math.absf",
       RULE(where(isZero(x[0]), g.number(0),
                  g * x[0].number(1).apply<math::CopySignOp>(x[0])))},
      {"math.atan", RULE(g / (1 + x[0] * x[0]))},
      {"math.ceil", RULE()},
      {"math.cos", RULE(-(g * x[0].apply<math::SinOp>()))},
      {"math.erf",
       RULE(2 * inv_sqrtpi * g * (-(x[0] * x[0])).apply<math::ExpOp>())},
      {"math.exp", RULE(g * y)},
      {"math.exp2", RULE(ln2 * (g * y))},
      {"math.expm1", RULE(g * (1 + y))},
      {"math.floor", RULE()},
      {"math.fma", RULE(g * x[1], g * x[0], g)},
      {"math.log", RULE(g / x[0])},
      {"math.log10", RULE(g / (ln10 * x[0]))},
      {"math.log1p", RULE(g / (1 + x[0]))},
      {"math.log2", RULE(g / (ln2 * x[0]))},
      {"math.powf",
       RULE(where(isZero(x[1]), g.number(0),
                  g * x[1] * x[0].apply<math::PowFOp>(-1.0 + x[1])),
            where(isZero(x[0]), g.number(0),
                  g * y * x[0].apply<math::LogOp>()))},
      {"math.round", RULE()},
      {"math.roundeven", RULE()},
      {"math.rsqrt", RULE(-0.5 * (g * y * y * y))},
      {"math.sin", RULE(g * x[0].apply<math::CosOp>())},
      {"math.sqrt", RULE(0.5 * g / y)},
      {"math.tan", RULE(g * (1 + y * y))},
      {"math.tanh", RULE(g * (1 - y * y))},
      {"math.trunc", RULE()},
  };
  return rules.lookup(op);
}

#undef RULE

//===----------------------------------------------------------------------===//
// The region
//===----------------------------------------------------------------------===//

namespace {

class ReverseMode {
public:
  ReverseMode(AttentionOpInterface op, ArrayRef<int64_t> captures)
      : source(op.getScoreMod().front()), captures(captures),
        b(op.getLoc(), op.getContext()) {}

  FailureOr<ScoreDerivative> run();

private:
  void copyForward();
  LogicalResult goBack();
  LogicalResult differentiate(Operation &op, Term gradient);
  void addGradient(Value value, Value gradient);
  void yield(ScoreDerivative &derivative);
  void dropDeadOps(Block &block);
  bool isActive(Value value) const { return active.contains(value); }
  /// The number of the capture that an op reads, if its gradient is wanted.
  std::optional<int64_t> wantedCapture(Operation &op) const;

  Block &source;
  ArrayRef<int64_t> captures;
  ImplicitLocOpBuilder b;
  /// From the source to the copy.
  IRMapping copies;
  llvm::DenseSet<Value> active;
  /// Of values of the source, in their type or a wider one.
  llvm::DenseMap<Value, Value> gradients;
  SmallVector<Operation *> reads;
};

} // namespace

std::optional<int64_t> ReverseMode::wantedCapture(Operation &op) const {
  if (!isa<tensor::ExtractOp, memref::LoadOp>(op))
    return std::nullopt;
  int64_t number = cast<BlockArgument>(op.getOperand(0)).getArgNumber() -
                   static_cast<int64_t>(kScoreModArguments);
  return llvm::is_contained(captures, number) ? std::optional(number)
                                              : std::nullopt;
}

void ReverseMode::copyForward() {
  active.insert(source.getArgument(Score));
  for (Operation &op : source.without_terminator()) {
    b.clone(op, copies);
    bool isRead = isa<tensor::ExtractOp, memref::LoadOp>(op);
    if (isRead ? wantedCapture(op).has_value()
               : llvm::any_of(op.getOperands(),
                              [&](Value x) { return isActive(x); }))
      for (Value result : op.getResults())
        if (isa<FloatType>(result.getType()))
          active.insert(result);
  }
}

void ReverseMode::addGradient(Value value, Value gradient) {
  Value &sum = gradients[value];
  if (!sum) {
    sum = gradient;
    return;
  }
  Term x = {&b, sum}, y = {&b, gradient};
  Type wider = x.width() < y.width() ? y.type() : x.type();
  sum = (x.to(wider) + y.to(wider)).value;
}

LogicalResult ReverseMode::differentiate(Operation &op, Term gradient) {
  Rule rule = findRule(op.getName().getStringRef());
  if (!rule)
    return op.emitOpError("in score_mod has no derivative; expected arith and "
                          "math ops that have one, or an op that depends on "
                          "neither the score nor a differentiated capture");
  SmallVector<Term> operands;
  for (Value operand : op.getOperands())
    operands.push_back({&b, copies.lookupOrDefault(operand)});
  Term result = {&b, copies.lookup(op.getResult(0))};
  if (!isa<arith::ExtFOp, arith::TruncFOp>(op))
    gradient = gradient.to(result.type());
  for (auto [index, term] : llvm::enumerate(rule(operands, result, gradient))) {
    Value operand = op.getOperand(index);
    if (term.value && isActive(operand))
      addGradient(operand, term.value);
  }
  return success();
}

LogicalResult ReverseMode::goBack() {
  for (Operation &op : llvm::reverse(source.without_terminator())) {
    if (op.getNumResults() != 1 || !isActive(op.getResult(0)))
      continue;
    Value gradient = gradients.lookup(op.getResult(0));
    if (!gradient)
      continue;
    b.setLoc(op.getLoc());
    if (wantedCapture(op))
      reads.push_back(&op);
    else if (failed(differentiate(op, {&b, gradient})))
      return failure();
  }
  return success();
}

void ReverseMode::yield(ScoreDerivative &derivative) {
  Term score = {&b, copies.lookup(source.getArgument(Score))};
  Term ofScore = {&b, gradients.lookup(source.getArgument(Score))};
  ofScore = ofScore.value ? ofScore.to(score.type()) : score.number(0);
  SmallVector<Value> yielded = {ofScore.value};
  for (Operation *read : reads) {
    ValueRange indices = read->getOperands().drop_front();
    derivative.reads.push_back(
        {*wantedCapture(*read), static_cast<unsigned>(indices.size())});
    yielded.push_back(gradients.lookup(read->getResult(0)));
    for (Value index : indices)
      yielded.push_back(copies.lookup(index));
  }
  YieldOp::create(b, yielded);
}

void ReverseMode::dropDeadOps(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isOpTriviallyDead(&op))
      op.erase();
}

FailureOr<ScoreDerivative> ReverseMode::run() {
  ScoreDerivative derivative;
  derivative.region = std::make_unique<Region>();
  Block &block = derivative.region->emplaceBlock();
  Value given =
      block.addArgument(source.getArgument(Score).getType(), b.getLoc());
  for (BlockArgument argument : source.getArguments())
    copies.map(argument,
               block.addArgument(argument.getType(), argument.getLoc()));
  b.setInsertionPointToStart(&block);
  copyForward();
  Value result = source.getTerminator()->getOperand(0);
  if (isActive(result))
    addGradient(result, given);
  if (failed(goBack()))
    return failure();
  yield(derivative);
  dropDeadOps(block);
  return derivative;
}

FailureOr<ScoreDerivative>
attn::differentiateScoreMod(AttentionOpInterface op,
                            ArrayRef<int64_t> captures) {
  return ReverseMode(op, captures).run();
}
