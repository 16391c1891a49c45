//===- KnownTargetsTest.cpp - Chips by name -------------------------------===//

#include "Problems.h"
#include "attn/IR/Attn.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/IR/MLIRContext.h"
#include <set>

using namespace attn;

namespace {

TEST(KnownTargets, NamesAreUniqueAndFound) {
  std::set<std::string> names;
  for (const TargetDescription &target : listTargets()) {
    EXPECT_TRUE(names.insert(target.name).second) << target.name;
    llvm::Expected<TargetDescription> found = lookupTarget(target.name);
    ASSERT_TRUE(bool(found)) << target.name;
    EXPECT_TRUE(*found == target) << target.name;
  }
  for (const char *name :
       {"cpu", "cpu:avx2", "cpu:avx512", "cpu:avx512-bf16", "cpu:amx",
        "cpu:neon", "sm_80", "sm_90a", "h200", "sm_100a", "vulkan", "opencl",
        "vulkan-coopmat", "adreno", "mali", "apple", "intel", "amd", "npu"})
    EXPECT_TRUE(names.count(name)) << name;
}

TEST(KnownTargets, EveryNumberThatThePlannerReadsIsThere) {
  for (const TargetDescription &t : listTargets()) {
    SCOPED_TRACE(t.name);
    EXPECT_FALSE(t.source.empty());
    EXPECT_FALSE(t.arch.empty());
    EXPECT_FALSE(t.matrixUnits.empty());
    EXPECT_GT(t.computeUnits, 0);
    EXPECT_GT(t.clockMHz, 0);
    EXPECT_GT(t.scratchBytes, 0);
    EXPECT_GT(t.bandwidthMBps, 0);
    EXPECT_GT(t.exp2Per64Cycles, 0);
    for (const MatrixUnit &unit : t.matrixUnits)
      EXPECT_GT(unit.m * unit.n * unit.k * unit.macsPerCycle, 0) << unit.kind;
    if (t.family == "cpu") {
      EXPECT_GT(t.cacheBytes, 0);
      EXPECT_GE(t.simdBits, 128);
      EXPECT_GE(t.simdRegisters, 16);
    } else {
      EXPECT_TRUE(t.family == "cuda" || t.family == "vulkan");
    }
  }
}

TEST(KnownTargets, AnUnknownNameNamesTheNearest) {
  llvm::Expected<TargetDescription> target = lookupTarget("cpu:axv2");
  ASSERT_FALSE(bool(target));
  std::string message = llvm::toString(target.takeError());
  EXPECT_EQ(message.find("unknown target 'cpu:axv2', did you mean 'cpu:avx2'? "
                         "known: cpu, cpu:avx2, "),
            0u)
      << message;
  EXPECT_EQ(message.find('\n'), std::string::npos);
}

TEST(KnownTargets, NamesAreExact) {
  for (const char *name : {"", "CPU", "h200 ", "sm_90"}) {
    llvm::Expected<TargetDescription> target = lookupTarget(name);
    EXPECT_FALSE(bool(target)) << name;
    llvm::consumeError(target.takeError());
  }
}

TEST(KnownTargets, HostIsDescribedByTheOperatingSystem) {
  TargetDescription host = detectHostTarget();
  EXPECT_EQ(host.name, "cpu");
  EXPECT_EQ(host.family, "cpu");
  EXPECT_TRUE(host.findMatrixUnit("fma", "f32"));
  EXPECT_TRUE(host.findMatrixUnit("fma", "f64"));
  EXPECT_TRUE(host == detectHostTarget());
}

TEST(KnownTargets, AttributeRoundTrips) {
  mlir::MLIRContext context;
  context.loadDialect<AttnDialect>();
  auto roundTrip = [&](mlir::Attribute attribute) {
    std::string text;
    llvm::raw_string_ostream os(text);
    attribute.print(os);
    EXPECT_EQ(mlir::parseAttribute(text, &context), attribute) << text;
  };
  for (const TargetDescription &target : listTargets()) {
    roundTrip(TargetAttr::get(&context, target));
    for (const char *type : {"bf16", "f32"}) {
      llvm::Expected<TilingPlan> planned =
          selectTiling(makeProblem(type, 4096, 64), target);
      if (planned)
        roundTrip(TilingAttr::get(&context, planned->tiling));
      else
        llvm::consumeError(planned.takeError());
    }
  }
}

} // namespace
