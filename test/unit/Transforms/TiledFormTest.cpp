//===- TiledFormTest.cpp - The tiled form against the oracle --------------===//
//
// Random problems go through attn-tile (a part of them from tensors, through
// one-shot bufferization), are run by the interpreter with random tile sizes,
// and are compared with the oracle: outputs within the error bound, rows
// without keys exactly, NaN exactly where the oracle has it. Keys and values
// that no query sees are NaN, gaps between elements are NaN, destinations are
// NaN before; inputs and gaps must be unchanged after.
//
// A failure prints its seed: ATTN_TEST_SEED=... runs that problem first.
//
//===----------------------------------------------------------------------===//

#include "RandomAttention.h"
#include "attn/Reference/Oracle.h"
#include "attn/Target/AttentionProblem.h"
#include "attn/Target/KnownTargets.h"
#include "attn/Target/TilePlanner.h"
#include "attn/Transforms/BufferizableOpInterfaceImpl.h"
#include "attn/Transforms/Passes.h"
#include "mlir/Dialect/Arith/Transforms/BufferizableOpInterfaceImpl.h"
#include "mlir/Dialect/Bufferization/Transforms/FuncBufferizableOpInterfaceImpl.h"
#include "mlir/Dialect/Bufferization/Transforms/Passes.h"
#include "mlir/Dialect/Tensor/Transforms/BufferizableOpInterfaceImpl.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "gtest/gtest.h"

using namespace attn;
using namespace mlir;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const double kNaN = std::numeric_limits<double>::quiet_NaN();

class TiledFormTest : public ::testing::Test {
protected:
  TiledFormTest() {
    DialectRegistry registry;
    registry.insert<AttnDialect, func::FuncDialect>();
    arith::registerBufferizableOpInterfaceExternalModels(registry);
    tensor::registerBufferizableOpInterfaceExternalModels(registry);
    bufferization::func_ext::registerBufferizableOpInterfaceExternalModels(
        registry);
    registerBufferizableOpInterfaceExternalModels(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
  }

  struct Parsed {
    OwningOpRef<ModuleOp> module;
    AttentionOp op;
  };
  Parsed parse(const AttentionCase &c) {
    Parsed parsed;
    parsed.module = parseSourceString<ModuleOp>(c.text(), &context);
    if (parsed.module)
      parsed.module->walk([&](AttentionOp op) { parsed.op = op; });
    return parsed;
  }

  /// Runs one problem and says in one line what is wrong with it, or nothing.
  std::string check(AttentionCase c, std::mt19937_64 &random);
  void checkMany(uint64_t seed, int count);

  Array findVisible(const AttentionCase &c);
  void poison(AttentionCase &c, const Array &visible, std::mt19937_64 &random);
  std::string tile(ModuleOp module, bool isTensor);

  MLIRContext context;
};

/// [B, Hq, Sq, Skv], nonzero where the query sees the key.
Array TiledFormTest::findVisible(const AttentionCase &c) {
  AttentionCase probe = c.probe();
  Parsed parsed = parse(probe);
  llvm::Expected<OracleResult> result =
      evaluateAttention(parsed.op, probe.arrays());
  if (!result) {
    ADD_FAILURE() << llvm::toString(result.takeError());
    return {};
  }
  return std::move(result->output);
}

/// NaN and infinity wherever the op promises not to look.
void TiledFormTest::poison(AttentionCase &c, const Array &visible,
                           std::mt19937_64 &random) {
  const AttentionShape &s = c.shape;
  auto chance = [&](double p) {
    return std::bernoulli_distribution(p)(random);
  };
  auto poisonRow = [&](CaseOperand &operand, Layout layout, int64_t b,
                       int64_t h, int64_t row, double with) {
    for (int64_t d = 0; d < operand.data.shape[3]; ++d)
      (layout == Layout::bhsd ? operand.data.at({b, h, row, d})
                              : operand.data.at({b, row, h, d})) = with;
  };
  int64_t ratio = s.kvHeads ? s.queryHeads / s.kvHeads : 1;
  bool poisonsSeenKeys = chance(0.15), poisonsQueries = chance(0.1);
  for (int64_t b = 0; b < s.batch; ++b)
    for (int64_t h = 0; h < s.kvHeads; ++h)
      for (int64_t j = 0; j < s.kvLength; ++j) {
        bool isSeen = false;
        for (int64_t g = h * ratio; g < (h + 1) * ratio; ++g)
          for (int64_t i = 0; i < s.queryLength; ++i)
            isSeen |= visible.at({b, g, i, j}) != 0;
        double with = chance(0.7) ? kNaN : kInfinity;
        if (!isSeen || (poisonsSeenKeys && chance(0.1)))
          poisonRow(*c.find("key"), c.keyLayout, b, h, j, with);
        if (!isSeen)
          poisonRow(*c.find("value"), c.valueLayout, b, h, j, with);
      }
  if (poisonsQueries && s.batch * s.queryHeads * s.queryLength > 0)
    poisonRow(*c.find("query"), c.queryLayout, 0, s.queryHeads - 1,
              s.queryLength / 2, chance(0.5) ? kNaN : kInfinity);
  CaseOperand *bias = c.find("bias");
  if (bias && ArrayRef(bias->data.shape) == ArrayRef(visible.shape) &&
      chance(0.7))
    for (auto [element, seen] : llvm::zip_equal(bias->data.data, visible.data))
      if (seen == 0)
        element = kNaN;
}

std::string TiledFormTest::tile(ModuleOp module, bool isTensor) {
  PassManager passes(&context);
  if (isTensor) {
    bufferization::OneShotBufferizePassOptions options;
    options.bufferizeFunctionBoundaries = true;
    options.functionBoundaryTypeConversion =
        bufferization::LayoutMapOption::IdentityLayoutMap;
    passes.addPass(bufferization::createOneShotBufferizePass(options));
    bufferization::BufferResultsToOutParamsPassOptions results;
    results.hoistStaticAllocs = true;
    results.modifyPublicFunctions = true;
    results.hoistDynamicAllocs = true;
    passes.addPass(bufferization::createBufferResultsToOutParamsPass(results));
  }
  passes.addPass(createTile());
  return succeeded(passes.run(module)) ? "" : "the passes failed";
}

/// The largest |got - expected| / (1 + |expected|), infinite where only one of
/// them is finite or they are different infinities.
double largestDifference(const Array &got, const Array &expected) {
  double largest = 0;
  for (auto [g, e] : llvm::zip_equal(got.data, expected.data)) {
    if (g == e || (std::isnan(g) && std::isnan(e)))
      continue;
    double difference = std::fabs(g - e) / (1 + std::fabs(e));
    largest =
        std::max(largest, std::isfinite(difference) ? difference : kInfinity);
  }
  return largest;
}

bool isSame(double a, double b) {
  return a == b || (std::isnan(a) && std::isnan(b));
}

bool rowsWithoutKeysAreZero(const AttentionCase &c, const Array &visible,
                            const Array &output) {
  const AttentionShape &s = c.shape;
  for (int64_t b = 0; b < s.batch; ++b)
    for (int64_t h = 0; h < s.queryHeads; ++h)
      for (int64_t i = 0; i < s.queryLength; ++i) {
        bool sees = false;
        for (int64_t j = 0; j < s.kvLength; ++j)
          sees |= visible.at({b, h, i, j}) != 0;
        for (int64_t d = 0; d < s.valueDim && !sees; ++d)
          if (output.at(c.outputLayout == Layout::bhsd
                            ? std::array{b, h, i, d}
                            : std::array{b, i, h, d}) != 0)
            return false;
      }
  return true;
}

std::string TiledFormTest::check(AttentionCase c, std::mt19937_64 &random) {
  Array visible = findVisible(c);
  poison(c, visible, random);
  Parsed parsed = parse(c);
  if (!parsed.op)
    return "does not parse";
  llvm::Expected<OracleResult> expected =
      evaluateAttention(parsed.op, c.arrays());
  if (!expected)
    return llvm::toString(expected.takeError());
  llvm::Expected<OracleResult> straight =
      evaluateStraightforward(parsed.op, c.arrays());
  if (!straight)
    return llvm::toString(straight.takeError());
  double straightError = relativeError(straight->output, expected->output);
  // With equal scores every row is the same row.
  int64_t rows =
      StringRef(c.scoring).contains("scale(0.0") ? 1 : expected->lse.size();
  double bound = errorBound(parsed.op, straightError, rows);
  double lseBound = 3 * largestDifference(straight->lse, expected->lse) +
                    (c.element == "f64" ? 1e-14 : 1e-6);

  if (std::string error = tile(*parsed.module, c.isTensor); !error.empty())
    return error;
  std::vector<HostMemRef> arguments;
  for (const std::vector<CaseOperand> *group : {&c.operands, &c.captures})
    for (const CaseOperand &operand : *group) {
      CaseOperand passed = operand;
      if (c.isTensor) {
        passed.isDense = true;
        arguments.push_back(HostMemRef::contiguous(passed.data));
      } else {
        arguments.push_back(passed.memref());
      }
    }
  size_t firstOut = arguments.size();
  for (CaseOperand out : c.outs) {
    llvm::fill(out.data.data, kNaN);
    arguments.push_back(c.isTensor ? HostMemRef::contiguous(out.data)
                                   : out.memref());
  }
  std::vector<HostMemRef> before = arguments;
  TiledRunOptions options;
  options.reverseParallel = random() & 1;
  auto function = *parsed.module->getOps<func::FuncOp>().begin();
  if (llvm::Error error = runTiled(function, arguments, options))
    return llvm::toString(std::move(error));

  for (size_t a = 0; a < firstOut; ++a)
    for (auto [x, y] :
         llvm::zip_equal(arguments[a].elements, before[a].elements))
      if (!isSame(x, y))
        return "argument #" + std::to_string(a) + " was changed";
  for (size_t a = firstOut; a < arguments.size(); ++a) {
    int64_t written = 0, elements = arguments[a].toArray().size();
    for (double element : arguments[a].elements)
      written += !std::isnan(element);
    if (written > elements)
      return "a gap of a destination was written";
  }
  Array output = arguments[firstOut].toArray();
  double error = relativeError(output, expected->output);
  if (error > bound)
    return "output error " + std::to_string(error / bound) +
           " of its bound; error " + std::to_string(error);
  if (!rowsWithoutKeysAreZero(c, visible, output))
    return "a row without keys is not 0";
  if (c.wantsLse) {
    double difference =
        largestDifference(arguments[firstOut + 1].toArray(), expected->lse);
    if (difference > lseBound)
      return "lse difference " + std::to_string(difference / lseBound) +
             " of its bound";
  }
  return "";
}

void TiledFormTest::checkMany(uint64_t seed, int count) {
  for (int n = 0; n < count; ++n, ++seed) {
    CaseGenerator generator(seed);
    std::mt19937_64 random(seed * 7919 + 1);
    AttentionCase c = generator.next();
    std::string problem = check(c, random);
    EXPECT_EQ(problem, "") << "ATTN_TEST_SEED=" << seed << "\n" << c.text();
    if (::testing::Test::HasFailure())
      return;
  }
}

uint64_t firstSeed() {
  if (const char *given = std::getenv("ATTN_TEST_SEED"))
    return std::strtoull(given, nullptr, 10);
  return std::random_device{}();
}

TEST_F(TiledFormTest, RandomProblems) { checkMany(firstSeed(), 150); }

/// The tile sizes that the planner gives each known chip, GPUs included.
TEST_F(TiledFormTest, TilesOfEveryTarget) {
  uint64_t seed = firstSeed();
  for (const TargetDescription &target : listTargets()) {
    int planned = 0;
    for (int n = 0; n < 8; ++n, ++seed) {
      CaseGenerator generator(seed);
      std::mt19937_64 random(seed);
      AttentionCase c = generator.next();
      Parsed parsed = parse(c);
      ASSERT_TRUE(parsed.op) << c.text();
      llvm::Expected<TilingPlan> plan =
          selectTiling(getProblem(parsed.op), target);
      if (!plan) {
        // A chip may lack the element type, or memory for a tile.
        llvm::consumeError(plan.takeError());
        continue;
      }
      ++planned;
      c.blockQuery = plan->tiling.blockQuery;
      c.blockKey = plan->tiling.blockKey;
      ASSERT_EQ(check(c, random), "")
          << target.name << ", generator seed " << seed << "\n"
          << c.text();
    }
    EXPECT_GT(planned, 0) << target.name;
  }
}

TEST_F(TiledFormTest, LongRandomProblems) { checkMany(firstSeed(), 4000); }

} // namespace
