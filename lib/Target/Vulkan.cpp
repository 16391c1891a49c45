#include "Vendors.h"
void attn::planner::addVulkanTargets(Targets &targets) {}
