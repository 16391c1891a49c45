//===- LaneDerivative.cpp - Partial derivatives of a lane op --------------===//
//
// Where a derivative jumps: steps have derivative 0, |x| has 0 at 0, and of two
// equal numbers each has half of their maximum (C18).
//
//===----------------------------------------------------------------------===//

#include "LaneDerivative.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/MathExtras.h"

using namespace attn::reference;

/// Of the first of two numbers, where the greater one is taken.
static double shareOfGreater(double a, double b) {
  return a > b ? 1 : a == b ? 0.5 : 0;
}

static double sign(double x) { return x > 0 ? 1 : x < 0 ? -1 : 0; }

// x is the array of operands, y the result.
#define UNARY(partial)                                                         \
  [](const Scalar *x, double y, double *partials) { partials[0] = partial; }
#define BINARY(first, second)                                                  \
  [](const Scalar *x, double y, double *partials) {                            \
    partials[0] = first;                                                       \
    partials[1] = second;                                                      \
  }

static const llvm::StringMap<LaneDerivative> &derivatives() {
  using namespace llvm::numbers;
  static const llvm::StringMap<LaneDerivative> table = {
      {"arith.addf", BINARY(1, 1)},
      {"arith.subf", BINARY(1, -1)},
      {"arith.mulf", BINARY(x[1].f, x[0].f)},
      {"arith.divf", BINARY(1 / x[1].f, -y / x[1].f)},
      {"arith.negf", UNARY(-1)},
      {"arith.maximumf",
       BINARY(shareOfGreater(x[0].f, x[1].f), shareOfGreater(x[1].f, x[0].f))},
      {"arith.maxnumf",
       BINARY(shareOfGreater(x[0].f, x[1].f), shareOfGreater(x[1].f, x[0].f))},
      {"arith.minimumf",
       BINARY(shareOfGreater(x[1].f, x[0].f), shareOfGreater(x[0].f, x[1].f))},
      {"arith.minnumf",
       BINARY(shareOfGreater(x[1].f, x[0].f), shareOfGreater(x[0].f, x[1].f))},
      {"arith.select",
       [](const Scalar *x, double, double *partials) {
         partials[x[0].i & 1 ? 1 : 2] = 1;
       }},
      {"arith.extf", UNARY(1)},
      {"arith.truncf", UNARY(1)},
      {"math.absf", UNARY(sign(x[0].f))},
      {"math.atan", UNARY(1 / (1 + x[0].f * x[0].f))},
      {"math.ceil", UNARY(0)},
      {"math.cos", UNARY(-std::sin(x[0].f))},
      {"math.erf", UNARY(2 * inv_sqrtpi * std::exp(-x[0].f * x[0].f))},
      {"math.exp", UNARY(y)},
      {"math.exp2", UNARY(y * ln2)},
      {"math.expm1", UNARY(y + 1)},
      {"math.floor", UNARY(0)},
      {"math.fma",
       [](const Scalar *x, double, double *partials) {
         partials[0] = x[1].f;
         partials[1] = x[0].f;
         partials[2] = 1;
       }},
      {"math.log", UNARY(1 / x[0].f)},
      {"math.log10", UNARY(1 / (x[0].f * ln10))},
      {"math.log1p", UNARY(1 / (1 + x[0].f))},
      {"math.log2", UNARY(1 / (x[0].f * ln2))},
      {"math.powf",
       BINARY(x[1].f == 0 ? 0 : x[1].f * std::pow(x[0].f, x[1].f - 1),
              x[0].f == 0 ? 0 : y * std::log(x[0].f))},
      {"math.round", UNARY(0)},
      {"math.roundeven", UNARY(0)},
      {"math.rsqrt", UNARY(-y / (2 * x[0].f))},
      {"math.sin", UNARY(std::cos(x[0].f))},
      {"math.sqrt", UNARY(1 / (2 * y))},
      {"math.tan", UNARY(1 + y * y)},
      {"math.tanh", UNARY(1 - y * y)},
      {"math.trunc", UNARY(0)},
  };
  return table;
}

#undef UNARY
#undef BINARY

LaneDerivative attn::reference::lookUpLaneDerivative(llvm::StringRef op) {
  return derivatives().lookup(op);
}
