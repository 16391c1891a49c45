//===- TilePlannerTest.cpp - Tiles fit, are reasoned, are repeatable ------===//

#include "Problems.h"
#include "attn/IR/Attn.h"
#include "attn/Target/CoopMatrixTiles.h"
#include "attn/Target/LaneGradientTiles.h"

using namespace attn;

namespace {

/// Whether some unit of the chip may multiply the type exactly enough.
bool canMultiply(const TargetDescription &target, const std::string &type) {
  const char *widened = type == "f64" ? "f64" : "f32";
  for (const MatrixUnit &unit : target.matrixUnits)
    if (unit.type == type || (unit.kind == "fma" && unit.type == widened))
      return true;
  return false;
}

/// What every plan promises.
void checkPlan(const AttentionProblem &problem, const TilingPlan &plan,
               const TargetDescription &target) {
  const Tiling &t = plan.tiling;
  ASSERT_TRUE(t == plan.chosen.tiling);
  EXPECT_GE(t.blockQuery, 1);
  EXPECT_GE(t.blockKey, 1);
  EXPECT_GE(t.stages, 1);
  EXPECT_GE(t.groups, 1);
  // No tile beyond the sequence, rounded up to the largest native tile.
  EXPECT_LT(t.blockQuery, std::max<int64_t>(1, problem.queryLength) + 128);
  EXPECT_LT(t.blockKey, std::max<int64_t>(1, problem.kvLength) + 128);
  if (target.family == "cpu") {
    EXPECT_GE(t.registerRows, 1);
    EXPECT_EQ(t.blockQuery % t.registerRows, 0);
    EXPECT_EQ(t.blockKey % t.registerColumns, 0);
    bool keepsReference = t.product != "fma" && problem.kvLength > t.blockKey;
    EXPECT_EQ(t.softmax, keepsReference ? "stale" : "exact");
  }
  EXPECT_FALSE(plan.chosen.budgets.empty());
  EXPECT_TRUE(plan.chosen.rejection.empty());
  std::vector<Candidate> fitting = plan.runnersUp;
  fitting.push_back(plan.chosen);
  for (const Candidate &c : fitting)
    for (const MemoryBudget &budget : c.budgets) {
      EXPECT_LE(budget.used, budget.limit) << budget.memory;
      int64_t used = 0;
      for (const TileUse &use : c.tiles)
        used += use.memory == budget.memory ? use.bytes : 0;
      EXPECT_EQ(used, budget.used) << budget.memory;
    }
  for (const Candidate &c : plan.rejected)
    EXPECT_FALSE(c.rejection.empty());
  const Prediction &p = plan.chosen.prediction;
  EXPECT_GE(p.total, std::max({p.compute, p.cache, p.memory}));
  for (const Candidate &c : plan.runnersUp)
    EXPECT_GE(c.prediction.total * 1.01, p.total);
}

void checkGrid(const std::vector<int64_t> &dims,
               const std::vector<int64_t> &lengths) {
  for (const TargetDescription &target : listTargets())
    for (const char *type : {"f16", "bf16", "f32", "f64"})
      for (int64_t dim : dims)
        for (int64_t length : lengths)
          for (bool causal : {false, true}) {
            SCOPED_TRACE(target.name + " " + type + " D " +
                         std::to_string(dim) + " S " + std::to_string(length) +
                         (causal ? " causal" : ""));
            AttentionProblem p = makeProblem(type, length, dim, causal);
            llvm::Expected<TilingPlan> result = selectTiling(p, target);
            if (result) {
              EXPECT_TRUE(canMultiply(target, type));
              checkPlan(p, *result, target);
              continue;
            }
            std::string message = llvm::toString(result.takeError());
            EXPECT_FALSE(canMultiply(target, type)) << message;
            EXPECT_NE(message.find("cannot multiply"), std::string::npos)
                << message;
          }
}

TEST(TilePlanner, EveryTargetPlansAGrid) {
  checkGrid({1, 64, 80, 576}, {0, 1, 77, 4096});
}

TEST(TilePlannerLong, EveryTargetPlansAFineGrid) {
  checkGrid({0, 1, 7, 32, 40, 64, 72, 96, 128, 160, 192, 256, 512, 576},
            {1, 2, 3, 4, 5, 17, 64, 128, 1000, 16384, 65536});
}

TEST(TilePlanner, ShapesBesideTheSquare) {
  for (const TargetDescription &target : listTargets()) {
    SCOPED_TRACE(target.name);
    AttentionProblem p = makeProblem("bf16", 4096, 192);
    p.valueDim = 128;
    p.kvHeads = 2;
    p.kvLength = 333;
    p.bandLeft = 100;
    p.alignsBottomRight = true;
    if (!canMultiply(target, "bf16"))
      p.elementType = "f16";
    checkPlan(p, plan(p, target), target);
    p.batch = 0;
    checkPlan(p, plan(p, target), target);
  }
}

TEST(TilePlanner, GradientsOnLanes) {
  for (const TargetDescription &target : listTargets())
    for (const char *type : {"f16", "f32", "f64"})
      for (int64_t dim : {1, 40, 64, 128, 256}) {
        AttentionProblem p = makeProblem(type, 1024, dim);
        p.isBackward = p.sumsPairGradients = p.hasSegments = true;
        const char *held = p.accumulatorBytes() == 8 ? "f64" : "f32";
        if (target.family != "vulkan" || !target.findMatrixUnit("fma", held))
          continue;
        SCOPED_TRACE(target.name + " " + type + " " + std::to_string(dim));
        TilingPlan chosen = plan(p, target);
        EXPECT_EQ(chosen.tiling.product, "fma");
        EXPECT_EQ(chosen.tiling.queryGradient, "recomputed");
        LaneGradientTiles tiles(chosen.tiling, target, dim, dim,
                                p.accumulatorBytes(), /*hidesKeys=*/true,
                                /*sumsPairs=*/true);
        // Every pair of a block is a thread's, and every quad of a row.
        EXPECT_EQ(tiles.rows * tiles.rowThreads, chosen.tiling.blockQuery);
        EXPECT_EQ(tiles.keys * tiles.columnThreads, chosen.tiling.blockKey);
        EXPECT_GE(tiles.keyAccumulator(tiles.depth) * tiles.threads,
                  chosen.tiling.blockKey * dim);
        EXPECT_GE(tiles.queryAccumulator(tiles.depth) * tiles.threads,
                  chosen.tiling.blockQuery * dim);
        EXPECT_EQ(tiles.sharedBytes(), chosen.chosen.budgets[0].used);
        EXPECT_LE(tiles.sharedBytes(), target.scratchBytes);
      }
}

TEST(TilePlanner, CpuRegisterTiles) {
  struct {
    const char *target, *type;
    int64_t rows, columns;
  } cases[] = {{"cpu:avx512", "f32", 6, 64}, {"cpu:avx512", "f64", 6, 32},
               {"cpu:avx512", "f16", 6, 64}, {"cpu:avx2", "f32", 6, 16},
               {"cpu:avx2", "f64", 6, 8},    {"cpu:neon", "f32", 6, 16},
               {"cpu:neon", "bf16", 6, 16}};
  for (auto c : cases) {
    SCOPED_TRACE(std::string(c.target) + " " + c.type);
    Tiling t =
        plan(makeProblem(c.type, 2048, 64), targetNamed(c.target)).tiling;
    EXPECT_EQ(t.product, "fma");
    EXPECT_EQ(t.registerRows, c.rows);
    EXPECT_EQ(t.registerColumns, c.columns);
    EXPECT_TRUE(t.pack);
    EXPECT_GE(t.blockQuery, 32);
    EXPECT_LE(t.blockQuery, 516);
    EXPECT_GE(t.blockKey, 64);
  }
}

// Keys and values arrive once a task: long ones, while there are enough.
TEST(TilePlanner, CpuTasksReadKeysSeldom) {
  TargetDescription target = targetNamed("cpu:avx512");
  AttentionProblem p = makeProblem("f32", 2048, 128);
  p.batch = 1;
  p.queryHeads = p.kvHeads = 8;
  target.computeUnits = 2;
  EXPECT_GE(plan(p, target).tiling.blockQuery, 192);
  target.computeUnits = 64;
  EXPECT_LE(plan(p, target).tiling.blockQuery, 258);
}

TEST(TilePlanner, CpuProductsOfBf16) {
  AttentionProblem p = makeProblem("bf16", 2048, 64);
  EXPECT_EQ(plan(p, targetNamed("cpu:avx512-bf16")).tiling.product, "dot");
  EXPECT_EQ(plan(p, targetNamed("cpu:neon-bf16")).tiling.product, "dot");
  EXPECT_EQ(plan(p, targetNamed("cpu:avx2")).tiling.product, "fma");
  Tiling t = plan(p, targetNamed("cpu:amx")).tiling;
  EXPECT_EQ(t.product, "amx");
  EXPECT_EQ(t.registerRows, 32);
  EXPECT_EQ(t.registerColumns, 32);
  EXPECT_EQ(t.blockQuery % 32, 0);
  EXPECT_GE(t.blockKey, 128);
  EXPECT_LE(t.blockKey, 512);
  // The other types do not go through bf16 tiles.
  p.elementType = "f16";
  EXPECT_EQ(plan(p, targetNamed("cpu:amx")).tiling.product, "fma");
}

TEST(TilePlanner, CpuDecodeReadsKeysInPlace) {
  for (const char *name : {"cpu:avx2", "cpu:avx512", "cpu:amx", "cpu:neon"}) {
    SCOPED_TRACE(name);
    AttentionProblem p = makeProblem("bf16", 1, 128);
    p.kvLength = 8192;
    Tiling t = plan(p, targetNamed(name)).tiling;
    EXPECT_EQ(t.blockQuery, 1);
    EXPECT_EQ(t.registerRows, 1);
    EXPECT_EQ(t.product, "fma");
    EXPECT_FALSE(t.pack);
  }
}

TEST(TilePlanner, CpuBeyondL2LivesInTheLastLevel) {
  AttentionProblem p = makeProblem("f32", 512, 8192);
  TilingPlan big = plan(p, targetNamed("cpu:avx2"));
  ASSERT_FALSE(big.chosen.budgets.empty());
  EXPECT_EQ(big.chosen.budgets[0].memory, "last-level cache");
  EXPECT_GT(big.numRejected, 0);
  // Not without end: a task's tiles lie on its stack.
  std::string message =
      refusal(makeProblem("f32", 512, 1 << 20), targetNamed("cpu:avx2"));
  EXPECT_NE(message.find("no tile fits target 'cpu:avx2'"), std::string::npos)
      << message;
}

TEST(TilePlanner, HopperTakesTheMeasuredSchedules) {
  TargetDescription h200 = targetNamed("h200");
  struct {
    int64_t dim;
    bool causal;
    int64_t groups, blockQuery, blockKey, stages, queryStages;
  } cases[] = {{64, false, 3, 192, 128, 4, 2},
               {64, true, 3, 192, 128, 4, 2},
               {128, false, 3, 192, 64, 4, 2},
               {256, false, 2, 128, 80, 2, 1},
               {256, true, 2, 128, 80, 2, 1}};
  for (auto c : cases) {
    SCOPED_TRACE(c.dim);
    AttentionProblem p = makeProblem("bf16", 16384, c.dim, c.causal);
    p.batch = 1;
    p.queryHeads = p.kvHeads = 2048 / c.dim;
    Tiling t = plan(p, h200).tiling;
    EXPECT_EQ(t.product, "wgmma");
    EXPECT_EQ(t.groups, c.groups);
    EXPECT_EQ(t.blockQuery, c.blockQuery);
    EXPECT_EQ(t.blockKey, c.blockKey);
    EXPECT_EQ(t.stages, c.stages);
    EXPECT_EQ(t.queryStages, c.queryStages);
    EXPECT_EQ(t.softmax, c.dim <= 128 ? "raised" : "stale");
    // Sums of rounded probabilities are nothing for an lse.
    p.returnsLse = true;
    EXPECT_EQ(plan(p, h200).tiling.softmax, "stale");
  }
}

TEST(TilePlanner, F32NeverGoesThroughTensorCores) {
  for (const TargetDescription &target : listTargets()) {
    if (!canMultiply(target, "f32"))
      continue;
    EXPECT_EQ(plan(makeProblem("f32", 4096, 64), target).tiling.product, "fma")
        << target.name;
  }
}

/// What tensor maps cannot describe, and masks that hide single keys, go to
/// warps on Hopper as well.
TEST(TilePlanner, WarpsTakeWhatWgmmaCannot) {
  TargetDescription h200 = targetNamed("h200");
  auto productOf = [&](auto change) {
    AttentionProblem p = makeProblem("bf16", 4096, 128);
    change(p);
    return plan(p, h200).tiling.product;
  };
  EXPECT_EQ(productOf([](AttentionProblem &) {}), "wgmma");
  EXPECT_EQ(productOf([](AttentionProblem &p) { p.hasTensorMaps = false; }),
            "mma");
  EXPECT_EQ(productOf([](AttentionProblem &p) { p.hasSegments = true; }),
            "wgmma");
  EXPECT_EQ(productOf([](AttentionProblem &p) { p.hasMaskMod = true; }), "mma");
  EXPECT_EQ(productOf([](AttentionProblem &p) { p.headDim = 0; }), "mma");
  EXPECT_EQ(productOf([](AttentionProblem &p) { p.kvLength = 0; }), "mma");
  EXPECT_EQ(
      productOf([](AttentionProblem &p) { p.headDim = p.valueDim = 512; }),
      "mma");
}

/// Up to the widest rows of the widest type.
TEST(TilePlanner, WarpsFitTheOldestChip) {
  for (const char *type : {"bf16", "f32", "f64"})
    for (int64_t dim : {1, 59, 256, 320, 512}) {
      SCOPED_TRACE(dim);
      AttentionProblem p = makeProblem(type, 4096, dim, true);
      p.hasBias = p.hasMask = p.hasScoreMod = true;
      plan(p, targetNamed("sm_80"));
    }
}

TEST(TilePlanner, TrafficFollowsThePaper) {
  for (const char *name : {"cpu:avx512", "h200", "vulkan"}) {
    SCOPED_TRACE(name);
    double n = 8192, d = 64, heads = 16, element = 2;
    TilingPlan full = plan(makeProblem("f16", 8192, 64), targetNamed(name));
    double br = full.tiling.blockQuery;
    EXPECT_DOUBLE_EQ(full.chosen.traffic.standard,
                     heads * element * (4 * n * d + 4 * n * n));
    EXPECT_DOUBLE_EQ(full.chosen.traffic.tiled,
                     heads * element *
                         (2 * n * d + 2 * n * d * std::ceil(n / br)));
    EXPECT_LE(full.chosen.traffic.mainMemory, full.chosen.traffic.tiled);
    EXPECT_GE(full.chosen.traffic.mainMemory, heads * element * 4 * n * d);

    TilingPlan causal =
        plan(makeProblem("f16", 8192, 64, true), targetNamed(name));
    EXPECT_DOUBLE_EQ(causal.chosen.traffic.standard,
                     heads * element * (4 * n * d + 2 * n * (n + 1)));
    EXPECT_LT(causal.chosen.traffic.tiled, 0.75 * full.chosen.traffic.tiled);
    EXPECT_LT(causal.chosen.prediction.total, full.chosen.prediction.total);
  }
}

TEST(TilePlanner, TrafficGrowsWithLengthAndShrinksWithTheQueryBlock) {
  for (const TargetDescription &target : listTargets()) {
    if (!canMultiply(target, "f16"))
      continue;
    SCOPED_TRACE(target.name);
    double previous = 0;
    for (int64_t length = 64; length <= 65536; length *= 4) {
      TilingPlan p = plan(makeProblem("f16", length, 64), target);
      EXPECT_GT(p.chosen.traffic.tiled, previous);
      previous = p.chosen.traffic.tiled;
      for (const Candidate &other : p.runnersUp) {
        // Queries that do not stay are read with each key block.
        if (other.rates.bytesAgainPerBlock > 0 ||
            p.chosen.rates.bytesAgainPerBlock > 0)
          continue;
        if (other.tiling.blockQuery >= p.tiling.blockQuery)
          EXPECT_LE(other.traffic.tiled, p.chosen.traffic.tiled);
        else
          EXPECT_GE(other.traffic.tiled, p.chosen.traffic.tiled);
      }
    }
  }
}

TEST(TilePlanner, MoreFastMemoryIsNeverSlower) {
  TargetDescription chip = targetNamed("vulkan");
  double previous = 0;
  for (int64_t kib : {16, 24, 32, 48, 64}) {
    chip.scratchBytes = kib << 10;
    double total =
        plan(makeProblem("f16", 4096, 128), chip).chosen.prediction.total;
    if (previous > 0)
      EXPECT_LE(total, previous * 1.005) << kib;
    previous = total;
  }
}

TEST(TilePlanner, SameQuestionSameAnswer) {
  for (const TargetDescription &target : listTargets()) {
    AttentionProblem p = makeProblem("f16", 1000, 72, true);
    if (!canMultiply(target, p.elementType))
      continue;
    TilingPlan a = plan(p, target), b = plan(p, target);
    EXPECT_TRUE(a.tiling == b.tiling);
    EXPECT_EQ(explainText(p, a, target), explainText(p, b, target));
  }
}

TEST(TilePlanner, RefusesInOneLine) {
  TargetDescription vulkan = targetNamed("vulkan");
  AttentionProblem p = makeProblem("f16", 128, 64);
  p.headDim = AttentionProblem::kDynamic;
  EXPECT_EQ(refusal(p, vulkan),
            "expected static head dimensions to choose tiles for, got a "
            "dynamic one of query and key; state them in the operand types");

  p = makeProblem("f64", 128, 64);
  EXPECT_EQ(refusal(p, vulkan),
            "target 'vulkan' cannot multiply f64 into f64; it has fma f32");

  p = makeProblem("f32", 128, 8192);
  EXPECT_EQ(
      refusal(p, vulkan),
      "no tile fits target 'vulkan': with head dimensions 8192 and 8192 "
      "of f32 the smallest (block_query 1, block_key 2) needs 96.2 KiB of "
      "shared memory, the budget is 16 KiB");

  TargetDescription unknown = vulkan;
  unknown.family = "tpu";
  EXPECT_EQ(refusal(makeProblem("f32", 128, 64), unknown),
            "target 'vulkan' has family 'tpu', expected cpu, cuda or vulkan");
  p = makeProblem("i8", 128, 64);
  EXPECT_EQ(refusal(p, vulkan),
            "expected elements of f16, bf16, f32 or f64, got i8");
}

/// Two workgroups of four subgroups with two slabs at a head dimension of 64,
/// one of eight with a slab at 128: the 48 KiB are a multiprocessor's.
TEST(TilePlanner, CooperativeMatricesTakeWhatWasMeasured) {
  TargetDescription target = targetNamed("vulkan-coopmat");
  for (int64_t dim : {64, 128}) {
    AttentionProblem p = makeProblem("f16", 4096, dim);
    p.batch = 4;
    p.queryHeads = p.kvHeads = 2048 / dim;
    TilingPlan chosen = plan(p, target);
    const Tiling &t = chosen.tiling;
    EXPECT_EQ(t.product, "coopmat");
    EXPECT_EQ(t.softmax, "conditional");
    EXPECT_EQ(t.blockQuery, 128);
    EXPECT_EQ(t.blockKey, 64);
    EXPECT_EQ(t.groups, dim == 64 ? 4 : 8);
    // What the kernel declares is what was counted.
    CoopMatrixTiles tiles(t, dim, dim, target.subgroupSize,
                          /*hidesKeys=*/false);
    EXPECT_EQ(chosen.chosen.budgets[0].used, tiles.sharedBytes());
    p.hasSegments = true;
    TilingPlan masked = plan(p, target);
    EXPECT_EQ(masked.tiling.product, "coopmat");
    CoopMatrixTiles noted(masked.tiling, dim, dim, target.subgroupSize,
                          /*hidesKeys=*/true);
    EXPECT_EQ(masked.chosen.budgets[0].used, noted.sharedBytes());
  }
  EXPECT_EQ(
      plan(makeProblem("f16", 4096, 64), targetNamed("amd")).tiling.product,
      "coopmat");
}

/// A target that an user wrote by hand may leave numbers out.
TEST(TilePlanner, PlansForASparseDescription) {
  for (const char *family : {"cpu", "cuda", "vulkan"}) {
    TargetDescription t;
    t.name = "sparse";
    t.family = family;
    t.matrixUnits = {{"fma", "f32", 1, 8, 1, 16}};
    t.simdBits = 256;
    t.simdRegisters = 16;
    t.scratchBytes = 32 << 10;
    AttentionProblem p = makeProblem("f32", 256, 64);
    checkPlan(p, plan(p, t), t);
  }
}

} // namespace
