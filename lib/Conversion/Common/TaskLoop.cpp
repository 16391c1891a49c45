//===- TaskLoop.cpp - The tasks of a kernel by number ---------------------===//

#include "TaskLoop.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace attn;

FailureOr<SmallVector<std::string>> attn::taskCounts(scf::ForallOp tasks) {
  SmallVector<std::string> counts;
  for (OpFoldResult size : tasks.getMixedUpperBound()) {
    FailureOr<std::string> text =
        isa<Value>(size)
            ? toSizeExpression(cast<Value>(size))
            : std::to_string(cast<IntegerAttr>(cast<Attribute>(size)).getInt());
    if (failed(text))
      return failure();
    counts.push_back(std::move(*text));
  }
  return counts;
}

FailureOr<std::string> attn::countTasks(scf::ForallOp tasks) {
  FailureOr<SmallVector<std::string>> counts = taskCounts(tasks);
  if (failed(counts))
    return failure();
  return llvm::join(*counts, " * ");
}

std::array<Value, 3> attn::taskSizes(GpuEmitter &e, scf::ForallOp tasks,
                                     const KernelOutline &outline) {
  std::array<Value, 3> sizes;
  for (auto [i, size] : llvm::enumerate(tasks.getMixedUpperBound())) {
    if (auto value = dyn_cast<Value>(size))
      sizes[i] = e.toI32(outline.values.lookup(value));
    else
      sizes[i] = e.i32(cast<IntegerAttr>(cast<Attribute>(size)).getInt());
  }
  return sizes;
}

HeadGroups::HeadGroups(GpuEmitter &e, Value heads, Value size)
    : heads(heads), size(size),
      last(e.max(e.add(e.div(heads, size), -1), e.i32(0))) {}

HeadGroups::Place HeadGroups::find(GpuEmitter &e, Value number,
                                   Value blocks) const {
  Value index = e.min(e.div(number, e.mul(size, blocks)), last);
  Value firstHead = e.mul(index, size);
  Value isLast = e.compare(arith::CmpIPredicate::eq, index, last);
  Value width = e.select(isLast, e.sub(heads, firstHead), size);
  Value rest = e.sub(number, e.mul(firstHead, blocks));
  return {e.add(firstHead, e.rem(rest, width)), e.div(rest, width)};
}

/// The variables of the task in block `block` of the `number`-th head of all.
static IRMapping placeTask(GpuEmitter &e, scf::ForallOp tasks,
                           const KernelOutline &outline, Value number,
                           Value heads, Value block) {
  Value ids[] = {e.div(number, heads), e.rem(number, heads), block};
  IRMapping scalars(outline.values);
  for (auto [variable, id] : llvm::zip(tasks.getInductionVars(), ids))
    scalars.map(variable, e.toIndex(id));
  return scalars;
}

IRMapping attn::enterTask(GpuEmitter &e, TiledForm &form,
                          const KernelOutline &outline, Value number,
                          Value group) {
  if (!form.rightBound)
    return enterTask(e, form.tasks, outline, number);
  auto [batch, heads, blocks] = taskSizes(e, form.tasks, outline);
  Value allHeads = e.mul(batch, heads);
  HeadGroups::Place place{e.rem(number, allHeads), e.div(number, allHeads)};
  if (group)
    place = HeadGroups(e, allHeads, group).find(e, number, blocks);
  return placeTask(e, form.tasks, outline, place.head, heads, place.block);
}

IRMapping attn::enterTask(GpuEmitter &e, scf::ForallOp tasks,
                          const KernelOutline &outline, Value number) {
  auto [batch, heads, blocks] = taskSizes(e, tasks, outline);
  return placeTask(e, tasks, outline, e.div(number, blocks), heads,
                   e.rem(number, blocks));
}

Value attn::taskOfGrid(GpuEmitter &e) {
  auto id = [&](gpu::Dimension dimension) -> Value {
    return e.toI32(
        gpu::BlockIdOp::create(e.b, e.loc, e.b.getIndexType(), dimension));
  };
  Value row = e.mul(id(gpu::Dimension::y), kGridWidth);
  return e.add(row, id(gpu::Dimension::x));
}

Value attn::sharedMemory(GpuEmitter &e, gpu::GPUModuleOp module) {
  constexpr StringLiteral kName = "shared_tiles";
  constexpr unsigned kShared = 3;
  auto type = LLVM::LLVMArrayType::get(e.b.getI8Type(), 0);
  if (!module.lookupSymbol(kName)) {
    OpBuilder::InsertionGuard guard(e.b);
    e.b.setInsertionPointToStart(module.getBody());
    LLVM::GlobalOp::create(e.b, e.loc, type, /*isConstant=*/false,
                           LLVM::Linkage::External, kName, Attribute(),
                           /*alignment=*/1024, kShared);
  }
  auto pointer = LLVM::LLVMPointerType::get(e.b.getContext(), kShared);
  Value address = LLVM::AddressOfOp::create(e.b, e.loc, pointer, kName);
  return LLVM::PtrToIntOp::create(e.b, e.loc, e.b.getI32Type(), address);
}

LogicalResult
attn::mapTaskLoops(Operation *root, function_ref<bool(TilingAttr)> takes,
                   function_ref<LogicalResult(TiledForm &)> emit) {
  SmallVector<scf::ForallOp> loops;
  root->walk([&](scf::ForallOp loop) {
    if (getRole(loop) == role::kTasks &&
        takes(loop->getAttrOfType<TilingAttr>(kTilingAttrName)))
      loops.push_back(loop);
  });
  for (scf::ForallOp loop : loops) {
    FailureOr<TiledForm> form = readTiledForm(loop);
    if (failed(form) || failed(emit(*form)))
      return failure();
  }
  return success();
}
