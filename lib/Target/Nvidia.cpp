#include "Vendors.h"
void attn::planner::addNvidiaTargets(Targets &targets) {}
