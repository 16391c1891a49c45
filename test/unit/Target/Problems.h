//===- Problems.h - Problems and targets for the planner's tests *- C++ -*-===//

#ifndef ATTN_TEST_UNIT_TARGET_PROBLEMS_H
#define ATTN_TEST_UNIT_TARGET_PROBLEMS_H

#include "attn/Target/KnownTargets.h"
#include "attn/Target/TilePlanner.h"
#include "gtest/gtest.h"

namespace attn {

inline AttentionProblem makeProblem(const char *type, int64_t length,
                                    int64_t headDim, bool causal = false) {
  AttentionProblem p;
  p.batch = 2;
  p.queryHeads = 8;
  p.kvHeads = 8;
  p.queryLength = length;
  p.kvLength = length;
  p.headDim = headDim;
  p.valueDim = headDim;
  p.elementType = type;
  if (causal)
    p.bandRight = 0;
  return p;
}

inline TargetDescription targetNamed(const char *name) {
  llvm::Expected<TargetDescription> target = lookupTarget(name);
  if (!target) {
    ADD_FAILURE() << llvm::toString(target.takeError());
    return {};
  }
  return *target;
}

/// The plan, or a test failure.
inline TilingPlan plan(const AttentionProblem &problem,
                       const TargetDescription &target) {
  llvm::Expected<TilingPlan> result = selectTiling(problem, target);
  if (!result) {
    ADD_FAILURE() << llvm::toString(result.takeError());
    return {};
  }
  return *result;
}

/// The error, or a test failure.
inline std::string refusal(const AttentionProblem &problem,
                           const TargetDescription &target) {
  llvm::Expected<TilingPlan> result = selectTiling(problem, target);
  if (!result)
    return llvm::toString(result.takeError());
  ADD_FAILURE() << "expected a refusal";
  return {};
}

} // namespace attn

#endif // ATTN_TEST_UNIT_TARGET_PROBLEMS_H
