//===- MappedToSPIRV.cpp - Mapped kernels as a SPIR-V module --------------===//
//
// The gpu.module of the kernels becomes a spirv.module that a Vulkan driver
// takes:
//
//   kernels               entry points, all of one module
//   arguments             storage buffers, set 0, binding = their number;
//                         in OpenCL pointers to global memory; the workspace is
//                         one more
//   open sizes, strides   push constants, or one more buffer (readScalars); in
//                         OpenCL arguments behind the pointers
//   workgroup memory      variables of the Workgroup class
//   f16, bf16             f32 of the same value; rounded where IR rounds
//   i64                   two words, where the target has no Int64
//   index                 i32: a storage buffer has no more bytes
//   SPIR-V                operations and variables of a mapping stay as they
//   are
//
// and the rest by upstream's conversions. Nothing is fused that is not written
// as one operation (NoContraction): the change of a softmax reference has to be
// exactly 0 where it did not change.
//
// Precondition: a gpu.func with attn.launch whose memory operations name its
// arguments directly, and whose functions attn-math-to-spirv has expanded.
//
//===----------------------------------------------------------------------===//

#include "BufferElement.h"
#include "KernelMemory.h"
#include "attn/Conversion/Passes.h"
#include "attn/IR/Attn.h"
#include "attn/IR/MappedKernel.h"
#include "attn/IR/TiledForm.h"
#include "mlir/Conversion/ArithToSPIRV/ArithToSPIRV.h"
#include "mlir/Conversion/GPUToSPIRV/GPUToSPIRV.h"
#include "mlir/Conversion/MathToSPIRV/MathToSPIRV.h"
#include "mlir/Conversion/SCFToSPIRV/SCFToSPIRV.h"
#include "mlir/Conversion/UBToSPIRV/UBToSPIRV.h"
#include "mlir/Conversion/VectorToSPIRV/VectorToSPIRV.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/Arith/Transforms/WideIntEmulationConverter.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/SCF/Transforms/Patterns.h"
#include "mlir/Dialect/SPIRV/Transforms/SPIRVConversion.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Dialect/Vector/Transforms/VectorRewritePatterns.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Transforms/WalkPatternRewriteDriver.h"

namespace attn {
#define GEN_PASS_DEF_MAPPEDTOSPIRV
#include "attn/Conversion/Passes.h.inc"
} // namespace attn

using namespace mlir;
using namespace attn;

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

static bool isHalf(Type type) { return type.isF16() || type.isBF16(); }

namespace {
struct RoundHalf : public OpConversionPattern<arith::TruncFOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(arith::TruncFOp op, OpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    auto type = dyn_cast<FloatType>(op.getType());
    Value x = adaptor.getIn();
    if (!type || !isHalf(type) || !x.getType().isF32())
      return rewriter.notifyMatchFailure(op, "no rounding of f32 to 16 bits");
    Value bits = roundToHalf(rewriter, op.getLoc(), x, type);
    rewriter.replaceOp(op, widenHalf(rewriter, op.getLoc(), bits, type));
    return success();
  }
};

/// Work items and groups are counted in 64 bits by OpenCL, and in 32 by
/// kernels.
template <typename OpTy, spirv::BuiltIn kBuiltIn>
struct OpenCLIndex : public OpConversionPattern<OpTy> {
  using OpConversionPattern<OpTy>::OpConversionPattern;
  LogicalResult
  matchAndRewrite(OpTy op, typename OpTy::Adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Value all = spirv::getBuiltinVariableValue(op, kBuiltIn,
                                               rewriter.getI64Type(), rewriter);
    Value wide = spirv::CompositeExtractOp::create(
        rewriter, op.getLoc(), all,
        ArrayRef(static_cast<int32_t>(op.getDimension())));
    rewriter.replaceOpWithNewOp<spirv::UConvertOp>(op, rewriter.getI32Type(),
                                                   wide);
    return success();
  }
};

/// Khronos' translator to LLVM, up to version 15, makes vectors of constants
/// alone at once.
struct OpenCLVector : public OpConversionPattern<vector::FromElementsOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(vector::FromElementsOp op, OpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Type type = getTypeConverter()->convertType(op.getType());
    if (!isa_and_nonnull<VectorType>(type))
      return rewriter.notifyMatchFailure(op, "a vector of one number");
    Value vector = spirv::UndefOp::create(rewriter, op.getLoc(), type);
    for (auto [i, element] : llvm::enumerate(adaptor.getElements()))
      vector = spirv::CompositeInsertOp::create(
          rewriter, op.getLoc(), element, vector,
          ArrayRef(static_cast<int32_t>(i)));
    rewriter.replaceOp(op, vector);
    return success();
  }
};

/// What attn-math-to-spirv left is to be the device's own.
struct FastExp2 : public OpConversionPattern<math::Exp2Op> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(math::Exp2Op op, OpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    if (!adaptor.getOperand().getType().isF32())
      return rewriter.notifyMatchFailure(op, "expected f32");
    rewriter.replaceOpWithNewOp<spirv::GLExp2Op>(op, adaptor.getOperand());
    return success();
  }
};

/// A driver may take x * 0 for 0, whatever x is: an infinity or a NaN is told
/// by its exponent.
struct MultiplyByZero : public OpConversionPattern<arith::MulFOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(arith::MulFOp op, OpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    if (!op.getType().isF32() || !matchPattern(op.getRhs(), m_AnyZeroFloat()))
      return rewriter.notifyMatchFailure(op, "no product with 0");
    Location loc = op.getLoc();
    auto integer = [&](int64_t value) -> Value {
      return arith::ConstantIntOp::create(rewriter, loc, value, 32);
    };
    constexpr int64_t kExponent = 0x7f800000;
    Value bits = arith::BitcastOp::create(rewriter, loc, rewriter.getI32Type(),
                                          adaptor.getLhs());
    Value exponent =
        arith::AndIOp::create(rewriter, loc, bits, integer(kExponent));
    Value isFinite = arith::CmpIOp::create(
        rewriter, loc, arith::CmpIPredicate::ne, exponent, integer(kExponent));
    Value nan = integer(0x7fc00000);
    Value result =
        arith::SelectOp::create(rewriter, loc, isFinite, integer(0), nan);
    rewriter.replaceOpWithNewOp<arith::BitcastOp>(op, rewriter.getF32Type(),
                                                  result);
    return success();
  }
};

/// The operand is held as an f32 already: an f16 that is widened, an f64 that
/// the device does not have.
template <typename OpTy> struct KeepFloat : public OpConversionPattern<OpTy> {
  using OpConversionPattern<OpTy>::OpConversionPattern;
  LogicalResult
  matchAndRewrite(OpTy op, typename OpTy::Adaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Value x = adaptor.getIn();
    if (x.getType() == op.getIn().getType() || x.getType() != op.getType())
      return rewriter.notifyMatchFailure(op, "not held as its result");
    rewriter.replaceOp(op, x);
    return success();
  }
};

struct FloatConstant : public OpConversionPattern<arith::ConstantOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(arith::ConstantOp op, OpAdaptor,
                  ConversionPatternRewriter &rewriter) const override {
    auto value = dyn_cast<FloatAttr>(op.getValue());
    Type held = getTypeConverter()->convertType(op.getType());
    if (!value || !held.isF32() || op.getType().isF32())
      return rewriter.notifyMatchFailure(op, "no constant held as an f32");
    rewriter.replaceOpWithNewOp<spirv::ConstantOp>(
        op, rewriter.getF32Type(),
        rewriter.getF32FloatAttr(value.getValueAsDouble()));
    return success();
  }
};
} // namespace

/// Whether the kernel multiplies cooperative matrices. They need the Vulkan
/// memory model, and a version of SPIR-V that is not everywhere.
static bool usesMatrices(gpu::GPUFuncOp kernel) {
  return kernel
      .walk([](spirv::KHRCooperativeMatrixLoadOp) {
        return WalkResult::interrupt();
      })
      .wasInterrupted();
}

static bool isOpenCL(const TargetDescription &target) {
  return StringRef(target.arch).starts_with("opencl");
}

/// SPIR-V 1.0 is what OpenCL 2.1 takes, and every later one.
static spirv::TargetEnvAttr openCLEnvironment(const TargetDescription &target,
                                              MLIRContext *context) {
  SmallVector<spirv::Capability> capabilities = {spirv::Capability::Kernel,
                                                 spirv::Capability::Addresses,
                                                 spirv::Capability::Int64};
  if (target.has("float64"))
    capabilities.push_back(spirv::Capability::Float64);
  auto triple =
      spirv::VerCapExtAttr::get(spirv::Version::V_1_0, capabilities,
                                ArrayRef<spirv::Extension>(), context);
  return spirv::TargetEnvAttr::get(triple,
                                   spirv::getDefaultResourceLimits(context),
                                   spirv::ClientAPI::OpenCL);
}

static spirv::TargetEnvAttr environmentOf(const TargetDescription &target,
                                          bool hasMatrices,
                                          MLIRContext *context) {
  if (isOpenCL(target))
    return openCLEnvironment(target, context);
  SmallVector<spirv::Capability> capabilities = {spirv::Capability::Shader};
  if (target.has("float64"))
    capabilities.push_back(spirv::Capability::Float64);
  if (target.has("int64"))
    capabilities.push_back(spirv::Capability::Int64);
  SmallVector<spirv::Extension> extensions = {
      spirv::Extension::SPV_KHR_storage_buffer_storage_class};
  if (hasMatrices) {
    capabilities.append({spirv::Capability::CooperativeMatrixKHR,
                         spirv::Capability::VulkanMemoryModel,
                         spirv::Capability::GroupNonUniform,
                         spirv::Capability::GroupNonUniformVote,
                         spirv::Capability::GroupNonUniformShuffle,
                         spirv::Capability::Float16});
    extensions.append({spirv::Extension::SPV_KHR_cooperative_matrix,
                       spirv::Extension::SPV_KHR_vulkan_memory_model});
    if (target.has("bfloat16")) {
      capabilities.append({spirv::Capability::BFloat16TypeKHR,
                           spirv::Capability::BFloat16CooperativeMatrixKHR});
      extensions.push_back(spirv::Extension::SPV_KHR_bfloat16);
    }
  }
  // SPIR-V 1.3 is what Vulkan 1.1 takes, and every later one.
  auto triple = spirv::VerCapExtAttr::get(hasMatrices ? spirv::Version::V_1_6
                                                      : spirv::Version::V_1_3,
                                          capabilities, extensions, context);
  return spirv::TargetEnvAttr::get(triple,
                                   spirv::getDefaultResourceLimits(context),
                                   spirv::ClientAPI::Vulkan);
}

//===----------------------------------------------------------------------===//
// The kernel
//===----------------------------------------------------------------------===//

/// The kernel as a function of the new module, its body unchanged.
static spirv::FuncOp moveKernel(spirv::ModuleOp module, gpu::GPUFuncOp kernel,
                                int64_t threads) {
  OpBuilder b(module.getContext());
  b.setInsertionPointToEnd(module.getBody());
  auto function = spirv::FuncOp::create(
      b, kernel.getLoc(), kernel.getName(),
      b.getFunctionType(kernel.getArgumentTypes(), TypeRange()));
  function.getBody().takeBody(kernel.getBody());
  Operation *end = function.getBody().front().getTerminator();
  b.setInsertionPoint(end);
  spirv::ReturnOp::create(b, end->getLoc());
  end->erase();
  auto size = static_cast<int32_t>(threads);
  function->setAttr(
      spirv::getEntryPointABIAttrName(),
      spirv::getEntryPointABIAttr(module.getContext(), {size, 1, 1}));
  return function;
}

/// Bounds of windows may stand for "far": beyond every size that 32 bits hold,
/// one bound is as far as another.
static void limitIndices(Operation *root) {
  constexpr int64_t kFar = 1 << 30;
  root->walk([&](arith::ConstantIndexOp constant) {
    int64_t value = std::clamp(constant.value(), -kFar, kFar);
    if (value != constant.value())
      constant.setValueAttr(IntegerAttr::get(constant.getType(), value));
  });
}

/// Without f64 a kernel can read numbers and round them to f32, no more.
static LogicalResult verifyWithoutDouble(spirv::FuncOp function,
                                         const TargetDescription &target) {
  auto isDouble = [](Type type) { return getElementTypeOrSelf(type).isF64(); };
  WalkResult result = function.walk([&](Operation *op) {
    bool moves = op->getNumRegions() != 0 ||
                 op->hasTrait<OpTrait::IsTerminator>() ||
                 isa<memref::LoadOp, memref::DimOp, vector::LoadOp,
                     arith::ConstantOp, arith::SelectOp>(op);
    auto truncated = dyn_cast<arith::TruncFOp>(op);
    if (moves || (truncated && truncated.getType().isF32()))
      return WalkResult::advance();
    if (llvm::none_of(op->getOperandTypes(), isDouble) &&
        llvm::none_of(op->getResultTypes(), isDouble))
      return WalkResult::advance();
    op->emitOpError("computes in f64, which '")
        << target.name << "' has not; round to f32 first";
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

static LogicalResult emulateWideIntegers(Operation *root) {
  MLIRContext *context = root->getContext();
  arith::WideIntEmulationConverter types(32);
  ConversionTarget target(*context);
  target.addDynamicallyLegalDialect<arith::ArithDialect, vector::VectorDialect>(
      [&](Operation *op) { return types.isLegal(op); });
  target.markUnknownOpDynamicallyLegal([](Operation *) { return true; });
  RewritePatternSet patterns(context);
  arith::populateArithWideIntEmulationPatterns(types, patterns);
  scf::populateSCFStructuralTypeConversionsAndLegality(types, patterns, target);
  return applyPartialConversion(root, target, std::move(patterns));
}

static LogicalResult convert(spirv::FuncOp function,
                             spirv::TargetEnvAttr environment) {
  MLIRContext *context = function.getContext();
  SPIRVTypeConverter types(environment);
  bool hasDouble = types.allows(spirv::Capability::Float64);
  auto isHeldAsSingle = [hasDouble](Type type) {
    return isHalf(type) || (type.isF64() && !hasDouble);
  };
  types.addConversion([=](FloatType type) -> std::optional<Type> {
    if (isHeldAsSingle(type))
      return Float32Type::get(type.getContext());
    return std::nullopt;
  });
  types.addConversion([=](VectorType type) -> std::optional<Type> {
    if (isHeldAsSingle(type.getElementType()) && type.getNumElements() > 1)
      return type.clone(Float32Type::get(type.getContext()));
    return std::nullopt;
  });
  RewritePatternSet patterns(context);
  ScfToSPIRVContext loops;
  populateSCFToSPIRVPatterns(types, loops, patterns);
  arith::populateArithToSPIRVPatterns(types, patterns);
  populateMathToSPIRVPatterns(types, patterns);
  populateVectorToSPIRVPatterns(types, patterns);
  populateGPUToSPIRVPatterns(types, patterns);
  ub::populateUBToSPIRVConversionPatterns(types, patterns);
  patterns.add<MultiplyByZero, RoundHalf, FloatConstant, FastExp2,
               KeepFloat<arith::ExtFOp>, KeepFloat<arith::TruncFOp>>(
      types, context, PatternBenefit(10));
  if (environment.getClientAPI() == spirv::ClientAPI::OpenCL)
    patterns
        .add<OpenCLIndex<gpu::ThreadIdOp, spirv::BuiltIn::LocalInvocationId>,
             OpenCLIndex<gpu::BlockIdOp, spirv::BuiltIn::WorkgroupId>,
             OpenCLVector>(types, context, PatternBenefit(10));
  std::unique_ptr<ConversionTarget> target =
      SPIRVConversionTarget::get(environment);
  target->addLegalOp<UnrealizedConversionCastOp>();
  SmallVector<Operation *> body;
  for (Operation &op : function.getBody().front())
    body.push_back(&op);
  if (failed(applyFullConversion(body, *target, std::move(patterns))))
    return failure();
  SmallVector<UnrealizedConversionCastOp> casts, left;
  function.walk(
      [&](UnrealizedConversionCastOp cast) { casts.push_back(cast); });
  reconcileUnrealizedCasts(casts, &left);
  if (!left.empty())
    return left.front().emitOpError("has no counterpart in SPIR-V: ")
           << left.front().getOperandTypes()[0] << " as "
           << left.front().getResultTypes()[0];
  return success();
}

/// By a mode of the whole kernel in OpenCL, which has no decoration for it.
static void forbidContraction(spirv::FuncOp function, bool isKernel) {
  if (isKernel) {
    OpBuilder b = OpBuilder::atBlockEnd(function->getBlock());
    spirv::ExecutionModeOp::create(b, function.getLoc(), function,
                                   spirv::ExecutionMode::ContractionOff,
                                   ArrayRef<int32_t>());
    return;
  }
  function.walk([](Operation *op) {
    if (isa<spirv::FAddOp, spirv::FSubOp, spirv::FMulOp>(op))
      op->setAttr("no_contraction", UnitAttr::get(op->getContext()));
  });
}

/// A loop around barriers holds whole products already: repeated, it outgrows
/// the instruction cache.
static void forbidUnrolling(spirv::FuncOp function) {
  function.walk([](spirv::LoopOp loop) {
    WalkResult found = loop.walk(
        [](spirv::ControlBarrierOp) { return WalkResult::interrupt(); });
    if (found.wasInterrupted())
      loop.setLoopControl(spirv::LoopControl::DontUnroll);
  });
}

static LogicalResult convertKernel(spirv::ModuleOp module,
                                   gpu::GPUFuncOp kernel, int64_t threads,
                                   const WorkgroupMemory &workgroup,
                                   bool hasWorkspace,
                                   const TargetDescription &target) {
  for (Type type : kernel.getArgumentTypes())
    if (!isa<MemRefType>(type))
      return kernel.emitOpError("expects memrefs as arguments, got ") << type;
  spirv::FuncOp function = moveKernel(module, kernel, threads);
  if (Attribute launch = kernel->getAttr(kLaunchAttrName))
    function->setAttr(kLaunchAttrName, launch);
  limitIndices(function);
  bool hasDouble = target.has("float64"), hasLong = target.has("int64");
  if ((!hasDouble && failed(verifyWithoutDouble(function, target))) ||
      failed(lowerKernelMemory(module, function, workgroup, hasWorkspace,
                               hasDouble, hasLong)))
    return failure();
  Block &body = function.getBody().front();
  body.eraseArguments(0, function.getNumArguments());
  function.setFunctionType(FunctionType::get(
      module.getContext(), body.getArgumentTypes(), TypeRange()));
  spirv::TargetEnvAttr environment = spirv::lookupTargetEnv(module);
  if ((!hasLong && failed(emulateWideIntegers(function))) ||
      failed(convert(function, environment)))
    return failure();
  forbidContraction(function, isOpenCL(target));
  forbidUnrolling(function);
  return success();
}

namespace {
/// A kernel to convert, with its local size.
struct Entry {
  gpu::GPUFuncOp kernel;
  int64_t threads;
  bool hasWorkspace;
};
} // namespace

/// A kernel, and the one that asks the device for it.
static LogicalResult findEntries(gpu::GPUFuncOp kernel,
                                 SmallVectorImpl<Entry> &entries) {
  FailureOr<Launch> launch = getLaunch(kernel);
  if (failed(launch))
    return failure();
  entries.push_back({kernel, launch->workgroup, !launch->workspace.empty()});
  if (launch->layoutCheck.empty())
    return success();
  auto kernels = kernel->getParentOfType<gpu::GPUModuleOp>();
  auto check = kernels.lookupSymbol<gpu::GPUFuncOp>(launch->layoutCheck);
  if (!check)
    return kernel.emitOpError("expects a kernel @")
           << launch->layoutCheck << " beside it, which its layout_check names";
  entries.push_back({check, launch->subgroupSize, /*hasWorkspace=*/false});
  return success();
}

/// All kernels of a module become entry points of one.
static LogicalResult convertKernels(gpu::GPUModuleOp kernels,
                                    ArrayRef<gpu::GPUFuncOp> launched) {
  SmallVector<Entry> entries;
  for (gpu::GPUFuncOp kernel : launched)
    if (failed(findEntries(kernel, entries)))
      return failure();
  WorkgroupMemory workgroup;
  for (const Entry &entry : entries)
    if (failed(workgroup.add(entry.kernel)))
      return failure();
  auto target = kernels->getAttrOfType<TargetAttr>(kTargetAttrName);
  if (!target)
    return kernels.emitOpError("expects attn.target, as attn-tiled-to-spirv "
                               "leaves it");
  bool hasMatrices = llvm::any_of(launched, usesMatrices);
  OpBuilder b(kernels);
  bool isKernel = isOpenCL(target.getValue());
  auto module =
      spirv::ModuleOp::create(b, kernels.getLoc(),
                              isKernel ? spirv::AddressingModel::Physical64
                                       : spirv::AddressingModel::Logical,
                              isKernel      ? spirv::MemoryModel::OpenCL
                              : hasMatrices ? spirv::MemoryModel::Vulkan
                                            : spirv::MemoryModel::GLSL450,
                              std::nullopt, kernels.getName());
  module->setAttr(
      spirv::getTargetEnvAttrName(),
      environmentOf(target.getValue(), hasMatrices, b.getContext()));
  module->setAttr(kTargetAttrName, target);
  // What a mapping declared itself.
  for (Operation &op : llvm::make_early_inc_range(*kernels.getBody()))
    if (isa<spirv::GlobalVariableOp, spirv::SpecConstantOp>(op))
      op.moveBefore(module.getBody(), module.getBody()->end());
  workgroup.createVariables(module);
  for (const Entry &entry : entries)
    if (failed(convertKernel(module, entry.kernel, entry.threads, workgroup,
                             entry.hasWorkspace, target.getValue())))
      return failure();
  kernels.erase();
  return success();
}

namespace {
struct MappedToSPIRV : attn::impl::MappedToSPIRVBase<MappedToSPIRV> {
  void runOnOperation() override {
    SmallVector<std::pair<gpu::GPUModuleOp, SmallVector<gpu::GPUFuncOp>>> found;
    for (auto kernels : getOperation().getOps<gpu::GPUModuleOp>()) {
      SmallVector<gpu::GPUFuncOp> launched;
      for (auto kernel : kernels.getOps<gpu::GPUFuncOp>())
        if (kernel->hasAttr(kLaunchAttrName))
          launched.push_back(kernel);
      if (!launched.empty())
        found.emplace_back(kernels, std::move(launched));
    }
    for (auto &[kernels, launched] : found)
      if (failed(convertKernels(kernels, launched)))
        return signalPassFailure();
  }
};
} // namespace
