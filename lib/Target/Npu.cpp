#include "Vendors.h"
void attn::planner::addNpuTargets(Targets &targets) {}
