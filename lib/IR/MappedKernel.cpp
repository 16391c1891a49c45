//===- MappedKernel.cpp - What a mapped GPU kernel promises ---------------===//

#include "attn/IR/MappedKernel.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Diagnostics.h"

using namespace mlir;
using namespace attn;

SmallVector<KernelScalar> attn::getKernelScalars(TypeRange arguments) {
  SmallVector<KernelScalar> scalars;
  for (int64_t number = 0, e = arguments.size(); number < e; ++number) {
    auto type = dyn_cast<MemRefType>(arguments[number]);
    SmallVector<int64_t> strides;
    int64_t offset;
    if (!type || failed(type.getStridesAndOffset(strides, offset)))
      continue;
    auto addOpen = [&](KernelScalar::Field field, ArrayRef<int64_t> values) {
      for (auto [dimension, value] : llvm::enumerate(values))
        if (ShapedType::isDynamic(value))
          scalars.push_back({number, field, int64_t(dimension)});
    };
    addOpen(KernelScalar::Size, type.getShape());
    addOpen(KernelScalar::Stride, strides);
    addOpen(KernelScalar::Offset, offset);
  }
  return scalars;
}

bool attn::fitPushConstants(ArrayRef<KernelScalar> scalars) {
  constexpr size_t kBytes = 128;
  return scalars.size() * sizeof(int32_t) <= kBytes;
}

void attn::setLaunch(Operation *kernel, const Launch &launch) {
  Builder b(kernel->getContext());
  auto integer = [&](int64_t value) { return b.getI64IntegerAttr(value); };
  SmallVector<Attribute> maps;
  for (const TensorMap &map : launch.tensorMaps)
    maps.push_back(
        b.getDictionaryAttr({b.getNamedAttr("argument", integer(map.argument)),
                             b.getNamedAttr("box", b.getI64ArrayAttr(map.box)),
                             b.getNamedAttr("swizzle", integer(map.swizzle))}));
  SmallVector<NamedAttribute> fields = {
      b.getNamedAttr("grid", b.getStringAttr(launch.grid)),
      b.getNamedAttr("workgroup", integer(launch.workgroup)),
      b.getNamedAttr("shared_memory", integer(launch.sharedMemory)),
      b.getNamedAttr("tensor_maps", b.getArrayAttr(maps))};
  if (launch.subgroupSize != 0)
    fields.push_back(
        b.getNamedAttr("subgroup_size", integer(launch.subgroupSize)));
  if (!launch.workspace.empty())
    fields.push_back(
        b.getNamedAttr("workspace", b.getStringAttr(launch.workspace)));
  if (!launch.layoutCheck.empty())
    fields.push_back(
        b.getNamedAttr("layout_check", b.getStringAttr(launch.layoutCheck)));
  kernel->setAttr(kLaunchAttrName, b.getDictionaryAttr(fields));
}

static std::optional<int64_t> getInteger(DictionaryAttr from, StringRef name) {
  auto value = from.getAs<IntegerAttr>(name);
  if (!value || value.getInt() < 0)
    return std::nullopt;
  return value.getInt();
}

static std::optional<TensorMap> getTensorMap(Attribute attribute) {
  auto from = dyn_cast<DictionaryAttr>(attribute);
  if (!from)
    return std::nullopt;
  std::optional<int64_t> argument = getInteger(from, "argument"),
                         swizzle = getInteger(from, "swizzle");
  auto box = from.getAs<ArrayAttr>("box");
  if (!argument || !swizzle || !box)
    return std::nullopt;
  TensorMap map{*argument, {}, *swizzle};
  for (Attribute size : box)
    if (auto number = dyn_cast<IntegerAttr>(size))
      map.box.push_back(number.getInt());
    else
      return std::nullopt;
  return map;
}

FailureOr<Launch> attn::getLaunch(Operation *kernel) {
  auto from = kernel->getAttrOfType<DictionaryAttr>(kLaunchAttrName);
  auto malformed = [&](const Twine &expected) {
    return kernel->emitError("expected " + kLaunchAttrName + " with " +
                             expected);
  };
  if (!from)
    return malformed("grid, workgroup and shared_memory");
  Launch launch;
  auto grid = from.getAs<StringAttr>("grid");
  std::optional<int64_t> workgroup = getInteger(from, "workgroup"),
                         sharedMemory = getInteger(from, "shared_memory");
  if (!grid || !workgroup || *workgroup == 0 || !sharedMemory)
    return malformed("a size expression 'grid', a positive number 'workgroup' "
                     "and a number 'shared_memory'");
  launch.grid = grid.str();
  launch.workgroup = *workgroup;
  launch.sharedMemory = *sharedMemory;
  launch.subgroupSize = getInteger(from, "subgroup_size").value_or(0);
  if (auto workspace = from.getAs<StringAttr>("workspace"))
    launch.workspace = workspace.str();
  if (auto check = from.getAs<StringAttr>("layout_check"))
    launch.layoutCheck = check.str();
  auto maps = from.getAs<ArrayAttr>("tensor_maps");
  if (!maps)
    return launch;
  for (Attribute attribute : maps) {
    std::optional<TensorMap> map = getTensorMap(attribute);
    if (!map)
      return malformed("tensor_maps of {argument, box, swizzle}");
    launch.tensorMaps.push_back(std::move(*map));
  }
  return launch;
}
