//===- Requirements.cpp - Whether a device runs a kernel ------------------===//
//
// A kernel's description names SPIR-V capabilities; the Vulkan specification
// says, in "SPIR-V Environment", which feature or property of a device each
// of them needs.
//
//===----------------------------------------------------------------------===//

#include "Requirements.h"
#include "Pipeline.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;
using namespace attn;
using namespace attn::vulkan;

namespace {
struct Capability {
  StringLiteral name;
  bool (*isOn)(const PhysicalDevice &);
};
} // namespace

#define FEATURE(name, member)                                                  \
  {name, [](const PhysicalDevice &d) -> bool { return d.features.member; }}
#define SUBGROUP(name, bit)                                                    \
  {name, [](const PhysicalDevice &d) -> bool {                                 \
     return (d.subgroup.supportedStages & VK_SHADER_STAGE_COMPUTE_BIT) &&      \
            (d.subgroup.supportedOperations &                                  \
             VK_SUBGROUP_FEATURE_##bit##_BIT);                                 \
   }}
// clang-format off
static const Capability kCapabilities[] = {
    {"Shader", [](const PhysicalDevice &) { return true; }},
    {"Matrix", [](const PhysicalDevice &) { return true; }},
    FEATURE("Int16", core.shaderInt16),
    FEATURE("Int64", core.shaderInt64),
    FEATURE("Float64", core.shaderFloat64),
    FEATURE("Float16", float16Int8.shaderFloat16),
    FEATURE("Int8", float16Int8.shaderInt8),
    FEATURE("StorageBuffer16BitAccess", storage16.storageBuffer16BitAccess),
    FEATURE("UniformAndStorageBuffer16BitAccess",
            storage16.uniformAndStorageBuffer16BitAccess),
    FEATURE("StorageUniform16", storage16.uniformAndStorageBuffer16BitAccess),
    FEATURE("StoragePushConstant16", storage16.storagePushConstant16),
    FEATURE("StorageBuffer8BitAccess", storage8.storageBuffer8BitAccess),
    FEATURE("UniformAndStorageBuffer8BitAccess",
            storage8.uniformAndStorageBuffer8BitAccess),
    FEATURE("StoragePushConstant8", storage8.storagePushConstant8),
    FEATURE("VulkanMemoryModel", memoryModel.vulkanMemoryModel),
    FEATURE("VulkanMemoryModelDeviceScope",
            memoryModel.vulkanMemoryModelDeviceScope),
    FEATURE("DotProduct", integerDot.shaderIntegerDotProduct),
    FEATURE("DotProductInputAll", integerDot.shaderIntegerDotProduct),
    FEATURE("DotProductInput4x8Bit", integerDot.shaderIntegerDotProduct),
    FEATURE("DotProductInput4x8BitPacked", integerDot.shaderIntegerDotProduct),
    FEATURE("WorkgroupMemoryExplicitLayoutKHR",
            workgroupLayout.workgroupMemoryExplicitLayout),
    FEATURE("WorkgroupMemoryExplicitLayout8BitAccessKHR",
            workgroupLayout.workgroupMemoryExplicitLayout8BitAccess),
    FEATURE("WorkgroupMemoryExplicitLayout16BitAccessKHR",
            workgroupLayout.workgroupMemoryExplicitLayout16BitAccess),
    FEATURE("AtomicFloat32AddEXT", atomicFloat.shaderBufferFloat32AtomicAdd),
    FEATURE("CooperativeMatrixKHR", cooperativeMatrix.cooperativeMatrix),
    FEATURE("BFloat16TypeKHR", bfloat16.shaderBFloat16Type),
    FEATURE("BFloat16DotProductKHR", bfloat16.shaderBFloat16DotProduct),
    FEATURE("BFloat16CooperativeMatrixKHR",
            bfloat16.shaderBFloat16CooperativeMatrix),
    SUBGROUP("GroupNonUniform", BASIC),
    SUBGROUP("GroupNonUniformVote", VOTE),
    SUBGROUP("GroupNonUniformArithmetic", ARITHMETIC),
    SUBGROUP("GroupNonUniformBallot", BALLOT),
    SUBGROUP("GroupNonUniformShuffle", SHUFFLE),
    SUBGROUP("GroupNonUniformShuffleRelative", SHUFFLE_RELATIVE),
    SUBGROUP("GroupNonUniformClustered", CLUSTERED),
    SUBGROUP("GroupNonUniformQuad", QUAD),
    {"SignedZeroInfNanPreserve", [](const PhysicalDevice &d) -> bool {
       return d.floatControls.shaderSignedZeroInfNanPreserveFloat32; }},
    {"DenormPreserve", [](const PhysicalDevice &d) -> bool {
       return d.floatControls.shaderDenormPreserveFloat32; }},
    {"RoundingModeRTE", [](const PhysicalDevice &d) -> bool {
       return d.floatControls.shaderRoundingModeRTEFloat32; }},
};
// clang-format on
#undef FEATURE
#undef SUBGROUP

/// The profile that needs nothing that a device may lack.
static constexpr StringLiteral kPortable = "vulkan";

static Error refuse(const PhysicalDevice &device,
                    const LaunchDescription &launch, const Twine &needs,
                    const Twine &has) {
  std::string otherTarget =
      launch.target == kPortable
          ? ""
          : ("compile it for " + kPortable + ", or ").str();
  return createStringError("kernel '" + launch.name + "' needs " + needs +
                           ", and " + device.name() + " has " + has + "; " +
                           otherTarget +
                           "choose another device by ATTN_VULKAN_DEVICE");
}

Expected<int64_t> attn::vulkan::constantSize(StringRef expression) {
  return evaluateSize(expression, SizeMap());
}

/// "vulkan1.2" as Vulkan counts versions.
static Expected<uint32_t> parseEnvironment(StringRef environment) {
  StringRef text = environment;
  unsigned major, minor;
  if (!text.consume_front("vulkan") || text.consumeInteger(10, major) ||
      !text.consume_front(".") || text.getAsInteger(10, minor))
    return createStringError("expected an environment such as vulkan1.1, got "
                             "'" +
                             environment + "'");
  return VK_MAKE_API_VERSION(0, major, minor, 0);
}

static Error checkVersion(const PhysicalDevice &device,
                          const LaunchDescription &launch) {
  Expected<uint32_t> version = parseEnvironment(launch.environment);
  if (!version)
    return version.takeError();
  if (device.hasVersion(std::max(*version, VK_API_VERSION_1_1)))
    return Error::success();
  uint32_t given = device.properties.apiVersion;
  return createStringError(
      "kernel '" + launch.name + "' is built for " + launch.environment +
      ", and " + device.name() + " knows Vulkan " +
      Twine(VK_API_VERSION_MAJOR(given)) + "." +
      Twine(VK_API_VERSION_MINOR(given)) + "; compile it for " + kPortable +
      ", which needs 1.1, or update the driver");
}

static Error checkFeatures(const PhysicalDevice &device,
                           const LaunchDescription &launch) {
  SmallVector<StringRef> names;
  StringRef(launch.features).split(names, ',', -1, /*KeepEmpty=*/false);
  for (StringRef name : names) {
    const Capability *known = find_if(
        kCapabilities, [&](const Capability &c) { return c.name == name; });
    if (known == std::end(kCapabilities))
      return createStringError("kernel '" + launch.name +
                               "' needs the feature " + name +
                               ", which this runtime does not know; update it");
    if (!known->isOn(device))
      return refuse(device, launch, "the feature " + name, "it not");
  }
  return Error::success();
}

static Error checkSubgroupSize(const PhysicalDevice &device,
                               const LaunchDescription &launch) {
  int64_t wanted = launch.subgroupSize;
  const auto &sizes = device.subgroupSizes;
  bool isFixed = !device.features.subgroupSize.subgroupSizeControl;
  if (!wanted || (isFixed && wanted == device.subgroup.subgroupSize))
    return Error::success();
  int64_t least =
      isFixed ? device.subgroup.subgroupSize : sizes.minSubgroupSize;
  int64_t most = isFixed ? device.subgroup.subgroupSize : sizes.maxSubgroupSize;
  if (wanted < least || wanted > most)
    return refuse(device, launch, "subgroups of " + Twine(wanted),
                  "those of " + Twine(least) + " to " + Twine(most));
  return Error::success();
}

using Require =
    function_ref<Error(int64_t needed, int64_t most, const Twine &)>;

static Error checkWorkgroup(const PhysicalDevice &device,
                            const KernelLaunch &kernel, Require require) {
  const VkPhysicalDeviceLimits &limits = device.properties.limits;
  Expected<int64_t> shared = constantSize(kernel.sharedMemoryBytes);
  if (!shared)
    return shared.takeError();
  if (Error error = require(*shared, limits.maxComputeSharedMemorySize,
                            "bytes of shared memory"))
    return error;
  int64_t threads = 1;
  for (int d : {0, 1, 2}) {
    Expected<int64_t> size = constantSize(kernel.workgroup[d]);
    if (!size)
      return size.takeError();
    if (Error error = require(*size, limits.maxComputeWorkGroupSize[d],
                              "threads along dimension " + Twine(d)))
      return error;
    threads *= *size;
  }
  return require(threads, limits.maxComputeWorkGroupInvocations,
                 "threads in a workgroup");
}

static Error checkLimits(const PhysicalDevice &device,
                         const LaunchDescription &launch) {
  const VkPhysicalDeviceLimits &limits = device.properties.limits;
  auto require = [&](int64_t needed, int64_t most, const Twine &what) {
    return needed <= most ? Error::success()
                          : refuse(device, launch, Twine(needed) + " " + what,
                                   "at most " + Twine(most));
  };
  for (const KernelLaunch *kernel : launch.kernels())
    if (Error error = checkWorkgroup(device, *kernel, require))
      return error;
  if (Error error = require(pushedBytes(launch), limits.maxPushConstantsSize,
                            "bytes of push constants"))
    return error;
  return require(boundBuffers(launch),
                 std::min(limits.maxPerStageDescriptorStorageBuffers,
                          limits.maxDescriptorSetStorageBuffers),
                 "storage buffers");
}

Error attn::vulkan::checkRuns(const PhysicalDevice &device,
                              const LaunchDescription &launch) {
  if (Error error = checkVersion(device, launch))
    return error;
  if (Error error = checkFeatures(device, launch))
    return error;
  if (Error error = checkSubgroupSize(device, launch))
    return error;
  return checkLimits(device, launch);
}
