//===- LaneThread.cpp - A thread of a workgroup of lanes ------------------===//

#include "LaneThread.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"

using namespace mlir;
using namespace attn;
using namespace attn::spv;

SharedTile spv::allocateShared(GpuEmitter &e, int64_t count, Type type) {
  if (count == 0)
    return {};
  auto space = gpu::AddressSpaceAttr::get(e.b.getContext(),
                                          gpu::AddressSpace::Workgroup);
  auto memory = MemRefType::get(count, type, MemRefLayoutAttrInterface(),
                                Attribute(space));
  return {memref::AllocOp::create(e.b, e.loc, memory)};
}

LaneThread::LaneThread(GpuEmitter emitter, int64_t threads, FloatType type)
    : e(emitter), threads(threads), type(type),
      id(gpu::ThreadIdOp::create(e.b, e.loc, e.b.getIndexType(),
                                 gpu::Dimension::x)) {}

void LaneThread::barrier() { gpu::BarrierOp::create(e.b, e.loc); }

Value LaneThread::voteAny(Value any, const SharedTile &words, Value at) {
  barrier();
  e.branch(e.equals(id, 0), [&]() { words.store(e, e.i32(0), at); });
  barrier();
  e.branch(any, [&]() {
    memref::AtomicRMWOp::create(e.b, e.loc, arith::AtomicRMWKind::ori, e.i32(1),
                                words.memory, at);
  });
  barrier();
  return e.equals(words.load(e, at), 1);
}

Registers LaneThread::combine(const Registers &numbers, ArrayRef<Value> rows,
                              Value column, int64_t columns, int64_t height,
                              const SharedTile &memory, Combine combine) {
  Value line = e.mul(column, height);
  for (auto [row, value] : llvm::zip(rows, numbers))
    memory.store(e, value, e.add(line, row));
  barrier();
  Registers result;
  for (Value row : rows) {
    Value combined;
    for (int64_t c = 0; c < columns; ++c) {
      Value part = memory.load(e, e.add(row, c * height));
      combined = combined ? combine(combined, part) : part;
    }
    result.push_back(combined);
  }
  return result;
}
