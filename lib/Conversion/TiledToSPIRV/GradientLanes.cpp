//===- GradientLanes.cpp - The plan and the frame of gradient kernels -----===//

#include "GradientLanes.h"
#include "../Common/ScratchMemory.h"

using namespace mlir;
using namespace attn;
using namespace attn::spv;

//===----------------------------------------------------------------------===//
// The plan
//===----------------------------------------------------------------------===//

static int64_t widthOf(ArrayRef<scf::ForallOp> loops, StringRef role) {
  int64_t width = 0;
  for (scf::ForallOp loop : loops)
    loop.walk([&](vector::TransferReadOp read) {
      if (getRole(read) == role)
        width = read.getVectorType().getDimSize(1);
    });
  return width;
}

/// The type of delta, or any that zeros will do with.
static FloatType accumulatorOf(ArrayRef<scf::ForallOp> loops) {
  FloatType type = Float32Type::get(loops.front()->getContext());
  for (scf::ForallOp loop : loops)
    loop.walk([&](vector::TransferWriteOp write) {
      if (getRole(write) == role::kDelta)
        type = cast<FloatType>(write.getVectorType().getElementType());
    });
  return type;
}

/// Whether a mask may hide a block; whether pairs add to a gradient.
static bool hidesBlocks(scf::ForallOp loop) {
  return loop
      .walk([](scf::IfOp branch) {
        return getRole(branch) == role::kReach ? WalkResult::interrupt()
                                               : WalkResult::advance();
      })
      .wasInterrupted();
}
static bool sumsPairs(ArrayRef<scf::ForallOp> loops) {
  return llvm::any_of(loops,
                      [](scf::ForallOp loop) { return getRole(loop).empty(); });
}

static LogicalResult verifyMappable(scf::ForallOp tasks, const GradientLanes &g,
                                    const TargetDescription &target) {
  auto refuse = [&](const Twine &what) {
    return tasks.emitOpError("cannot map gradients to lanes: ") << what;
  };
  const Tiling &t = g.tiling;
  if (!t.queryGradient.empty() && t.queryGradient != "recomputed")
    return refuse("expected query_gradient = \"recomputed\", got \"" +
                  Twine(t.queryGradient) + "\"; state it in #attn.tiling");
  if (t.stages != 1)
    return refuse("expected one stage, got " + Twine(t.stages) +
                  "; state stages = 1");
  int64_t limit = target.maxWorkgroupThreads;
  if (limit > 0 && g.threads() > limit)
    return refuse("expected at most " + Twine(limit) + " threads, got " +
                  Twine(g.threads()) + "; give fewer groups");
  int64_t memory = target.scratchBytes;
  if (memory > 0 && g.tiles.sharedBytes() > memory)
    return refuse("expected at most " + Twine(memory) +
                  " bytes of shared memory, as '" + target.name +
                  "' has, got " + Twine(g.tiles.sharedBytes()) +
                  "; give smaller blocks");
  return success();
}

FailureOr<GradientLanes> GradientLanes::plan(func::FuncOp function,
                                             ArrayRef<scf::ForallOp> loops) {
  scf::ForallOp tasks = loops.front();
  auto target = tasks->getAttrOfType<TargetAttr>(kTargetAttrName);
  if (!target)
    return tasks.emitOpError("expects attn.tiling and attn.target on the task "
                             "loop; run attn-select-tiling and attn-tile "
                             "first");
  Tiling tiling = tasks->getAttrOfType<TilingAttr>(kTilingAttrName).getValue();
  FloatType type = accumulatorOf(loops);
  GradientLanes g{
      function,
      tiling,
      LaneGradientTiles(tiling, target.getValue(), widthOf(loops, role::kKey),
                        widthOf(loops, role::kValue), type.getWidth() / 8,
                        llvm::any_of(loops, hidesBlocks), sumsPairs(loops)),
      type,
      {},
      {}};
  if (failed(verifyMappable(tasks, g, target.getValue())))
    return failure();
  for (auto alloc : function.getOps<memref::AllocOp>()) {
    if (g.delta)
      return alloc.emitOpError("is memory that kernels of lanes have not, such "
                               "as that of a gradient which the function does "
                               "not return; return all gradients of the op");
    g.delta = alloc;
  }
  FailureOr<std::string> workspace = scratchBytes(function);
  if (failed(workspace))
    return failure();
  g.workspace = *workspace;
  return g;
}

//===----------------------------------------------------------------------===//
// The frame of a kernel
//===----------------------------------------------------------------------===//

/// delta as it lies in the workspace.
static Value viewWorkspace(GpuEmitter &e, memref::AllocOp delta,
                           const KernelOutline &outline) {
  SmallVector<OpFoldResult> sizes = delta.getMixedSizes();
  for (OpFoldResult &size : sizes)
    if (auto value = dyn_cast<Value>(size))
      size = outline.values.lookup(value);
  auto valueOf = [&](OpFoldResult size) -> Value {
    if (auto value = dyn_cast<Value>(size))
      return value;
    return e.index(cast<IntegerAttr>(cast<Attribute>(size)).getInt());
  };
  MemRefType type = delta.getType();
  SmallVector<OpFoldResult> strides(sizes.size(), e.b.getIndexAttr(1));
  auto [known, offset] = type.getStridesAndOffset();
  for (int64_t d = type.getRank() - 2; d >= 0; --d)
    strides[d] = ShapedType::isDynamic(known[d])
                     ? OpFoldResult(e.mul(valueOf(strides[d + 1]),
                                          valueOf(sizes[d + 1])))
                     : OpFoldResult(e.b.getIndexAttr(known[d]));
  return memref::ReinterpretCastOp::create(e.b, e.loc, type, outline.workspace,
                                           e.b.getIndexAttr(0), sizes, strides);
}

/// The variables of task number `number` (i32), the last one fastest.
static void mapTask(GpuEmitter &e, scf::ForallOp tasks, Value number,
                    IRMapping &scalars) {
  SmallVector<OpFoldResult> sizes = tasks.getMixedUpperBound();
  for (int64_t d = sizes.size() - 1; d >= 0; --d) {
    Value variable = tasks.getInductionVars()[d], id = number;
    if (d != 0) {
      Value size =
          isa<Value>(sizes[d])
              ? e.toI32(scalars.lookup(cast<Value>(sizes[d])))
              : e.i32(cast<IntegerAttr>(cast<Attribute>(sizes[d])).getInt());
      id = e.rem(number, size);
      number = e.div(number, size);
    }
    scalars.map(variable, e.toIndex(id));
  }
}

/// How many tasks there are (i32).
static Value countTasks(GpuEmitter &e, scf::ForallOp tasks,
                        IRMapping &scalars) {
  Value count = e.i32(1);
  for (OpFoldResult size : tasks.getMixedUpperBound())
    count = e.mul(
        count, isa<Value>(size)
                   ? e.toI32(scalars.lookup(cast<Value>(size)))
                   : e.i32(cast<IntegerAttr>(cast<Attribute>(size)).getInt()));
  return count;
}

LogicalResult
spv::addLaneKernel(GradientLanes &gradients, scf::ForallOp tasks,
                   StringRef suffix, gpu::GPUModuleOp &module,
                   function_ref<LogicalResult(LaneThread &, IRMapping &)> emit,
                   bool isElementwise) {
  FailureOr<std::string> count = attn::countTasks(tasks);
  if (failed(count))
    return failure();
  Launch launch;
  launch.grid = isElementwise ? "ceildiv(" + *count + ", " +
                                    std::to_string(gradients.threads()) + ")"
                              : *count;
  launch.workgroup = gradients.threads();
  launch.sharedMemory = gradients.tiles.sharedBytes();
  launch.workspace = gradients.workspace;
  FailureOr<KernelOutline> outline = addKernel(
      tasks, launch, (gradients.function.getName() + "_" + suffix).str(),
      module, gradients.type);
  if (failed(outline))
    return failure();
  OpBuilder b(outline->kernel.getBody().front().getTerminator());
  LaneThread thread(GpuEmitter{b, tasks.getLoc()}, gradients.threads(),
                    gradients.type);
  GpuEmitter &e = thread.e;
  IRMapping scalars(outline->values);
  if (gradients.delta)
    scalars.map(gradients.delta.getResult(),
                viewWorkspace(e, gradients.delta, *outline));
  Value number = taskOfGrid(e);
  if (isElementwise)
    number = e.add(e.mul(number, gradients.threads()), e.toI32(thread.id));
  bool valid = true;
  e.branch(e.less(number, ::countTasks(e, tasks, scalars)), [&]() {
    mapTask(e, tasks, number, scalars);
    valid = succeeded(emit(thread, scalars));
  });
  return success(valid);
}
