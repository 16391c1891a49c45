//===- AddFallback.cpp - A second function for what TMA cannot copy -------===//
//
// Tiles that the planner gave to TMA rely on addresses and strides of whole
// units of 16 bytes. Where the types leave strides or an offset open, only the
// launch knows: so a clone of the function, planned as if there were no tensor
// maps, is added, and the runtime chooses (attn/IR/Fallback.h).
//
// A tiling that somebody else has stated is kept in the function itself; the
// clone is planned anew. Where the planner has nothing without tensor maps no
// clone is added, and a launch that needs one is refused by the runtime.
//
//===----------------------------------------------------------------------===//

#include "attn/IR/Attn.h"
#include "attn/IR/Fallback.h"
#include "attn/Target/TilePlanner.h"
#include "attn/Transforms/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/SymbolTable.h"

#define DEBUG_TYPE "attn-add-fallback"

namespace attn {
#define GEN_PASS_DEF_ADDFALLBACK
#include "attn/Transforms/Passes.h.inc"
} // namespace attn

using namespace mlir;
using namespace attn;

/// Whether the op's tiles come by tensor maps that some launch cannot make.
static bool dependsOnLaunch(AttentionOpInterface op) {
  TilingAttr tiling = op.getTilingAttr();
  return tiling && op.getTargetAttr() && tiling.getValue().product == "wgmma" &&
         getProblem(op).mapsDependOnLaunch;
}

/// The decision of the planner where there are no tensor maps.
static LogicalResult planWithoutMaps(AttentionOpInterface op) {
  AttentionProblem problem = getProblem(op);
  problem.hasTensorMaps = false;
  llvm::Expected<TilingPlan> plan =
      selectTiling(problem, op.getTargetAttr().getValue());
  if (!plan) {
    llvm::consumeError(plan.takeError());
    return failure();
  }
  op.setTilingAttr(TilingAttr::get(op.getContext(), plan->tiling));
  return success();
}

static SmallVector<AttentionOpInterface> findOpen(func::FuncOp function) {
  SmallVector<AttentionOpInterface> open;
  function.walk([&](AttentionOpInterface op) {
    if (dependsOnLaunch(op))
      open.push_back(op);
  });
  return open;
}

static void addFallback(func::FuncOp function, SymbolTable &symbols) {
  if (findOpen(function).empty())
    return;
  func::FuncOp clone = function.clone();
  clone.setName((function.getName() + "_fallback").str());
  clone->setAttr(kFallbackAttrName,
                 FlatSymbolRefAttr::get(function.getNameAttr()));
  for (AttentionOpInterface op : findOpen(clone))
    if (failed(planWithoutMaps(op)))
      return clone.erase();
  symbols.insert(clone, std::next(function->getIterator()));
}

namespace {
struct AddFallback : attn::impl::AddFallbackBase<AddFallback> {
  void runOnOperation() override {
    SymbolTable symbols(getOperation());
    llvm::SmallDenseSet<StringAttr> done;
    SmallVector<func::FuncOp> functions(getOperation().getOps<func::FuncOp>());
    for (func::FuncOp function : functions)
      if (FlatSymbolRefAttr of = getFallback(function))
        done.insert(of.getAttr());
    for (func::FuncOp function : functions)
      if (!getFallback(function) && !done.contains(function.getNameAttr()))
        addFallback(function, symbols);
  }
};
} // namespace
