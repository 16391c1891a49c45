//===- LayoutCheck.cpp - Do matrices lie as the target says? --------------===//
//
// One subgroup makes an accumulator and a left side out of elements, each of
// which is the number of the place where it is expected to be, stores both, and
// looks whether the memory then holds 0, 1, 2, ... A lane writes 1 to its word
// of the answer when all that it reads is right, else 0.
//
// Numbers below 256 are exact in f16 and bf16.
//
//===----------------------------------------------------------------------===//

#include "CoopKernel.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace attn;
using namespace attn::coop;

static constexpr int64_t kSide = CoopMatrixTiles::kSide;
static constexpr int64_t kUnit = CoopMatrixTiles::kUnit;

static Value toFloat(GpuEmitter &e, Value number) {
  return arith::UIToFPOp::create(e.b, e.loc, e.b.getF32Type(), number);
}

/// The bits of `number` (i32) as a 16-bit float, in an i32: those of the f32
/// with fewer digits, and in f16 with a smaller bias of the exponent.
static Value halfBits(GpuEmitter &e, Value number, FloatType type) {
  Value bits = arith::BitcastOp::create(e.b, e.loc, e.b.getI32Type(),
                                        toFloat(e, number));
  if (type.isBF16())
    return e.div(bits, int64_t(1) << 16);
  constexpr int64_t kBiases = 127 - 15, kDigits = 10;
  Value narrow = e.sub(e.div(bits, int64_t(1) << (23 - kDigits)),
                       e.i32(kBiases << kDigits));
  return e.select(e.equals(number, 0), number, narrow);
}

/// What the unit number `unit` of an index matrix holds.
static Values expectedWords(GpuEmitter &e, Value unit, FloatType type) {
  Values words;
  for (int64_t i = 0; i < kUnit; i += 2) {
    Value number = e.add(e.mul(unit, kUnit), i);
    Value high = halfBits(e, e.add(number, 1), type);
    words.push_back(
        e.bitOr(halfBits(e, number, type), e.mul(high, int64_t(1) << 16)));
  }
  return words;
}

/// Whether this lane reads what it should, of both matrices.
static Value check(Thread &thread) {
  GpuEmitter &e = thread.e;
  Matrices &matrices = thread.matrices;
  int64_t count = thread.kernel.tiles.elements();
  Values numbers, narrow;
  for (int64_t i = 0; i < count; ++i) {
    Value place =
        e.add(e.mul(thread.elementRows[i], kSide), thread.elementColumns[i]);
    numbers.push_back(toFloat(e, place));
    narrow.push_back(matrices.narrow(numbers.back()));
  }
  matrices.store(matrices.fromElements(matrices.accumulator(), numbers),
                 thread.reduction, e.i32(0), kSide);
  matrices.store(matrices.fromElements(matrices.left(), narrow), thread.tiles,
                 e.i32(0), kSide / kUnit);
  matrices.subgroupBarrier();
  Value right;
  auto require = [&](Value condition) {
    right = right ? e.both(right, condition) : condition;
  };
  int64_t lanes = thread.kernel.tiles.lanes;
  for (int64_t i = 0; i < count; ++i) {
    Value number = e.add(thread.lane, i * lanes);
    Value stored = matrices.read(thread.reduction, number);
    require(arith::CmpFOp::create(e.b, e.loc, arith::CmpFPredicate::OEQ, stored,
                                  toFloat(e, number)));
  }
  // Lanes behind the last unit repeat it.
  constexpr int64_t kUnits = kSide * kSide / kUnit;
  for (int64_t first = 0; first < kUnits; first += lanes) {
    Value unit = e.min(e.add(thread.lane, first), e.i32(kUnits - 1));
    Value stored = matrices.read(thread.tiles, unit);
    Values expected = expectedWords(e, unit, thread.kernel.form.elementType);
    for (auto [i, word] : llvm::enumerate(expected)) {
      Value part = vector::ExtractOp::create(e.b, e.loc, stored, int64_t(i));
      require(e.compare(arith::CmpIPredicate::eq, part, word));
    }
  }
  return right;
}

std::string coop::layoutCheckName(StringRef kernel) {
  return (kernel + "_layout").str();
}

void coop::emitLayoutCheck(const CoopKernel &kernel, gpu::GPUModuleOp module,
                           StringRef name) {
  OpBuilder b = OpBuilder::atBlockEnd(module.getBody());
  Location loc = kernel.form.tasks.getLoc();
  auto answer = MemRefType::get(kernel.tiles.lanes, b.getI32Type());
  auto function = gpu::GPUFuncOp::create(
      b, loc, name, b.getFunctionType(TypeRange(answer), TypeRange()));
  function->setAttr(gpu::GPUDialect::getKernelFuncAttrName(), b.getUnitAttr());
  Block &body = function.getBody().front();
  b.setInsertionPointToStart(&body);
  GpuEmitter e{b, loc};
  Thread thread(e, kernel, module, &*kernel.layout);
  Value word = e.select(check(thread), e.i32(1), e.i32(0));
  memref::StoreOp::create(b, loc, word, body.getArgument(0),
                          ValueRange(e.toIndex(thread.lane)));
  gpu::ReturnOp::create(b, loc);
}
