//===- Vendors.h - The tables of known chips --------------------*- C++ -*-===//

#ifndef ATTN_LIB_TARGET_VENDORS_H
#define ATTN_LIB_TARGET_VENDORS_H

#include "attn/IR/TargetDescription.h"

namespace attn::planner {

using Targets = std::vector<TargetDescription>;

void addCpuTargets(Targets &targets);
void addNvidiaTargets(Targets &targets);
void addVulkanTargets(Targets &targets);
void addNpuTargets(Targets &targets);

} // namespace attn::planner

#endif // ATTN_LIB_TARGET_VENDORS_H
