//===- MappedKernel.cpp - The launch of a mapped GPU kernel ---------------===//

#include "MappedKernel.h"
#include "Describe.h"
#include "attn/IR/Attn.h"
#include "attn/IR/Fallback.h"
#include "attn/IR/MappedKernel.h"
#include "attn/IR/TiledForm.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace attn;

SmallVector<gpu::GPUFuncOp> attn::findKernels(ModuleOp module) {
  SmallVector<gpu::GPUFuncOp> kernels, fallbacks;
  for (auto module : module.getOps<gpu::GPUModuleOp>())
    for (auto function : module.getOps<gpu::GPUFuncOp>())
      if (function->hasAttr(kLaunchAttrName))
        (getFallback(function) ? fallbacks : kernels).push_back(function);
  kernels.append(fallbacks);
  return kernels;
}

static std::string sizeName(size_t argument, size_t dimension) {
  return "arg" + llvm::utostr(argument) + "_dim" + llvm::utostr(dimension);
}

/// Arguments of the caller, in front of workspace and tensor maps.
static size_t countArguments(gpu::GPUFuncOp kernel, const Launch &mapped) {
  size_t behind = mapped.tensorMaps.size() + !mapped.workspace.empty();
  size_t all = kernel.getNumArguments();
  return all < behind ? 0 : all - behind;
}

llvm::Expected<LaunchDescription> attn::describeKernel(gpu::GPUFuncOp kernel) {
  LaunchDescription launch;
  launch.name = kernel.getName().str();
  FailureOr<Launch> mapped = getLaunch(kernel);
  if (failed(mapped))
    return llvm::createStringError("attn.launch is malformed");
  ArrayRef<Type> types = kernel.getArgumentTypes();
  for (auto [index, type] :
       llvm::enumerate(types.take_front(countArguments(kernel, *mapped)))) {
    auto memref = dyn_cast<MemRefType>(type);
    if (!memref)
      break;
    ArgumentDescription argument;
    argument.name = "arg" + llvm::utostr(index);
    argument.access = Access::InOut;
    for (auto [dimension, size] : llvm::enumerate(memref.getShape()))
      argument.shape.push_back(ShapedType::isDynamic(size)
                                   ? Dimension(sizeName(index, dimension))
                                   : Dimension(size));
    if (llvm::Error error = describeBuffer(memref, argument))
      return llvm::createStringError(argument.name + " of @" + launch.name +
                                     " " + toString(std::move(error)));
    launch.arguments.push_back(std::move(argument));
  }
  return launch;
}

/// The grid speaks of arg<i>_dim<k>, a description of the sizes' own names.
static std::string renameSizes(StringRef grid,
                               const LaunchDescription &launch) {
  std::string renamed;
  auto isWord = [](char c) { return llvm::isAlnum(c) || c == '_'; };
  while (!grid.empty()) {
    StringRef word = grid.take_while(isWord);
    if (word.empty()) {
      renamed += grid.front();
      grid = grid.drop_front();
      continue;
    }
    grid = grid.drop_front(word.size());
    std::string name = word.str();
    for (auto [i, argument] : llvm::enumerate(launch.arguments))
      for (auto [k, size] : llvm::enumerate(argument.shape))
        if (word == sizeName(i, k))
          name = size.isDynamic() ? size.name : llvm::itostr(size.size);
    renamed += name;
  }
  return renamed;
}

/// Tasks in rows of kGridWidth.
static void splitGrid(KernelLaunch &launch) {
  std::string tasks = launch.grid[0], width = llvm::itostr(kGridWidth);
  launch.grid[0] = "min(" + tasks + ", " + width + ")";
  launch.grid[1] = "ceildiv(" + tasks + ", " + width + ")";
}

/// What all kernels of a SPIR-V module share; `arguments` are those in front of
/// the workspace.
static void addSpirvLaunch(TypeRange arguments, const TargetDescription &target,
                           LaunchDescription &launch) {
  launch.environment = target.arch;
  SmallVector<KernelScalar> scalars = getKernelScalars(arguments);
  launch.scalarsIn = StringRef(target.arch).starts_with("opencl")
                         ? ScalarsIn::Arguments
                     : fitPushConstants(scalars) ? ScalarsIn::PushConstants
                                                 : ScalarsIn::Buffer;
  using Field = ScalarDescription::Field;
  for (const KernelScalar &scalar : scalars) {
    Field field = scalar.field == KernelScalar::Size     ? Field::Size
                  : scalar.field == KernelScalar::Stride ? Field::Stride
                                                         : Field::Offset;
    launch.scalars.push_back({scalar.argument, field, scalar.dimension});
  }
}

static llvm::Error addLaunch(gpu::GPUFuncOp kernel, const Launch &mapped,
                             const LaunchDescription &description,
                             KernelLaunch &launch) {
  size_t arguments = countArguments(kernel, mapped);
  if (arguments != description.arguments.size())
    return llvm::createStringError(
        "kernel @" + kernel.getName() + " has " + Twine(arguments) +
        " arguments before its tensor maps, its function " +
        Twine(description.arguments.size()));
  launch.entry = kernel.getName().str();
  launch.grid[0] = renameSizes(mapped.grid, description);
  launch.workgroup[0] = llvm::itostr(mapped.workgroup);
  launch.sharedMemoryBytes = llvm::itostr(mapped.sharedMemory);
  for (const TensorMap &map : mapped.tensorMaps) {
    if (map.argument >= int64_t(arguments) ||
        map.box.size() != description.arguments[map.argument].shape.size())
      return llvm::createStringError("a tensor map of kernel @" +
                                     kernel.getName() +
                                     " has no argument of its rank");
    launch.tensorMaps.push_back(
        {map.argument, {map.box.begin(), map.box.end()}, map.swizzle});
  }
  return llvm::Error::success();
}

/// Kernels that are launched together say the same; those that take their place
/// may need another workspace.
static void addWorkspace(const std::string &bytes, LaunchDescription &launch) {
  std::string &all = launch.workspaceBytes;
  if (all == "0")
    all = bytes;
  else if (all != bytes && !StringRef(all).ends_with(", " + bytes + ")"))
    all = "max(" + all + ", " + bytes + ")";
}

llvm::Error attn::addLaunches(ArrayRef<gpu::GPUFuncOp> kernels,
                              LaunchDescription &launch) {
  for (gpu::GPUFuncOp kernel : kernels) {
    FailureOr<Launch> mapped = getLaunch(kernel);
    if (failed(mapped))
      return llvm::createStringError("attn.launch is malformed");
    bool isFirst = kernel == kernels.front();
    KernelLaunch &own = isFirst               ? launch
                        : getFallback(kernel) ? launch.otherwise.emplace_back()
                                              : launch.then.emplace_back();
    if (llvm::Error error = addLaunch(kernel, *mapped, launch, own))
      return error;
    auto target =
        kernel->getParentOp()->getAttrOfType<TargetAttr>(kTargetAttrName);
    bool isSpirv = target && target.getValue().family == "vulkan";
    if (isSpirv)
      splitGrid(own);
    if (!mapped->workspace.empty())
      addWorkspace(renameSizes(mapped->workspace, launch), launch);
    if (!isFirst)
      continue;
    launch.subgroupSize = mapped->subgroupSize;
    launch.layoutCheck = mapped->layoutCheck;
    if (isSpirv)
      addSpirvLaunch(
          kernel.getArgumentTypes().take_front(countArguments(kernel, *mapped)),
          target.getValue(), launch);
  }
  return llvm::Error::success();
}

llvm::Error attn::requireAttentionAlone(func::FuncOp entry) {
  bool isFirst = true;
  for (Operation &op : entry.getOps()) {
    if (isa<AttentionOpInterface>(op) && std::exchange(isFirst, false))
      continue;
    if (isa<func::ReturnOp, tensor::CastOp, tensor::EmptyOp, memref::CastOp>(
            op) ||
        op.hasTrait<OpTrait::ConstantLike>())
      continue;
    return llvm::createStringError(
        "a GPU kernel is one attention, and @" + entry.getName() + " has '" +
        op.getName().getStringRef() +
        "' beside it; move that to a function of its own");
  }
  return llvm::Error::success();
}

gpu::GPUFuncOp attn::replaceByEmptyKernel(func::FuncOp function,
                                          const TargetDescription &target) {
  OpBuilder b(function);
  Location loc = function.getLoc();
  auto module =
      gpu::GPUModuleOp::create(b, loc, (function.getName() + "_kernels").str());
  module->setAttr(kTargetAttrName, TargetAttr::get(b.getContext(), target));
  b.setInsertionPointToStart(module.getBody());
  auto kernel = gpu::GPUFuncOp::create(
      b, loc, function.getName(),
      b.getFunctionType(function.getArgumentTypes(), TypeRange()));
  kernel->setAttr(gpu::GPUDialect::getKernelFuncAttrName(), b.getUnitAttr());
  constexpr int64_t kAnyWorkgroup = 32;
  kernel->setAttr(
      kLaunchAttrName,
      b.getDictionaryAttr(
          {b.getNamedAttr("grid", b.getStringAttr("0")),
           b.getNamedAttr("workgroup", b.getI64IntegerAttr(kAnyWorkgroup)),
           b.getNamedAttr("shared_memory", b.getI64IntegerAttr(0))}));
  b.setInsertionPointToStart(&kernel.getBody().front());
  gpu::ReturnOp::create(b, loc);
  function.erase();
  return kernel;
}
