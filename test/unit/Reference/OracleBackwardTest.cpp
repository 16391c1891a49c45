//===- OracleBackwardTest.cpp - The backward oracle -----------------------===//
//
// Each gradient against central differences of the forward oracle, clause by
// clause, for random coefficients of the output and of the lse: of
//
//   L = sum of dO * output + sum of dlse * lse
//
// the derivative by an input is what the backward oracle returns for dO and
// dlse. Both run in f64, the forward in long double where it is asked for f64.
//
//===----------------------------------------------------------------------===//

#include "AttentionFixture.h"
#include "llvm/ADT/StringExtras.h"

using namespace attn;
using namespace mlir;

namespace {

/// A clause, the function argument that it reads and what to fill that with.
struct Given {
  std::string name, type;
  Array data;
};

class OracleBackwardTest : public AttentionFixture {
protected:
  struct Problem {
    std::string clauses;
    /// What the clauses read, and which of that and of the captures to
    /// differentiate by.
    llvm::SmallVector<Given> operands = {};
    std::string gradients = {};
    llvm::SmallVector<Given> captures = {};
    std::string regions = {};
    AttentionShape shape = {2, 4, 2, 5, 7, 3, 2};
  };

  static std::string tensor(llvm::ArrayRef<int64_t> shape,
                            llvm::StringRef element = "f64") {
    std::string text = "tensor<";
    for (int64_t size : shape)
      text += std::to_string(size) + "x";
    return text + element.str() + ">";
  }

  std::string text(const Problem &p) {
    const AttentionShape &s = p.shape;
    std::string q = tensor({s.batch, s.queryHeads, s.queryLength, s.headDim});
    std::string k = tensor({s.batch, s.kvHeads, s.kvLength, s.headDim});
    std::string v = tensor({s.batch, s.kvHeads, s.kvLength, s.valueDim});
    std::string o = tensor({s.batch, s.queryHeads, s.queryLength, s.valueDim});
    std::string l = tensor({s.batch, s.queryHeads, s.queryLength});
    std::string arguments = "%q: " + q + ", %k: " + k + ", %v: " + v +
                            ", %o: " + o + ", %l: " + l + ", %do: " + o +
                            ", %dl: " + l;
    std::string results = q + ", " + k + ", " + v;
    for (auto *group : {&p.operands, &p.captures})
      for (const Given &given : *group)
        arguments += ", %" + given.name + ": " + given.type;
    llvm::SmallVector<llvm::StringRef> requests;
    llvm::StringRef(p.gradients).split(requests, " ", -1, false);
    auto typeOf = [&](llvm::StringRef name) {
      for (auto *group : {&p.operands, &p.captures})
        for (const Given &given : *group)
          if (given.name == name)
            return given.type;
      return std::string();
    };
    for (llvm::StringRef request : requests)
      results += ", " + typeOf(request);
    std::string clause = p.clauses;
    if (!requests.empty()) {
      llvm::SmallVector<std::string> written, numbers;
      for (llvm::StringRef request : requests)
        if (request == "bias" || request == "sinks")
          written.push_back(request.str());
        else
          numbers.push_back(request.drop_front().str());
      if (!numbers.empty())
        written.push_back("captures[" + llvm::join(numbers, ", ") + "]");
      clause += " gradients(" + llvm::join(written, ", ") + ")";
    }
    if (!p.captures.empty()) {
      llvm::SmallVector<std::string> names, types;
      for (const Given &capture : p.captures) {
        names.push_back("%" + capture.name);
        types.push_back(capture.type);
      }
      clause += " captures(" + llvm::join(names, ", ") + " : " +
                llvm::join(types, ", ") + ")";
    }
    std::string count = std::to_string(3 + requests.size());
    return "func.func @forward(" + arguments + ") -> (" + o + ", " + l +
           ") {\n  %r:2 = attn.attention %q, %k, %v " + p.clauses +
           clause.substr(clause.find(" captures(") == std::string::npos
                             ? clause.size()
                             : clause.find(" captures(")) +
           p.regions + " : " + q + ", " + k + ", " + v + " -> " + o + ", " + l +
           "\n  return %r#0, %r#1 : " + o + ", " + l +
           "\n}\nfunc.func @backward(" + arguments + ") {\n  %r:" + count +
           " = attn.attention_backward %q, %k, %v, %o, %l, %do "
           "lse_gradient(%dl : " +
           l + ") " + clause + p.regions + " : " + q + ", " + k + ", " + v +
           ", " + o + ", " + l + ", " + o + " -> " + results +
           "\n  return\n}\n";
  }

  /// Compares every gradient with central differences.
  void check(Problem p);
};

void OracleBackwardTest::check(Problem p) {
  const AttentionShape &s = p.shape;
  std::string source = text(p);
  parseFunction(source);
  AttentionOp forward;
  AttentionBackwardOp backward;
  modules.back()->walk([&](AttentionOp op) { forward = op; });
  modules.back()->walk([&](AttentionBackwardOp op) { backward = op; });
  ASSERT_TRUE(forward && backward) << source;

  llvm::SmallVector<Array> inputs = {
      randomArray({s.batch, s.queryHeads, s.queryLength, s.headDim}),
      randomArray({s.batch, s.kvHeads, s.kvLength, s.headDim}),
      randomArray({s.batch, s.kvHeads, s.kvLength, s.valueDim})};
  for (const Given &given : p.operands)
    inputs.push_back(given.data);
  for (const Given &given : p.captures)
    inputs.push_back(given.data);
  Array outputGradient =
            randomArray({s.batch, s.queryHeads, s.queryLength, s.valueDim}),
        lseGradient = randomArray({s.batch, s.queryHeads, s.queryLength});
  OracleResult result = evaluate(forward, inputs);
  ASSERT_EQ(result.output.shape, outputGradient.shape);
  // An lse of -inf does not depend on anything.
  auto loss = [&](const OracleResult &r) {
    double sum = 0;
    for (auto [g, x] : llvm::zip_equal(outputGradient.data, r.output.data))
      sum += g * x;
    for (auto [g, x] : llvm::zip_equal(lseGradient.data, r.lse.data))
      sum += std::isfinite(x) ? g * x : 0;
    return sum;
  };

  llvm::SmallVector<Array> operands(inputs);
  operands.append({result.output, result.lse, outputGradient, lseGradient});
  auto gradients = evaluateBackward(backward, operands);
  ASSERT_TRUE(bool(gradients)) << llvm::toString(gradients.takeError());

  llvm::SmallVector<unsigned> differentiated = {0, 1, 2};
  unsigned number = 3;
  for (auto *group : {&p.operands, &p.captures})
    for (const Given &given : *group) {
      if (llvm::is_contained(llvm::split(p.gradients, ' '), given.name))
        differentiated.push_back(number);
      ++number;
    }
  ASSERT_EQ(gradients->size(), differentiated.size());
  for (auto [gradient, input] : llvm::zip_equal(*gradients, differentiated)) {
    ASSERT_EQ(gradient.value.shape, inputs[input].shape);
    for (size_t e = 0; e < inputs[input].data.size(); ++e) {
      double &element = inputs[input].data[e], middle = element;
      if (!std::isfinite(middle))
        continue;
      constexpr double h = 1e-5;
      element = middle + h;
      double above = loss(evaluate(forward, inputs));
      element = middle - h;
      double below = loss(evaluate(forward, inputs));
      element = middle;
      ASSERT_NEAR(gradient.value.data[e], (above - below) / (2 * h), 2e-8)
          << "input #" << input << ", element " << e << "\n"
          << source;
    }
  }
}

Array filled(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<double> pattern) {
  Array array(shape);
  for (size_t e = 0; e < array.data.size(); ++e)
    array.data[e] = pattern[e % pattern.size()];
  return array;
}

TEST_F(OracleBackwardTest, Plain) { check({}); }

TEST_F(OracleBackwardTest, Scales) {
  check({"scale(-0.7)"});
  check({"scale(0.0)"});
}

TEST_F(OracleBackwardTest, Softcap) { check({"softcap(1.5) scale(1.3)"}); }

TEST_F(OracleBackwardTest, Masks) {
  check({"causal"});
  check({"causal bottom_right window(2, 0)"});
  check({"kv_lengths(%n : tensor<2xi32>)",
         {{"n", "tensor<2xi32>", arrayOf({2}, {0, 4})}}});
  check({"segments(%x, %y : tensor<2x5xi32>, tensor<2x7xi32>)",
         {{"x", "tensor<2x5xi32>", filled({2, 5}, {0, 0, 1, 3, 1})},
          {"y", "tensor<2x7xi32>", filled({2, 7}, {0, 1, 1, 2})}}});
}

TEST_F(OracleBackwardTest, RowsWithoutKeysHaveNoGradient) {
  // Row 0 sees nothing: not even infinite gradients come out of it.
  Problem p{"query_offset(%n : tensor<1xi32>) causal",
            {{"n", "tensor<1xi32>", arrayOf({1}, {-1})}}};
  check(p);
}

TEST_F(OracleBackwardTest, BiasIsSummedOverBroadcastDimensions) {
  llvm::SmallVector<int64_t> shapes[] = {{2, 4, 5, 7}, {4, 5, 7}, {2, 1, 1, 7},
                                         {1, 4, 5, 1}, {7},       {1, 1}};
  for (llvm::ArrayRef<int64_t> shape : shapes)
    check({"bias(%bias : " + tensor(shape) + ")",
           {{"bias", tensor(shape), randomArray(shape)}},
           "bias"});
}

TEST_F(OracleBackwardTest, Sinks) {
  Problem p{"sinks(%sinks : tensor<4xf64>) causal",
            {{"sinks", "tensor<4xf64>", randomArray({4})}},
            "sinks"};
  p.operands[0].data.data[1] = -kInfinity;
  check(p);
}

TEST_F(OracleBackwardTest, Alibi) {
  check({"causal",
         {},
         "c0",
         {{"c0", "tensor<4xf64>", randomArray({4})}},
         R"( score_mod(%s: f64, %b, %h, %i, %j, %c) {
      %m = tensor.extract %c[%h] : tensor<4xf64>
      %d = arith.subi %j, %i : index
      %n = arith.index_cast %d : index to i64
      %f = arith.sitofp %n : i64 to f64
      %x = arith.mulf %m, %f : f64
      %r = arith.addf %s, %x : f64
      attn.yield %r : f64
    })"});
}

TEST_F(OracleBackwardTest, RelativePositionsAndAnotherCapture) {
  check({"",
         {},
         "c0 c2",
         {{"c0", "tensor<12xf64>", randomArray({12})},
          {"c1", "tensor<2x5xf64>", randomArray({2, 5})},
          {"c2", "tensor<7xf64>", randomArray({7})}},
         R"( score_mod(%s: f64, %b, %h, %i, %j, %c, %d, %e) {
      %four = arith.constant 4 : index
      %ji = arith.subi %j, %i : index
      %p = arith.addi %ji, %four : index
      %x = tensor.extract %c[%p] : tensor<12xf64>
      %y = tensor.extract %d[%b, %i] : tensor<2x5xf64>
      %z = tensor.extract %e[%j] : tensor<7xf64>
      %xy = arith.mulf %x, %y : f64
      %t = arith.mulf %s, %z : f64
      %r = arith.addf %t, %xy : f64
      attn.yield %r : f64
    })"});
}

/// Every op that has a derivative, where it is smooth: x is in (0.15, 0.45),
/// y in (-1, 1), and e is about 0.1 or 2, as the pair has it.
TEST_F(OracleBackwardTest, EveryOpOfARegion) {
  const char *unary[] = {
      "absf", "atan",  "cos",   "erf",  "exp",   "exp2",      "expm1",
      "log",  "log10", "log1p", "log2", "rsqrt", "sin",       "sqrt",
      "tan",  "tanh",  "floor", "ceil", "round", "roundeven", "trunc"};
  for (std::string op : unary)
    check({"",
           {},
           "",
           {},
           R"( score_mod(%s: f64, %b, %h, %i, %j) {
      %y = math.tanh %s : f64
      %a = arith.constant 0.15 : f64
      %c = arith.constant 0.3 : f64
      %ay = arith.mulf %a, %y : f64
      %x = arith.addf %c, %ay : f64
      %z = math.)" +
               op +
               R"( %x : f64
      %r = arith.addf %z, %y : f64
      attn.yield %r : f64
    })"});
  const char *binary[] = {"arith.addf",    "arith.subf",     "arith.mulf",
                          "arith.divf",    "arith.maximumf", "arith.minimumf",
                          "arith.maxnumf", "arith.minnumf",  "math.powf"};
  for (std::string op : binary)
    check({"", {}, "", {}, R"( score_mod(%s: f64, %b, %h, %i, %j) {
      %y = math.tanh %s : f64
      %a = arith.constant 0.15 : f64
      %c = arith.constant 0.3 : f64
      %x = math.fma %a, %y, %c : f64
      %ij = arith.addi %i, %j : index
      %one = arith.constant 1 : index
      %odd = arith.andi %ij, %one : index
      %is = arith.cmpi eq, %odd, %one : index
      %low = arith.constant 0.1 : f64
      %high = arith.constant 2.0 : f64
      %base = arith.select %is, %low, %high : f64
      %ay = arith.mulf %a, %y : f64
      %n = arith.negf %ay : f64
      %exp = math.exp %n : f64
      %e = arith.mulf %base, %exp : f64
      %z = )" + op + R"( %x, %e : f64
      %p = arith.cmpi sgt, %j, %i : index
      %w = arith.select %p, %z, %y : f64
      %r = arith.addf %z, %w : f64
      attn.yield %r : f64
    })"});
}

TEST_F(OracleBackwardTest, EqualNumbersShareTheGradient) {
  // d max(s, s) / d s is 1, half by either way; absf at 0 has derivative 0.
  Problem p{"scale(0.0)", {}, "", {}, R"(
    score_mod(%s: f64, %b, %h, %i, %j) {
      %zero = arith.constant 0.0 : f64
      %m = arith.maximumf %s, %zero : f64
      attn.yield %m : f64
    })"};
  parseFunction(text(p));
  AttentionBackwardOp op;
  modules.back()->walk([&](AttentionBackwardOp found) { op = found; });
  op.setScale(APFloat(1.0));
  Array zero({2, 2, 7, 3});
  llvm::SmallVector<Array> operands = {Array({2, 4, 5, 3}),
                                       randomArray({2, 2, 7, 3}),
                                       randomArray({2, 2, 7, 2}),
                                       Array({2, 4, 5, 2}),
                                       Array({2, 4, 5}, std::log(7.0)),
                                       randomArray({2, 4, 5, 2}),
                                       Array({2, 4, 5})};
  auto halves = evaluateBackward(op, operands);
  ASSERT_TRUE(bool(halves)) << llvm::toString(halves.takeError());
  op.getScoreMod().front().getTerminator()->setOperand(
      0, op.getScoreMod().getArgument(Score));
  auto whole = evaluateBackward(op, operands);
  ASSERT_TRUE(bool(whole)) << llvm::toString(whole.takeError());
  for (auto [x, y] :
       llvm::zip_equal((*halves)[0].value.data, (*whole)[0].value.data))
    EXPECT_NEAR(x, y / 2, 1e-12);
}

TEST_F(OracleBackwardTest, WhatHasNoDerivativeIsNamed) {
  Problem p{"", {}, "", {}, R"( score_mod(%s: f64, %b, %h, %i, %j) {
      %r = math.acosh %s : f64
      attn.yield %r : f64
    })"};
  parseFunction(text(p));
  AttentionBackwardOp op;
  modules.back()->walk([&](AttentionBackwardOp found) { op = found; });
  auto gradients = evaluateBackward(
      op, {Array({2, 4, 5, 3}), Array({2, 2, 7, 3}), Array({2, 2, 7, 2}),
           Array({2, 4, 5, 2}), Array({2, 4, 5}), Array({2, 4, 5, 2}),
           Array({2, 4, 5})});
  ASSERT_FALSE(bool(gradients));
  EXPECT_EQ(llvm::toString(gradients.takeError()),
            "the reference knows no derivative of math.acosh (in score_mod)");
}

TEST_F(OracleBackwardTest, HiddenPairsAreNotTouched) {
  // Keys 4 and beyond are hidden, and NaN.
  Problem p{"kv_lengths(%n : tensor<2xi32>)",
            {{"n", "tensor<2xi32>", Array({2}, 4)}}};
  parseFunction(text(p));
  AttentionBackwardOp op;
  modules.back()->walk([&](AttentionBackwardOp found) { op = found; });
  Array key = randomArray({2, 2, 7, 3}), value = randomArray({2, 2, 7, 2});
  for (int64_t row = 0; row < 28; ++row)
    if (row % 7 >= 4) {
      std::fill_n(key.data.begin() + row * 3, 3, nan());
      std::fill_n(value.data.begin() + row * 2, 2, nan());
    }
  auto gradients = evaluateBackward(
      op, {randomArray({2, 4, 5, 3}), key, value, p.operands[0].data,
           Array({2, 4, 5, 2}), Array({2, 4, 5}), randomArray({2, 4, 5, 2}),
           Array({2, 4, 5})});
  ASSERT_TRUE(bool(gradients)) << llvm::toString(gradients.takeError());
  for (const GradientResult &gradient : *gradients)
    for (double element : gradient.value.data)
      EXPECT_TRUE(std::isfinite(element));
}

} // namespace
