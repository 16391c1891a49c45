//===- VulkanKernelTest.cpp - The Vulkan runtime on a software device -----===//
//
// Small kernels, assembled from Inputs/*.spvasm, run on Mesa's software device
// behind the validation layers: what these say is an error of the launch.
//
//===----------------------------------------------------------------------===//

#include "attn/Runtime/Vulkan/VulkanKernel.h"
#include "SoftwareVulkan.h"
#include "attn/Artifact/File.h"
#include "llvm/Support/Process.h"
#include "gtest/gtest.h"
#include <chrono>
#include <cstring>

using namespace llvm;
using namespace attn;

namespace {

/// Sets a variable of the environment for a scope.
class Variable {
public:
  Variable(const char *name, const std::string &value)
      : name(name), before(sys::Process::GetEnv(name)) {
    setenv(name, value.c_str(), /*overwrite=*/1);
  }
  ~Variable() {
    if (before)
      setenv(name, before->c_str(), /*overwrite=*/1);
    else
      unsetenv(name);
  }

private:
  const char *name;
  std::optional<std::string> before;
};

ArgumentDescription makeArgument(const char *name, ElementType type,
                                 Access access) {
  ArgumentDescription argument;
  argument.name = name;
  argument.type = type;
  argument.shape = {Dimension("S")};
  argument.access = access;
  return argument;
}

/// A kernel from an argument to another of S elements.
Artifact makeArtifact(StringRef kernel, ElementType type = ElementType::f32) {
  Artifact artifact;
  LaunchDescription &d = artifact.launch;
  d.format = "spv";
  d.name = d.entry = kernel.split('-').first.str();
  d.target = "sample";
  d.abi = "vulkan-buffers";
  d.environment = "vulkan1.1";
  d.arguments = {makeArgument("from", type, Access::In),
                 makeArgument("to", type, Access::Out)};
  d.grid[0] = "ceildiv(S, 64)";
  d.workgroup[0] = "64";
  std::string path = (ATTN_VULKAN_KERNELS "/" + kernel + ".spv").str();
  artifact.code = cantFail(readFile(path))->getBuffer().str();
  return artifact;
}

/// Copies all words.
Artifact makeWords(ElementType type = ElementType::f32) {
  Artifact artifact = makeArtifact("words", type);
  artifact.launch.grid = {"1024", "1 + S / 16384", "1"};
  return artifact;
}

/// to[i] = from[offset + i * stride].
Artifact makeGather(ScalarsIn place = ScalarsIn::PushConstants) {
  using Field = ScalarDescription::Field;
  Artifact artifact =
      makeArtifact(place == ScalarsIn::Buffer ? "gather-buffer" : "gather");
  artifact.launch.scalars = {
      {0, Field::Size, 0}, {0, Field::Stride, 0}, {0, Field::Offset, 0}};
  artifact.launch.scalarsIn = place;
  return artifact;
}

/// Copies by way of the workspace, in two kernels.
Artifact makeSteps() {
  Artifact artifact = makeArtifact("steps");
  artifact.launch.workspaceBytes = "4 * S";
  KernelLaunch &back = artifact.launch.then.emplace_back();
  back.entry = "back";
  back.grid[0] = "ceildiv(S, 32)";
  back.workgroup[0] = "32";
  return artifact;
}

class VulkanKernelTest : public testing::Test {
protected:
  static void SetUpTestSuite() {
    ASSERT_FALSE(sys::fs::createUniqueDirectory("attn-vulkan", cacheFolder));
    setenv("XDG_CACHE_HOME", cacheFolder.c_str(), /*overwrite=*/1);
  }
  static void TearDownTestSuite() { sys::fs::remove_directories(cacheFolder); }

  void SetUp() override {
    if (!useSoftwareVulkan())
      GTEST_SKIP() << "Mesa's software Vulkan is not installed";
    testing::internal::CaptureStderr();
    isCapturing = true;
  }
  /// What the layers say when the device is gone is not an error of any call.
  void TearDown() override {
    if (!isCapturing)
      return;
    std::string text = testing::internal::GetCapturedStderr();
    EXPECT_EQ(text.find("Vulkan validation"), std::string::npos) << text;
  }

  std::vector<HostTensor> makeArguments(int64_t size,
                                        ElementType type = ElementType::f32) {
    std::vector<HostTensor> arguments(2);
    for (HostTensor &argument : arguments)
      argument = cantFail(HostTensor::create(type, {size}));
    if (isFloat(type))
      arguments[0].fillNormal(7);
    else
      arguments[0].fillIntegers(7, 0, type == ElementType::i1 ? 1 : 100);
    arguments[1].poison();
    return arguments;
  }

  std::string errorOf(const Artifact &artifact, int64_t size = 100) {
    Expected<std::unique_ptr<Kernel>> kernel = loadKernel(artifact);
    if (!kernel)
      return toString(kernel.takeError());
    std::vector<HostTensor> arguments =
        makeArguments(size, artifact.launch.arguments[0].type);
    Error error = (*kernel)->launch(arguments);
    return error ? toString(std::move(error)) : "no error";
  }

  void expectCopies(const Artifact &artifact, int64_t size) {
    Expected<std::unique_ptr<Kernel>> kernel = loadKernel(artifact);
    ASSERT_TRUE(bool(kernel)) << toString(kernel.takeError());
    std::vector<HostTensor> arguments =
        makeArguments(size, artifact.launch.arguments[0].type);
    Error error = (*kernel)->launch(arguments);
    ASSERT_FALSE(bool(error)) << toString(std::move(error));
    EXPECT_EQ(std::memcmp(arguments[1].data(), arguments[0].data(),
                          arguments[0].bytes()),
              0)
        << elementTypeName(arguments[0].type()).str() << " " << size;
  }

  static SmallString<128> cacheFolder;
  bool isCapturing = false;
};
SmallString<128> VulkanKernelTest::cacheFolder;

TEST_F(VulkanKernelTest, ScalarsAsPushConstantsAndInABuffer) {
  for (ScalarsIn place : {ScalarsIn::PushConstants, ScalarsIn::Buffer}) {
    expectCopies(makeGather(place), 1000);
    Artifact strided = makeGather(place);
    strided.launch.arguments[0].strides = {3};
    strided.launch.arguments[0].offset = 5;
    expectCopies(strided, 1000);
  }
}

TEST_F(VulkanKernelTest, KernelsInOrderAndAWorkspace) {
  for (int64_t size : {0, 1, 1000, 20000})
    expectCopies(makeSteps(), size);
  // The first alone leaves the poison.
  Artifact first = makeSteps();
  first.launch.then.clear();
  std::vector<HostTensor> arguments = makeArguments(100);
  cantFail(cantFail(loadKernel(first))->launch(arguments));
  EXPECT_EQ(arguments[1].countPoisoned(), 100);
  Artifact wrong = makeSteps();
  wrong.launch.then[0].entry = "forth";
  EXPECT_EQ(errorOf(wrong), "cannot load kernel 'steps': the SPIR-V module has "
                            "no compute entry 'forth', but 'steps', 'back'");
  wrong = makeSteps();
  wrong.launch.then[0].workgroup[0] = "64";
  EXPECT_EQ(errorOf(wrong),
            "cannot load kernel 'steps': the SPIR-V module has a local size of "
            "32 along dimension 0, the launch description 64");
  wrong = makeSteps();
  wrong.launch.then[0].sharedMemoryBytes = "1000000";
  EXPECT_NE(errorOf(wrong).find("kernel 'steps' needs 1000000 bytes of shared "
                                "memory"),
            std::string::npos);
}

TEST_F(VulkanKernelTest, SizesOfZero) {
  expectCopies(makeGather(), 0);
  expectCopies(makeGather(ScalarsIn::Buffer), 0);
}

TEST_F(VulkanKernelTest, EveryElementTypeInWholeWords) {
  for (ElementType type :
       {ElementType::i1, ElementType::i8, ElementType::f16, ElementType::bf16,
        ElementType::i32, ElementType::f32, ElementType::i64, ElementType::f64})
    for (int64_t size : {1, 5, 64, 127})
      expectCopies(makeWords(type), size);
}

TEST_F(VulkanKernelTest, StridedOutputsKeepWhatLiesBetween) {
  Artifact artifact = makeWords();
  for (ArgumentDescription &argument : artifact.launch.arguments)
    argument.strides = {2};
  expectCopies(artifact, 333);
}

TEST_F(VulkanKernelTest, StagedCopies) {
  Variable staged("ATTN_VULKAN_STAGED", "1");
  expectCopies(makeGather(), 1000);
  // Two pieces, the second of them short.
  expectCopies(makeWords(ElementType::i1), (64 << 20) + 5);
}

TEST_F(VulkanKernelTest, Times) {
  std::unique_ptr<Kernel> kernel = cantFail(loadKernel(makeGather()));
  std::vector<HostTensor> arguments = makeArguments(1000);
  Timing timing = cantFail(kernel->time(arguments, 7));
  EXPECT_EQ(timing.runs, 7);
  EXPECT_GT(timing.minimum, 0);
  EXPECT_LT(timing.median, 1);
  EXPECT_EQ(arguments[1].toDoubles(), arguments[0].toDoubles());
}

TEST_F(VulkanKernelTest, KeepsWhatTheDriverCompiled) {
  auto files = [&] {
    std::vector<std::string> found;
    std::error_code error;
    for (sys::fs::directory_iterator it(cacheFolder + "/attn", error), end;
         !error && it != end; it.increment(error))
      found.push_back(it->path());
    return found;
  };
  expectCopies(makeGather(), 10);
  ASSERT_FALSE(files().empty());
  // A cache that is damaged is not used, one without a place not written.
  for (const std::string &file : files())
    cantFail(writeFile(file, StringRef("damaged")));
  expectCopies(makeGather(), 10);
  Variable nowhere("XDG_CACHE_HOME", "/proc/none");
  expectCopies(makeGather(), 10);
}

TEST_F(VulkanKernelTest, AsksForTheLayoutOnce) {
  auto copies = [&](StringRef check) {
    Artifact artifact = makeArtifact("layout");
    artifact.launch.subgroupSize = 8;
    artifact.launch.layoutCheck = check.str();
    std::unique_ptr<Kernel> kernel = cantFail(loadKernel(artifact));
    std::vector<HostTensor> arguments = makeArguments(100);
    cantFail(kernel->launch(arguments));
    std::vector<double> zeros(100, 0);
    bool isZero = arguments[1].toDoubles() == zeros;
    EXPECT_TRUE(isZero || arguments[1].toDoubles() == arguments[0].toDoubles());
    return !isZero;
  };
  // One answer a module: these share one.
  auto forget = [&] {
    std::error_code error;
    for (sys::fs::directory_iterator it(cacheFolder + "/attn", error), end;
         !error && it != end; it.increment(error))
      if (StringRef(it->path()).ends_with(".layout"))
        sys::fs::remove(it->path());
  };
  EXPECT_FALSE(copies(""));
  EXPECT_FALSE(copies("doubts"));
  EXPECT_FALSE(copies("agrees")) << "the answer was not kept";
  forget();
  EXPECT_TRUE(copies("agrees"));
  EXPECT_TRUE(copies("doubts")) << "the answer was not kept";
  {
    Variable unknown("ATTN_VULKAN_LAYOUT", "unknown");
    EXPECT_FALSE(copies("agrees"));
  }
  Variable nowhere("XDG_CACHE_HOME", "/proc/none");
  EXPECT_TRUE(copies("agrees"));
  EXPECT_FALSE(copies("doubts"));
}

TEST_F(VulkanKernelTest, RefusesWhatTheDeviceLacks) {
  Artifact artifact = makeGather();
  artifact.launch.features = "Int16,CooperativeMatrixKHR";
  std::string error = errorOf(artifact);
  EXPECT_TRUE(StringRef(error).starts_with(
      "kernel 'gather' needs the feature CooperativeMatrixKHR, and llvmpipe"))
      << error;
  EXPECT_TRUE(StringRef(error).ends_with(
      " has it not; compile it for vulkan, or choose another device by "
      "ATTN_VULKAN_DEVICE"))
      << error;
  artifact.launch.features = "Telepathy";
  EXPECT_EQ(errorOf(artifact),
            "kernel 'gather' needs the feature Telepathy, which this runtime "
            "does not know; update it");
  artifact = makeGather();
  artifact.launch.target = "vulkan";
  artifact.launch.sharedMemoryBytes = "1000000";
  error = errorOf(artifact);
  EXPECT_TRUE(StringRef(error).starts_with(
      "kernel 'gather' needs 1000000 bytes of shared memory, and llvmpipe"))
      << error;
  EXPECT_TRUE(StringRef(error).ends_with(
      " has at most 32768; choose another device by ATTN_VULKAN_DEVICE"))
      << error;
  artifact = makeGather();
  artifact.launch.workgroup = {"64", "32", "1"};
  EXPECT_NE(errorOf(artifact).find("needs 2048 threads in a workgroup, and "),
            std::string::npos);
  artifact = makeGather();
  artifact.launch.subgroupSize = 7;
  EXPECT_NE(errorOf(artifact).find("needs subgroups of 7, and "),
            std::string::npos);
  artifact = makeGather();
  artifact.launch.environment = "vulkan9.1";
  EXPECT_NE(errorOf(artifact).find("' is built for vulkan9.1, and llvmpipe"),
            std::string::npos);
  artifact.launch.environment = "opencl2.0";
  EXPECT_EQ(errorOf(artifact), "expected an environment such as vulkan1.1, got "
                               "'opencl2.0'");
}

TEST_F(VulkanKernelTest, SubgroupSizeOfTheDevice) {
  Artifact artifact = makeGather();
  artifact.launch.subgroupSize = 8;
  artifact.launch.features = "GroupNonUniform,GroupNonUniformArithmetic";
  expectCopies(artifact, 100);
}

TEST_F(VulkanKernelTest, RefusesWhatItCannotLaunch) {
  Artifact artifact = makeGather();
  artifact.launch.abi = "pointers";
  EXPECT_EQ(errorOf(artifact),
            "kernel 'gather' has abi 'pointers', expected vulkan-buffers");
  artifact = makeGather();
  artifact.launch.grid[1] = "1000 * S";
  EXPECT_NE(errorOf(artifact).find("kernel 'gather' needs 100000 of 1000 * S, "
                                   "and llvmpipe"),
            std::string::npos);
  artifact = makeGather();
  artifact.launch.grid[0] = "1";
  artifact.launch.arguments[0].strides = {int64_t(1) << 40};
  EXPECT_EQ(errorOf(artifact, 1),
            "argument 'from': a Vulkan kernel counts in 32 bits, got "
            "1099511627776; give smaller sizes and strides");
  artifact = makeGather();
  artifact.launch.arguments[0].strides = {1 << 20};
  EXPECT_NE(errorOf(artifact).find("; give smaller sizes"), std::string::npos);

  std::unique_ptr<Kernel> kernel = cantFail(loadKernel(makeGather()));
  std::vector<HostTensor> arguments = makeArguments(8, ElementType::f16);
  EXPECT_EQ(toString(kernel->launch(arguments)),
            "argument 'from': expected f32, got f16");
  arguments.pop_back();
  EXPECT_EQ(toString(kernel->launch(arguments)),
            "kernel 'gather' takes 2 arguments, got 1");
}

TEST_F(VulkanKernelTest, DamagedCode) {
  Artifact whole = makeGather();
  auto errorWith = [&](StringRef code) {
    Artifact artifact = whole;
    artifact.code = code.str();
    return errorOf(artifact);
  };
  EXPECT_EQ(errorWith("not spirv at all, but long enough"),
            "cannot load kernel 'gather': the code is no SPIR-V module; "
            "compile it again");
  for (size_t length : {0, 3, 19})
    EXPECT_NE(errorWith(StringRef(whole.code).take_front(length))
                  .find("is no SPIR-V module"),
              std::string::npos);
  for (size_t cut : {1, 2, 3, 4, 8, 10, 100})
    EXPECT_NE(errorWith(StringRef(whole.code).drop_back(cut)).find("cut short"),
              std::string::npos)
        << cut;
  Artifact other = makeGather();
  other.launch.entry = "scatter";
  EXPECT_EQ(errorOf(other),
            "cannot load kernel 'gather': the SPIR-V module has "
            "no compute entry 'scatter', but 'gather'");
  other = makeGather();
  other.launch.workgroup[0] = "32";
  EXPECT_EQ(errorOf(other),
            "cannot load kernel 'gather': the SPIR-V module has a local size "
            "of 64 along dimension 0, the launch description 32");
}

TEST_F(VulkanKernelTest, ChoosesTheDevice) {
  {
    Variable wish("ATTN_VULKAN_DEVICE", "0");
    expectCopies(makeGather(), 10);
  }
  {
    Variable wish("ATTN_VULKAN_DEVICE", "LLVMpipe");
    expectCopies(makeGather(), 10);
  }
  for (const char *name : {"7", "voodoo"}) {
    Variable wish("ATTN_VULKAN_DEVICE", name);
    std::string expected = std::string("no Vulkan device is '") + name +
                           "', which ATTN_VULKAN_DEVICE asks for; expected "
                           "one of 0 (llvmpipe";
    EXPECT_EQ(errorOf(makeGather()).substr(0, expected.size()), expected);
  }
}

TEST_F(VulkanKernelTest, NoLoaderAndNoDriver) {
  {
    Variable path("ATTN_LIBVULKAN", "/nonexistent");
    std::string error = errorOf(makeGather());
    EXPECT_TRUE(StringRef(error).starts_with("cannot open the Vulkan loader: "))
        << error;
    EXPECT_TRUE(StringRef(error).ends_with(
        "; install it (Debian: libvulkan1), or set ATTN_LIBVULKAN to its "
        "libvulkan.so.1"))
        << error;
  }
  Variable validation("ATTN_VULKAN_VALIDATION", "0");
  Variable drivers("VK_DRIVER_FILES", "/nonexistent");
  Variable olderDrivers("VK_ICD_FILENAMES", "/nonexistent");
  EXPECT_EQ(errorOf(makeGather()),
            "Vulkan: VK_ERROR_INCOMPATIBLE_DRIVER; install a Vulkan driver "
            "(Debian: mesa-vulkan-drivers), or see VK_DRIVER_FILES");
}

TEST_F(VulkanKernelTest, ValidationIsAnError) {
  // The kernel's scalars are where no range of push constants is.
  Artifact artifact = makeGather();
  artifact.launch.scalars.pop_back();
  std::string error = errorOf(artifact);
  EXPECT_TRUE(
      StringRef(error).starts_with("cannot load kernel 'gather': validation: "))
      << error;
  EXPECT_EQ(error.find('\n'), std::string::npos);
}

TEST_F(VulkanKernelTest, KernelsThatDoNotEnd) {
  Artifact artifact = makeArtifact("slow", ElementType::i32);
  artifact.launch.grid[0] = "S";
  artifact.launch.workgroup[0] = "1";
  auto runs = [&](int64_t threads) {
    constexpr double kTurns = 60000;
    std::unique_ptr<Kernel> kernel = cantFail(loadKernel(artifact));
    std::vector<HostTensor> arguments =
        makeArguments(threads, ElementType::i32);
    arguments[0].set(0, kTurns);
    if (Error error = kernel->launch(arguments))
      return toString(std::move(error));
    std::vector<double> expected(threads, kTurns);
    return std::string(arguments[1].toDoubles() == expected ? "ended"
                                                            : "wrong");
  };
  // At least half a second, on any machine.
  using Clock = std::chrono::steady_clock;
  int64_t threads = 100;
  for (double seconds = 0; seconds < 0.5 && threads < 60000; threads *= 2) {
    Clock::time_point start = Clock::now();
    ASSERT_EQ(runs(threads), "ended");
    seconds = std::chrono::duration<double>(Clock::now() - start).count();
  }
  Variable limit("ATTN_VULKAN_TIMEOUT", "0.05");
  EXPECT_EQ(runs(threads),
            "kernel 'slow' did not end within 0.05 s; give smaller sizes, or "
            "more time by ATTN_VULKAN_TIMEOUT=SECONDS");
  Variable wrong("ATTN_VULKAN_TIMEOUT", "soon");
  EXPECT_EQ(runs(1), "expected ATTN_VULKAN_TIMEOUT to be a number of seconds, "
                     "got 'soon'");
}

} // namespace
