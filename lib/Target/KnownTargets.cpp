//===- KnownTargets.cpp - Chips by name -----------------------------------===//

#include "attn/Target/KnownTargets.h"
#include "Vendors.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace attn;
using namespace attn::planner;

static const Targets &tables() {
  static const Targets targets = [] {
    Targets t;
    addCpuTargets(t);
    addNvidiaTargets(t);
    addVulkanTargets(t);
    addNpuTargets(t);
    return t;
  }();
  return targets;
}

std::vector<TargetDescription> attn::listTargets() {
  std::vector<TargetDescription> targets = {detectHostTarget()};
  llvm::append_range(targets, tables());
  return targets;
}

llvm::Expected<TargetDescription> attn::lookupTarget(llvm::StringRef name) {
  constexpr llvm::StringRef kHost = "cpu";
  if (name == kHost)
    return detectHostTarget();
  llvm::StringRef nearest = kHost;
  std::vector<std::string> names = {kHost.str()};
  for (const TargetDescription &target : tables()) {
    if (name == target.name)
      return target;
    names.push_back(target.name);
    if (name.edit_distance_insensitive(target.name) <
        name.edit_distance_insensitive(nearest))
      nearest = target.name;
  }
  return llvm::createStringError(
      llvm::formatv("unknown target '{0}', did you mean '{1}'? known: {2}",
                    name, nearest, llvm::join(names, ", "))
          .str());
}
