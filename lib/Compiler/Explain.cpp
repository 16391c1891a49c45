//===- Explain.cpp - What the planner chooses, and why --------------------===//

#include "attn/Compiler/Compiler.h"
#include "attn/IR/Attn.h"
#include "attn/Target/KnownTargets.h"
#include "attn/Target/TilePlanner.h"
#include "llvm/Support/JSON.h"

using namespace mlir;
using namespace attn;

llvm::Expected<std::string>
attn::explain(ModuleOp module, const CompileOptions &options, bool asJson) {
  llvm::Expected<TargetDescription> target = lookupTarget(options.target);
  if (!target)
    return target.takeError();
  llvm::Expected<OwningOpRef<ModuleOp>> shortest =
      lowerToStage(module, Stage::Attn, options);
  if (!shortest)
    return shortest.takeError();

  std::string text;
  llvm::raw_string_ostream os(text);
  llvm::json::Array plans;
  std::string problem;
  (*shortest)->walk([&](AttentionOpInterface op) {
    const TargetDescription &chip =
        op.getTargetAttr() ? op.getTargetAttr().getValue() : *target;
    AttentionProblem attention = getProblem(op);
    llvm::Expected<TilingPlan> plan = selectTiling(attention, chip);
    if (!plan) {
      problem = ("cannot tile '" + op->getName().getStringRef() +
                 "': " + toString(plan.takeError()))
                    .str();
      return WalkResult::interrupt();
    }
    if (asJson)
      plans.push_back(explainJson(attention, *plan, chip));
    else
      os << explainText(attention, *plan, chip) << "\n";
    return WalkResult::advance();
  });
  if (!problem.empty())
    return llvm::createStringError(Twine(problem));
  if (asJson)
    os << llvm::formatv("{0:2}\n", llvm::json::Value(std::move(plans)));
  return text;
}
