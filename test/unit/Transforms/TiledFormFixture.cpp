//===- TiledFormFixture.cpp - Runs a tiled problem against the oracle -----===//

#include "TiledFormFixture.h"
#include "attn/IR/TiledForm.h"
#include "attn/Target/AttentionProblem.h"
#include "attn/Target/TilePlanner.h"
#include "attn/Transforms/BufferizableOpInterfaceImpl.h"
#include "attn/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Transforms/BufferizableOpInterfaceImpl.h"
#include "mlir/Dialect/Bufferization/Transforms/FuncBufferizableOpInterfaceImpl.h"
#include "mlir/Dialect/Bufferization/Transforms/Passes.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/Transforms/BufferizableOpInterfaceImpl.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

using namespace attn;
using namespace mlir;

static constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

TiledFormFixture::TiledFormFixture() {
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

std::string TiledFormFixture::tile(ModuleOp module, bool isTensor) {
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

static bool isSame(double a, double b) {
  return a == b || (std::isnan(a) && std::isnan(b));
}

/// Puts a constant in the place of every vote.
static void settleVotes(ModuleOp module, bool vote) {
  module.walk([&](scf::IfOp branch) {
    if (branch->getAttr(kRoleAttrName) !=
        StringAttr::get(branch.getContext(), role::kRescale))
      return;
    OpBuilder b(branch);
    branch.getConditionMutable().assign(
        arith::ConstantOp::create(b, branch.getLoc(), b.getBoolAttr(vote)));
  });
}

bool TiledFormFixture::plan(AttentionCase &c, const TargetDescription &target) {
  OwningOpRef<ModuleOp> module =
      parseSourceString<ModuleOp>(c.text(), &context);
  AttentionOp op;
  if (module)
    module->walk([&](AttentionOp found) { op = found; });
  EXPECT_TRUE(op) << c.text();
  if (!op)
    return false;
  llvm::Expected<TilingPlan> plan = selectTiling(getProblem(op), target);
  if (!plan) {
    llvm::consumeError(plan.takeError());
    return false;
  }
  c.blockQuery = plan->tiling.blockQuery;
  c.blockKey = plan->tiling.blockKey;
  c.softmax = plan->tiling.softmax;
  return true;
}

std::string TiledFormFixture::check(AttentionCase drawn,
                                    std::mt19937_64 &random,
                                    std::optional<bool> vote, double slack) {
  llvm::Expected<CheckedCase> checked =
      CheckedCase::create(std::move(drawn), context, random);
  if (!checked)
    return llvm::toString(checked.takeError());
  const AttentionCase &c = checked->problem;
  ModuleOp module = *checked->module;
  if (std::string error = tile(module, c.isTensor); !error.empty())
    return error;
  if (vote)
    settleVotes(module, *vote);
  std::vector<HostMemRef> inputs, destinations;
  for (const std::vector<CaseOperand> *group : {&c.operands, &c.captures})
    for (const CaseOperand &operand : *group)
      inputs.push_back(asArgument(operand, c.isTensor));
  for (CaseOperand out : c.outs) {
    llvm::fill(out.data.data, kNaN);
    destinations.push_back(asArgument(out, c.isTensor));
  }
  std::string error = runChecked(module, inputs, destinations, random() & 1);
  if (!error.empty())
    return error;
  return checked->compare(destinations.front().toArray(),
                          destinations.back().toArray(), slack);
}

HostMemRef TiledFormFixture::asArgument(CaseOperand operand, bool isTensor) {
  return isTensor ? HostMemRef::contiguous(operand.data) : operand.memref();
}

std::string TiledFormFixture::runChecked(ModuleOp module,
                                         const std::vector<HostMemRef> &inputs,
                                         std::vector<HostMemRef> &destinations,
                                         bool reverseParallel) {
  std::vector<HostMemRef> arguments = inputs;
  llvm::append_range(arguments, destinations);
  TiledRunOptions options;
  options.reverseParallel = reverseParallel;
  auto function = *module.getOps<func::FuncOp>().begin();
  if (llvm::Error error = runTiled(function, arguments, options))
    return llvm::toString(std::move(error));

  for (size_t a = 0; a < inputs.size(); ++a)
    for (auto [x, y] :
         llvm::zip_equal(arguments[a].elements, inputs[a].elements))
      if (!isSame(x, y))
        return "argument #" + std::to_string(a) + " was changed";
  destinations.assign(arguments.begin() + inputs.size(), arguments.end());
  for (const HostMemRef &destination : destinations) {
    int64_t written = 0, elements = destination.toArray().size();
    for (double element : destination.elements)
      written += !std::isnan(element);
    if (written > elements)
      return "a gap of a destination was written";
  }
  return "";
}
