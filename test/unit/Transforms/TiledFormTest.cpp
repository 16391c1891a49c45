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

#include "CheckedCase.h"
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

  /// Runs one problem and says in one line what is wrong with it, or nothing.
  std::string check(AttentionCase c, std::mt19937_64 &random);
  void checkMany(uint64_t seed, int count);

  std::string tile(ModuleOp module, bool isTensor);

  MLIRContext context;
};

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

bool isSame(double a, double b) {
  return a == b || (std::isnan(a) && std::isnan(b));
}

std::string TiledFormTest::check(AttentionCase drawn, std::mt19937_64 &random) {
  llvm::Expected<CheckedCase> checked =
      CheckedCase::create(std::move(drawn), context, random);
  if (!checked)
    return llvm::toString(checked.takeError());
  const AttentionCase &c = checked->problem;
  ModuleOp module = *checked->module;
  if (std::string error = tile(module, c.isTensor); !error.empty())
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
  auto function = *module.getOps<func::FuncOp>().begin();
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
  return checked->compare(arguments[firstOut].toArray(),
                          arguments.back().toArray());
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

TEST_F(TiledFormTest, RandomProblems) {
  checkMany(firstSeed(), problemCount(150));
}

/// The tile sizes that the planner gives each known chip, GPUs included.
TEST_F(TiledFormTest, TilesOfEveryTarget) {
  uint64_t seed = firstSeed();
  for (const TargetDescription &target : listTargets()) {
    int planned = 0;
    for (int n = 0; n < 64 && planned < 8; ++n, ++seed) {
      CaseGenerator generator(seed);
      std::mt19937_64 random(seed);
      AttentionCase c = generator.next();
      OwningOpRef<ModuleOp> module =
          parseSourceString<ModuleOp>(c.text(), &context);
      ASSERT_TRUE(module) << c.text();
      AttentionOp op;
      module->walk([&](AttentionOp found) { op = found; });
      llvm::Expected<TilingPlan> plan = selectTiling(getProblem(op), target);
      if (!plan) {
        // A chip may lack the element type, or memory for a tile.
        llvm::consumeError(plan.takeError());
        continue;
      }
      ++planned;
      c.blockQuery = plan->tiling.blockQuery;
      c.blockKey = plan->tiling.blockKey;
      c.softmax = plan->tiling.softmax;
      ASSERT_EQ(check(c, random), "")
          << target.name << ", generator seed " << seed << "\n"
          << c.text();
    }
    EXPECT_GT(planned, 0) << target.name;
  }
}

TEST_F(TiledFormTest, LongRandomProblems) {
  checkMany(firstSeed(), problemCount(4000));
}

} // namespace
