//===- CudaKernelTest.cpp - The CUDA runtime on a fake driver -------------===//
//
// Every launch is one on FakeCuda: what the driver is given is checked here,
// and that all of it is given back.
//
//===----------------------------------------------------------------------===//

#include "attn/Runtime/Cuda/CudaKernel.h"
#include "FakeCuda.h"
#include "llvm/Support/DynamicLibrary.h"
#include "gtest/gtest.h"
#include <cstring>

using namespace llvm;
using namespace attn;

namespace {

ArgumentDescription makeArgument(const char *name, Access access) {
  ArgumentDescription argument;
  argument.name = name;
  argument.type = ElementType::bf16;
  argument.shape = {Dimension("B"), Dimension("S"), int64_t(64)};
  argument.access = access;
  return argument;
}

/// Copies its first argument to its second.
Artifact makeArtifact() {
  Artifact artifact;
  LaunchDescription &d = artifact.launch;
  d.format = "ptx";
  d.name = d.entry = "copy";
  d.arch = "sm_90a";
  d.abi = "memref-parameters";
  d.arguments = {makeArgument("from", Access::In),
                 makeArgument("to", Access::Out)};
  d.tensorMaps = {{0, {1, 64, 32}, 64}, {1, {1, 128, 64}, 128}};
  d.grid[0] = "min(132, B * ceildiv(S, 64))";
  d.workgroup[0] = "384";
  d.sharedMemoryBytes = "197632";
  artifact.code = "// ptx";
  return artifact;
}

int64_t word(void **parameters, int index) {
  return *static_cast<int64_t *>(parameters[index]);
}

/// Parameters 0..8 are the first argument: twice the address, offset, sizes,
/// strides. Then come the second and the maps.
void copyKernel(void **parameters) {
  int64_t count = word(parameters, 3) * word(parameters, 6);
  std::memcpy(reinterpret_cast<void *>(word(parameters, 10)),
              reinterpret_cast<void *>(word(parameters, 1)), 2 * count);
}

class CudaKernelTest : public testing::Test {
protected:
  void SetUp() override {
    ASSERT_EQ(setenv("ATTN_LIBCUDA", ATTN_FAKE_CUDA, /*overwrite=*/1), 0);
    std::string problem;
    auto library = sys::DynamicLibrary::getLibrary(ATTN_FAKE_CUDA, &problem);
    ASSERT_TRUE(library.isValid()) << problem;
    auto find = reinterpret_cast<FakeCuda *(*)()>(
        library.getAddressOfSymbol("fakeCuda"));
    ASSERT_TRUE(find);
    fake = find();
    *fake = FakeCuda();
    fake->kernel = copyKernel;
  }

  void TearDown() override {
    EXPECT_EQ(fake->allocations, 0);
    EXPECT_EQ(fake->modules, 0);
    EXPECT_EQ(fake->contexts, 0);
    EXPECT_EQ(fake->streams, 0);
    EXPECT_EQ(fake->events, 0);
  }

  std::vector<HostTensor> makeArguments(std::vector<int64_t> shape) {
    std::vector<HostTensor> arguments(2);
    for (HostTensor &argument : arguments)
      argument = cantFail(HostTensor::create(ElementType::bf16, shape));
    arguments[0].fillNormal(7);
    arguments[1].poison();
    return arguments;
  }

  std::string errorOf(const Artifact &artifact, std::vector<int64_t> shape) {
    Expected<std::unique_ptr<Kernel>> kernel = loadKernel(artifact);
    if (!kernel)
      return toString(kernel.takeError());
    std::vector<HostTensor> arguments = makeArguments(shape);
    Error error = (*kernel)->launch(arguments);
    return error ? toString(std::move(error)) : "no error";
  }

  FakeCuda *fake = nullptr;
};

TEST_F(CudaKernelTest, ParametersGridAndMaps) {
  std::unique_ptr<Kernel> kernel = cantFail(loadKernel(makeArtifact()));
  std::vector<HostTensor> arguments = makeArguments({2, 100, 64});
  fake->kernel = [](void **parameters) {
    for (int first : {0, 9}) {
      EXPECT_EQ(word(parameters, first), word(parameters, first + 1));
      int64_t expected[] = {0, 2, 100, 64, 6400, 64, 1};
      for (int i = 0; i < 7; ++i)
        EXPECT_EQ(word(parameters, first + 2 + i), expected[i]) << i;
    }
    EXPECT_EQ(word(parameters, 18), 0);
    EXPECT_EQ(word(parameters, 19), 1);
    for (int map : {18, 19})
      EXPECT_EQ(reinterpret_cast<uintptr_t>(parameters[map]) % 64, 0u);
    copyKernel(parameters);
  };
  cantFail(kernel->launch(arguments));
  EXPECT_EQ(arguments[1].toDoubles(), arguments[0].toDoubles());
  EXPECT_EQ(fake->images, std::vector<std::string>{"// ptx"});

  ASSERT_EQ(fake->launches.size(), 1u);
  const FakeLaunch &launch = fake->launches[0];
  EXPECT_EQ(launch.entry, "copy");
  EXPECT_EQ(launch.grid[0], 4u);
  EXPECT_EQ(launch.grid[1] * launch.grid[2], 1u);
  EXPECT_EQ(launch.workgroup[0], 384u);
  EXPECT_EQ(launch.sharedBytes, 197632u);
  EXPECT_EQ(fake->functionAttributes[8], 197632);

  ASSERT_EQ(fake->maps.size(), 2u);
  const FakeTensorMap &map = fake->maps[0];
  EXPECT_EQ(map.type, 9); // bf16
  EXPECT_EQ(map.sizes, (std::vector<uint64_t>{64, 100, 2}));
  EXPECT_EQ(map.strides, (std::vector<uint64_t>{128, 12800}));
  EXPECT_EQ(map.box, (std::vector<uint32_t>{32, 64, 1}));
  EXPECT_EQ(map.steps, (std::vector<uint32_t>{1, 1, 1}));
  EXPECT_EQ(map.interleave, 0);
  EXPECT_EQ(map.swizzle, 2); // 64 bytes
  EXPECT_EQ(map.promotion, 3);
  EXPECT_EQ(map.fill, 0);
  EXPECT_EQ(fake->maps[1].swizzle, 3);
  EXPECT_EQ(fake->maps[1].box, (std::vector<uint32_t>{64, 128, 1}));
}

TEST_F(CudaKernelTest, StridesAndOffsetOfTheDescription) {
  Artifact artifact = makeArtifact();
  artifact.launch.arguments[0].strides = {kAnyStride, 72, 1};
  artifact.launch.arguments[0].offset = 8;
  std::unique_ptr<Kernel> kernel = cantFail(loadKernel(artifact));
  std::vector<HostTensor> arguments = makeArguments({1, 3, 64});
  fake->kernel = [](void **parameters) {
    EXPECT_EQ(word(parameters, 2), 8);
    EXPECT_EQ(word(parameters, 7), 72);
    auto *from = reinterpret_cast<uint16_t *>(word(parameters, 1)) + 8;
    auto *to = reinterpret_cast<uint16_t *>(word(parameters, 10));
    for (int row = 0; row < 3; ++row)
      std::memcpy(to + 64 * row, from + 72 * row, 128);
  };
  cantFail(kernel->launch(arguments));
  EXPECT_EQ(arguments[1].toDoubles(), arguments[0].toDoubles());
  EXPECT_EQ(fake->maps[0].strides[0], 144u);
  EXPECT_EQ(fake->maps[0].base % 256, 16u);
}

/// The second kernel has a grid and a map of its own, and both the workspace.
TEST_F(CudaKernelTest, KernelsInOrderAndTheirWorkspace) {
  Artifact artifact = makeArtifact();
  artifact.launch.workspaceBytes = "B * S * 8";
  KernelLaunch &second = artifact.launch.then.emplace_back();
  second.entry = "finish";
  second.grid[0] = "B";
  second.workgroup[0] = "64";
  second.tensorMaps = {{1, {1, 32, 64}, 128}};
  std::unique_ptr<Kernel> kernel = cantFail(loadKernel(artifact));
  std::vector<HostTensor> arguments = makeArguments({2, 100, 64});
  fake->kernel = [](void **parameters) {
    EXPECT_EQ(word(parameters, 18), word(parameters, 19));
    int64_t expected[] = {0, 2 * 100 * 2, 1};
    for (int i = 0; i < 3; ++i)
      EXPECT_EQ(word(parameters, 20 + i), expected[i]) << i;
    bool isFirst = word(parameters, 23) == 0;
    EXPECT_EQ(word(parameters, 23), isFirst ? 0 : 2);
    if (!isFirst)
      copyKernel(parameters);
  };
  cantFail(kernel->launch(arguments));
  EXPECT_EQ(arguments[1].toDoubles(), arguments[0].toDoubles());
  ASSERT_EQ(fake->launches.size(), 2u);
  EXPECT_EQ(fake->launches[0].entry, "copy");
  EXPECT_EQ(fake->launches[1].entry, "finish");
  EXPECT_EQ(fake->launches[1].grid[0], 2u);
  EXPECT_EQ(fake->launches[1].workgroup[0], 64u);
  EXPECT_EQ(fake->launches[1].sharedBytes, 0u);
  ASSERT_EQ(fake->maps.size(), 3u);
  EXPECT_EQ(fake->maps[2].box, (std::vector<uint32_t>{64, 32, 1}));
}

TEST_F(CudaKernelTest, SizesOfZero) {
  EXPECT_EQ(errorOf(makeArtifact(), {1, 0, 64}), "no error");
  EXPECT_TRUE(fake->launches.empty());
  EXPECT_EQ(fake->maps[0].sizes, (std::vector<uint64_t>{64, 1, 1}));
}

TEST_F(CudaKernelTest, TensorMapsNeedSixteenBytes) {
  Artifact artifact = makeArtifact();
  artifact.launch.arguments[0].strides = {kAnyStride, 65, 1};
  EXPECT_EQ(errorOf(artifact, {1, 100, 64}),
            "argument 'from': TMA needs strides that are multiples of 16 "
            "bytes, got 130; give the rows a multiple of 16 bytes, or leave "
            "strides and offset open in the types, which adds a kernel that "
            "copies without TMA");
  artifact = makeArtifact();
  artifact.launch.arguments[0].offset = 1;
  EXPECT_NE(errorOf(artifact, {1, 100, 64}).find("TMA needs an address"),
            std::string::npos);
  artifact = makeArtifact();
  artifact.launch.tensorMaps[0].swizzle = 48;
  EXPECT_NE(errorOf(artifact, {1, 100, 64}).find("no swizzle of 48 bytes"),
            std::string::npos);
}

/// The launch chooses: by the operands, not once and for all.
TEST_F(CudaKernelTest, OtherKernelsWhereAMapCannotBeMade) {
  Artifact artifact = makeArtifact();
  KernelLaunch &other = artifact.launch.otherwise.emplace_back();
  other.entry = "copy_fallback";
  other.grid[0] = "B * S";
  other.workgroup[0] = "128";
  EXPECT_EQ(errorOf(artifact, {1, 100, 64}), "no error");
  EXPECT_EQ(fake->launches.back().entry, "copy");
  artifact.launch.arguments[0].strides = {kAnyStride, 65, 1};
  fake->kernel = [](void **parameters) { EXPECT_EQ(word(parameters, 7), 65); };
  EXPECT_EQ(errorOf(artifact, {2, 100, 64}), "no error");
  ASSERT_EQ(fake->launches.size(), 2u);
  EXPECT_EQ(fake->launches[1].entry, "copy_fallback");
  EXPECT_EQ(fake->launches[1].grid[0], 200u);
  EXPECT_EQ(fake->launches[1].workgroup[0], 128u);
  EXPECT_EQ(fake->launches[1].sharedBytes, 0u);
  // What the driver refuses is for them, too.
  artifact.launch.arguments[0].strides = {};
  fake->kernel = copyKernel;
  fake->results = {{"cuTensorMapEncodeTiled", 1}};
  EXPECT_EQ(errorOf(artifact, {1, 100, 64}), "no error");
  EXPECT_EQ(fake->launches.back().entry, "copy_fallback");
}

TEST_F(CudaKernelTest, TimesByEvents) {
  std::unique_ptr<Kernel> kernel = cantFail(loadKernel(makeArtifact()));
  std::vector<HostTensor> arguments = makeArguments({1, 64, 64});
  Timing timing = cantFail(kernel->time(arguments, 25));
  EXPECT_EQ(timing.runs, 25);
  EXPECT_NEAR(timing.median, 2e-3, 1e-9);
  // Each run, and each of the warm-up, starts with a flushed cache.
  EXPECT_EQ(size_t(fake->memsets), fake->launches.size());
  EXPECT_GT(fake->launches.size(), 25u);
  EXPECT_EQ(arguments[1].toDoubles(), arguments[0].toDoubles());
}

TEST_F(CudaKernelTest, LoadsTheSameCodeOnce) {
  std::unique_ptr<Kernel> first = cantFail(loadKernel(makeArtifact()));
  std::unique_ptr<Kernel> second = cantFail(loadKernel(makeArtifact()));
  EXPECT_EQ(fake->images.size(), 1u);
  Artifact other = makeArtifact();
  other.code = "// other";
  std::unique_ptr<Kernel> third = cantFail(loadKernel(other));
  EXPECT_EQ(fake->images.size(), 2u);
}

TEST_F(CudaKernelTest, ChoosesTheGpuThatRunsTheCode) {
  fake->gpus = {80, 90, 100};
  EXPECT_EQ(errorOf(makeArtifact(), {1, 1, 64}), "no error");
  fake->gpus = {80, 100};
  EXPECT_EQ(errorOf(makeArtifact(), {1, 1, 64}),
            "kernel 'copy' is built for sm_90a, and the GPUs are Fake 0 "
            "(sm_80), Fake 1 (sm_100); compile it for one of them");
  // PTX without a letter goes to later chips, a cubin stays in its generation.
  Artifact portable = makeArtifact();
  portable.launch.arch = "sm_80";
  fake->gpus = {100};
  EXPECT_EQ(errorOf(portable, {1, 1, 64}), "no error");
  portable.launch.format = "cubin";
  EXPECT_NE(errorOf(portable, {1, 1, 64}), "no error");
  fake->gpus = {89};
  EXPECT_EQ(errorOf(portable, {1, 1, 64}), "no error");
  fake->gpus = {};
  EXPECT_EQ(errorOf(makeArtifact(), {1, 1, 64}),
            "kernel 'copy' is built for sm_90a, and no GPU is visible; see "
            "what nvidia-smi lists, and CUDA_VISIBLE_DEVICES");
}

TEST_F(CudaKernelTest, ErrorsInTheDriversWordsWithARemedy) {
  fake->results = {{"cuModuleLoadDataEx", 218}};
  fake->jitLog = "ptxas application ptx input, line 9; error : Unknown opcode\n"
                 "ptxas fatal   : Ptx assembly aborted due to errors";
  EXPECT_EQ(errorOf(makeArtifact(), {1, 1, 64}),
            "cannot load kernel 'copy': ptxas application ptx input, line 9; "
            "error : Unknown opcode: CUDA_ERROR_INVALID_PTX: a PTX JIT "
            "compilation failed; update the driver, or compile to a cubin for "
            "this chip");
  fake->results = {{"cuMemAlloc_v2", 2}};
  EXPECT_EQ(errorOf(makeArtifact(), {1, 1, 64}),
            "128 bytes for 'from': CUDA_ERROR_OUT_OF_MEMORY: out of memory; "
            "free memory on the GPU, or give smaller sizes");
  fake->results = {{"cuStreamSynchronize", 700}};
  EXPECT_EQ(errorOf(makeArtifact(), {1, 1, 64}),
            "kernel 'copy': CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory "
            "access was encountered; compute-sanitizer shows where");
  fake->results = {{"cuTensorMapEncodeTiled", 1}};
  EXPECT_NE(errorOf(makeArtifact(), {1, 1, 64}).find("tensor map of 'from'"),
            std::string::npos);
  // Shared memory and entry are asked for before anything is allocated.
  for (const char *name : {"cuModuleGetFunction", "cuFuncSetAttribute",
                           "cuLaunchKernel", "cuDevicePrimaryCtxRetain"}) {
    fake->results = {{name, 999}};
    EXPECT_NE(errorOf(makeArtifact(), {1, 1, 64}).find("CUDA_ERROR_UNKNOWN"),
              std::string::npos)
        << name;
  }
}

TEST_F(CudaKernelTest, RefusesWhatItCannotLaunch) {
  Artifact artifact = makeArtifact();
  artifact.launch.abi = "pointers";
  EXPECT_EQ(errorOf(artifact, {1, 1, 64}),
            "kernel 'copy' has abi 'pointers', expected memref-parameters");
  artifact = makeArtifact();
  artifact.launch.grid[1] = "65536 * S";
  EXPECT_EQ(errorOf(artifact, {1, 1, 64}),
            "kernel 'copy' needs 65536 of 65536 * S, a GPU has at most 65535");
}

} // namespace
