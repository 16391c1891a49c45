//===- AnnotatePtxKernel.cpp - What ptxas has to know of a kernel ---------===//
//
// convert-gpu-to-nvvm makes a kernel's parameters of its arguments and forgets
// what LLVM calls attributes. From attn.launch this pass adds
//
//   nvvm.reqntid, nvvm.minctasm   the threads of a block: ptxas shares out the
//                                 registers by that, and setmaxnreg needs it
//   byval, grid_constant          tensor maps are 128 bytes in the kernel's
//                                 parameters, not a pointer, and TMA reads them
//                                 there
//
// Dynamic shared memory becomes external, as PTX wants it, and starts where a
// 128-byte swizzle pattern may: convert-gpu-to-nvvm leaves an internal array of
// no elements, which LLVM takes for static memory.
//
// Precondition: the LLVM dialect; the tensor maps are the last parameters.
//
//===----------------------------------------------------------------------===//

#include "attn/Conversion/Passes.h"
#include "attn/IR/MappedKernel.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/IR/Builders.h"

namespace attn {
#define GEN_PASS_DEF_ANNOTATEPTXKERNEL
#include "attn/Conversion/Passes.h.inc"
} // namespace attn

using namespace mlir;

/// The 128-byte swizzle repeats after 8 rows.
static constexpr int64_t kSharedAlignment = 1024;

static void makeExternal(LLVM::GlobalOp global) {
  auto type = dyn_cast<LLVM::LLVMArrayType>(global.getType());
  bool isDynamicShared =
      type && type.getNumElements() == 0 &&
      global.getAddrSpace() == unsigned(NVVM::NVVMMemorySpace::Shared);
  if (!isDynamicShared)
    return;
  global.setLinkage(LLVM::Linkage::External);
  global.setAlignment(kSharedAlignment);
}

static void annotate(LLVM::LLVMFuncOp kernel, const attn::Launch &launch) {
  using LLVM::LLVMDialect;
  using NVVM::NVVMDialect;
  OpBuilder b(kernel.getContext());
  kernel->setAttr(NVVMDialect::getReqntidAttrName(),
                  b.getDenseI32ArrayAttr({int32_t(launch.workgroup), 1, 1}));
  kernel->setAttr(NVVMDialect::getMinctasmAttrName(), b.getI32IntegerAttr(1));
  auto map = LLVM::LLVMArrayType::get(b.getI8Type(), attn::kTensorMapBytes);
  unsigned first = kernel.getNumArguments() - launch.tensorMaps.size();
  for (unsigned i = first; i < kernel.getNumArguments(); ++i) {
    kernel.setArgAttr(i, LLVMDialect::getByValAttrName(), TypeAttr::get(map));
    kernel.setArgAttr(i, LLVMDialect::getAlignAttrName(),
                      b.getI64IntegerAttr(attn::kTensorMapAlignment));
    kernel.setArgAttr(i, NVVMDialect::getGridConstantAttrName(),
                      b.getUnitAttr());
  }
}

namespace {
struct AnnotatePtxKernel
    : attn::impl::AnnotatePtxKernelBase<AnnotatePtxKernel> {
  void runOnOperation() override {
    llvm::for_each(getOperation().getOps<LLVM::GlobalOp>(), makeExternal);
    for (auto kernel : getOperation().getOps<LLVM::LLVMFuncOp>()) {
      if (!kernel->hasAttr(attn::kLaunchAttrName))
        continue;
      FailureOr<attn::Launch> launch = attn::getLaunch(kernel);
      if (failed(launch))
        return signalPassFailure();
      annotate(kernel, *launch);
    }
  }
};
} // namespace
