//===- TilePlanner.cpp - The choice among schedules -----------------------===//
//
// Everything that the chips have in common: check that the question can be
// answered, list what the back end can run, reject what does not fit, rank the
// rest, say why. Predictions within kEqual count as equal, and then the
// schedule that takes less memory wins; what is still equal is decided by the
// sizes themselves, so the same question always gets the same answer.
//
//===----------------------------------------------------------------------===//

#include "attn/Target/TilePlanner.h"
#include "Schedules.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <tuple>

using namespace attn;
using namespace attn::planner;

/// Relative difference of predicted times that decides nothing.
static constexpr double kEqual = 0.002;

template <typename... Ts>
static llvm::Error fail(const char *format, Ts &&...values) {
  return llvm::createStringError(
      llvm::formatv(format, std::forward<Ts>(values)...).str());
}

/// The question itself: static head dimensions, a known type, a known family.
static llvm::Error check(const AttentionProblem &problem,
                         const TargetDescription &target) {
  auto known = [](int64_t size) { return AttentionProblem::isDynamic(size); };
  if (known(problem.headDim) || known(problem.valueDim))
    return fail("expected static head dimensions to choose tiles for, got {0}; "
                "state them in the operand types",
                known(problem.headDim) ? "a dynamic one of query and key"
                                       : "a dynamic one of value");
  if (!llvm::is_contained({"f16", "bf16", "f32", "f64"}, problem.elementType))
    return fail("expected elements of f16, bf16, f32 or f64, got {0}",
                problem.elementType);
  if (!llvm::is_contained({"cpu", "cuda", "vulkan"}, target.family))
    return fail("target '{0}' has family '{1}', expected cpu, cuda or vulkan",
                target.name, target.family);
  return llvm::Error::success();
}

static void listSchedules(const AttentionProblem &problem,
                          const TargetDescription &target, Candidates &result) {
  if (target.family == "cpu")
    return problem.isBackward
               ? listCpuBackwardSchedules(problem, target, result)
               : listCpuSchedules(problem, target, result);
  if (problem.isBackward) {
    if (target.family != "cuda")
      return listLaneBackwardSchedules(problem, target, result);
    listWarpgroupBackwardSchedules(problem, target, result);
    // Warpgroups are faster wherever they have a schedule.
    bool hasOne = llvm::any_of(
        result, [](const Candidate &c) { return c.rejection.empty(); });
    if (!hasOne)
      listWarpBackwardSchedules(problem, target, result);
    return;
  }
  if (target.family == "cuda") {
    listTensorCoreSchedules(problem, target, result);
    return listWarpSchedules(problem, target, result);
  }
  listCoopMatrixSchedules(problem, target, result);
  listLaneSchedules(problem, target, result);
}

static llvm::Error noUnitError(const AttentionProblem &problem,
                               const TargetDescription &target) {
  std::vector<std::string> units;
  for (const MatrixUnit &unit : target.matrixUnits)
    units.push_back(unit.kind + " " + unit.type);
  std::string given =
      units.empty() ? "no matrix unit" : llvm::join(units, ", ");
  const char *held = problem.accumulatorBytes() == 8 ? "f64" : "f32";
  if (problem.isBackward)
    return fail("gradients of {0} need the unit fma {1}, and target '{2}' has "
                "{3}; choose a target that has it, such as cpu",
                problem.elementType, held, target.name, given);
  return fail("target '{0}' cannot multiply {1} into {2}; it has {3}",
              target.name, problem.elementType, held, given);
}

/// How far a candidate is over its tightest budget; 1 just fits.
static double overshoot(const Candidate &candidate) {
  double worst = 0;
  for (const MemoryBudget &budget : candidate.budgets)
    worst = std::max(worst, static_cast<double>(budget.used) /
                                std::max<int64_t>(1, budget.limit));
  return worst;
}

static int64_t totalBytes(const Candidate &candidate) {
  int64_t bytes = 0;
  for (const TileUse &use : candidate.tiles)
    bytes += use.bytes;
  return bytes;
}

/// Any total order will do; this one reads well in a list of equals.
static auto sizeOrder(const Candidate &c) {
  const Tiling &t = c.tiling;
  return std::tuple(totalBytes(c), -t.blockQuery, -t.blockKey, t.stages,
                    t.queryStages, t.groups, t.registerRows, -t.registerColumns,
                    t.product, t.softmax, t.pack);
}

static llvm::Error nothingFitsError(const AttentionProblem &problem,
                                    const TargetDescription &target,
                                    const Candidates &rejected) {
  const Candidate &smallest =
      *llvm::min_element(rejected, [](const Candidate &a, const Candidate &b) {
        return std::tuple(overshoot(a), sizeOrder(a)) <
               std::tuple(overshoot(b), sizeOrder(b));
      });
  return fail("no tile fits target '{0}': with head dimensions {1} and {2} of "
              "{3} the smallest (block_query {4}, block_key {5}) {6}",
              target.name, problem.headDim, problem.valueDim,
              problem.elementType, smallest.tiling.blockQuery,
              smallest.tiling.blockKey, smallest.rejection);
}

/// One sentence for each decision that another candidate took differently:
/// what the best with another value would cost.
static void explainDecisions(const Candidates &fitting, TilingPlan &plan) {
  auto compare = [&](llvm::StringRef name, auto valueOf) {
    const Candidate *other = nullptr;
    for (const Candidate &c : fitting)
      if (valueOf(c.tiling) != valueOf(plan.tiling) &&
          (!other || c.prediction.total < other->prediction.total))
        other = &c;
    if (!other)
      return;
    double slower =
        100 * (other->prediction.total / plan.chosen.prediction.total - 1);
    std::string verdict =
        slower > 100 * kEqual
            ? llvm::formatv("is predicted {0:f1} % slower", slower).str()
            : llvm::formatv("is no faster and takes {0} in place of {1}",
                            formatBytes(totalBytes(*other)),
                            formatBytes(totalBytes(plan.chosen)))
                  .str();
    plan.reasons.push_back(llvm::formatv("{0} {1}: the best with {2} {3}", name,
                                         valueOf(plan.tiling),
                                         valueOf(other->tiling), verdict));
  };
  compare("product", [](const Tiling &t) { return t.product; });
  compare("block_query", [](const Tiling &t) { return t.blockQuery; });
  compare("block_key", [](const Tiling &t) { return t.blockKey; });
  compare("stages", [](const Tiling &t) { return t.stages; });
  compare("groups", [](const Tiling &t) { return t.groups; });
}

llvm::Expected<TilingPlan> attn::selectTiling(const AttentionProblem &problem,
                                              const TargetDescription &target) {
  if (llvm::Error error = check(problem, target))
    return std::move(error);
  AttentionProblem sized = problem.withRepresentativeSizes();
  Candidates all;
  listSchedules(sized, target, all);
  if (all.empty())
    return noUnitError(problem, target);

  Candidates fitting, rejected;
  for (Candidate &c : all)
    (c.rejection.empty() ? fitting : rejected).push_back(std::move(c));
  if (fitting.empty())
    return nothingFitsError(problem, target, rejected);

  double best = 0;
  for (Candidate &c : fitting) {
    predict(c, sized, target);
    if (best == 0 || c.prediction.total < best)
      best = c.prediction.total;
  }
  auto isEqualToBest = [&](const Candidate &c) {
    return c.prediction.total <= (1 + kEqual) * best;
  };
  llvm::sort(fitting, [&](const Candidate &a, const Candidate &b) {
    bool equalA = isEqualToBest(a), equalB = isEqualToBest(b);
    if (equalA != equalB)
      return equalA;
    if (equalA)
      return sizeOrder(a) < sizeOrder(b);
    return std::tuple(a.prediction.total, sizeOrder(a)) <
           std::tuple(b.prediction.total, sizeOrder(b));
  });
  // Of interest are the near misses of the product that was chosen.
  auto missOrder = [&](const Candidate &c) {
    return std::tuple(c.tiling.product != fitting.front().tiling.product,
                      overshoot(c), sizeOrder(c));
  };
  llvm::sort(rejected, [&](const Candidate &a, const Candidate &b) {
    return missOrder(a) < missOrder(b);
  });

  TilingPlan plan;
  plan.numFitting = fitting.size();
  plan.numRejected = rejected.size();
  plan.chosen = fitting.front();
  plan.tiling = plan.chosen.tiling;
  explainDecisions(fitting, plan);
  plan.runnersUp.assign(std::next(fitting.begin()), fitting.end());
  constexpr size_t kKept = 3;
  for (const Candidate &c : llvm::ArrayRef(rejected).take_front(kKept))
    plan.rejected.push_back(c);
  return plan;
}
