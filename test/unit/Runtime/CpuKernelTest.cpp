//===- CpuKernelTest.cpp - Linking and calling an object ------------------===//

#include "attn/Runtime/Cpu/CpuKernel.h"
#include "llvm/AsmParser/Parser.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"
#include "gtest/gtest.h"

using namespace llvm;
using namespace attn;

namespace {

/// An object for the host from LLVM assembly.
std::string assemble(StringRef text) {
  InitializeNativeTarget();
  InitializeNativeTargetAsmPrinter();
  LLVMContext context;
  SMDiagnostic diagnostic;
  std::unique_ptr<Module> module =
      parseAssemblyString(text, diagnostic, context);
  EXPECT_TRUE(module) << diagnostic.getMessage().str();
  Triple triple(sys::getProcessTriple());
  std::string error;
  const Target *target = TargetRegistry::lookupTarget(triple, error);
  std::unique_ptr<TargetMachine> machine(target->createTargetMachine(
      triple, "", "", TargetOptions(), Reloc::PIC_));
  module->setTargetTriple(triple);
  module->setDataLayout(machine->createDataLayout());
  SmallVector<char> bytes;
  raw_svector_ostream os(bytes);
  legacy::PassManager passes;
  machine->addPassesToEmitFile(passes, os, nullptr,
                               CodeGenFileType::ObjectFile);
  passes.run(*module);
  return std::string(bytes.data(), bytes.size());
}

/// out = in + in for rank-2 memrefs of f32, by the strides of both.
constexpr StringLiteral kTwice = R"(
define void @_mlir_ciface_twice(ptr %in, ptr %out) {
entry:
  %rows.p = getelementptr i64, ptr %in, i64 3
  %rows = load i64, ptr %rows.p
  %cols.p = getelementptr i64, ptr %in, i64 4
  %cols = load i64, ptr %cols.p
  %count = mul i64 %rows, %cols
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %body, label %exit
body:
  %r = udiv i64 %i, %cols
  %c = urem i64 %i, %cols
  %from = call ptr @element(ptr %in, i64 %r, i64 %c)
  %to = call ptr @element(ptr %out, i64 %r, i64 %c)
  %value = load float, ptr %from
  %sum = fadd float %value, %value
  store float %sum, ptr %to
  %next = add i64 %i, 1
  br label %loop
exit:
  ret void
}
define internal ptr @element(ptr %d, i64 %r, i64 %c) {
  %base.p = getelementptr i64, ptr %d, i64 1
  %base = load ptr, ptr %base.p
  %offset.p = getelementptr i64, ptr %d, i64 2
  %offset = load i64, ptr %offset.p
  %s0.p = getelementptr i64, ptr %d, i64 5
  %s0 = load i64, ptr %s0.p
  %s1.p = getelementptr i64, ptr %d, i64 6
  %s1 = load i64, ptr %s1.p
  %a = mul i64 %r, %s0
  %b = mul i64 %c, %s1
  %ab = add i64 %a, %b
  %at = add i64 %ab, %offset
  %p = getelementptr float, ptr %base, i64 %at
  ret ptr %p
}
)";

Artifact twice() {
  Artifact artifact;
  artifact.launch.format = "obj";
  artifact.launch.name = "twice";
  artifact.launch.entry = "_mlir_ciface_twice";
  artifact.launch.target = "cpu";
  artifact.launch.triple = sys::getProcessTriple();
  artifact.launch.abi = "memref-descriptors";
  artifact.launch.arguments.resize(2);
  for (ArgumentDescription &argument : artifact.launch.arguments)
    argument.shape = {std::string("R"), std::string("C")};
  artifact.launch.arguments[0].name = "in";
  artifact.launch.arguments[1].name = "out";
  artifact.launch.arguments[1].access = Access::Out;
  artifact.code = assemble(kTwice);
  return artifact;
}

std::vector<HostTensor> twoTensors(ArrayRef<int64_t> shape) {
  std::vector<HostTensor> tensors;
  for (int i = 0; i < 2; ++i) {
    Expected<HostTensor> t = HostTensor::create(ElementType::f32, shape);
    EXPECT_TRUE(bool(t));
    tensors.push_back(std::move(*t));
  }
  tensors[0].fillNormal(1);
  tensors[1].poison();
  return tensors;
}

void expectTwice(const Artifact &artifact) {
  auto kernel = loadKernel(artifact);
  ASSERT_TRUE(bool(kernel)) << toString(kernel.takeError());
  std::vector<HostTensor> tensors = twoTensors({5, 7});
  Error error = (*kernel)->launch(tensors);
  ASSERT_FALSE(bool(error)) << toString(std::move(error));
  for (int i = 0; i < 35; ++i)
    ASSERT_EQ(tensors[1].get(i), 2 * tensors[0].get(i)) << i;
}

std::string loadError(const Artifact &artifact) {
  auto kernel = loadKernel(artifact);
  return kernel ? "no error" : toString(kernel.takeError());
}

TEST(CpuKernel, Launches) { expectTwice(twice()); }

TEST(CpuKernel, HonoursStridesAndOffset) {
  Artifact artifact = twice();
  artifact.launch.arguments[0].strides = {1, 5};
  artifact.launch.arguments[1].strides = {kAnyStride, 3};
  artifact.launch.arguments[1].offset = 11;
  expectTwice(artifact);
}

TEST(CpuKernel, Times) {
  auto kernel = loadKernel(twice());
  ASSERT_TRUE(bool(kernel)) << toString(kernel.takeError());
  std::vector<HostTensor> tensors = twoTensors({2, 2});
  Expected<Timing> timing = (*kernel)->time(tensors, 7);
  ASSERT_TRUE(bool(timing)) << toString(timing.takeError());
  EXPECT_EQ(timing->runs, 7);
  EXPECT_GT(timing->median, 0);
  EXPECT_LE(timing->minimum, timing->median);
}

TEST(CpuKernel, ChecksArguments) {
  auto kernel = loadKernel(twice());
  ASSERT_TRUE(bool(kernel)) << toString(kernel.takeError());
  std::vector<HostTensor> tensors = twoTensors({2, 2});
  Expected<HostTensor> wide = HostTensor::create(ElementType::f64, {2, 2});
  ASSERT_TRUE(bool(wide));
  EXPECT_EQ(toString((*kernel)->launch(MutableArrayRef(tensors).drop_back())),
            "kernel 'twice' takes 2 arguments, got 1");
  tensors[1] = std::move(*wide);
  EXPECT_EQ(toString((*kernel)->launch(tensors)),
            "argument 'out': expected f32, got f64");
}

TEST(CpuKernel, RefusesWhatCannotRun) {
  Artifact artifact = twice();
  artifact.launch.entry = "nothing";
  EXPECT_EQ(loadError(artifact), "cannot load kernel 'twice': Symbols not "
                                 "found: [ nothing ]");
  artifact = twice();
  artifact.launch.format = "metal";
  EXPECT_EQ(
      loadError(artifact),
      "cannot run code of format 'metal'; expected obj, ptx, cubin or spv");
  artifact = twice();
  artifact.launch.abi = "registers";
  EXPECT_EQ(loadError(artifact), "kernel 'twice' has abi 'registers', expected "
                                 "memref-descriptors");
  artifact = twice();
  artifact.launch.triple = "riscv64-unknown-linux-gnu";
  EXPECT_NE(loadError(artifact).find("is built for riscv64"),
            std::string::npos);
  artifact = twice();
  artifact.code.resize(artifact.code.size() / 2);
  std::string error = loadError(artifact);
  EXPECT_NE(error.find("cannot load kernel 'twice': "), std::string::npos);
  EXPECT_EQ(error.find('\n'), std::string::npos) << error;
  artifact.code = "text";
  error = loadError(artifact);
  EXPECT_NE(error.find("cannot load kernel 'twice': "), std::string::npos);
  EXPECT_EQ(error.find('\n'), std::string::npos) << error;
}

#if defined(__x86_64__)
TEST(CpuKernel, NamesTheMissingFeature) {
  Artifact artifact = twice();
  artifact.launch.arch = "x86-64-v2";
  artifact.launch.features = "+avx512bf16,+sse4a,+tbm";
  std::string error = loadError(artifact);
  EXPECT_NE(error.find("which this processor does not have; compile it for "
                       "--target=cpu"),
            std::string::npos)
      << error;
}

TEST(CpuKernel, AsksForNoFeatureThatIsSwitchedOff) {
  Artifact artifact = twice();
  artifact.launch.arch = "sapphirerapids";
  for (const auto &feature : sys::getHostCPUFeatures())
    if (!feature.second)
      artifact.launch.features += ("-" + feature.first() + ",").str();
  expectTwice(artifact);
}
#endif

TEST(CpuKernel, FindsTheOpenMPRuntime) {
  Artifact artifact = twice();
  artifact.code = assemble(R"(
declare i32 @omp_get_max_threads()
define void @_mlir_ciface_twice(ptr %in, ptr %out) {
  %n = call i32 @omp_get_max_threads()
  %f = sitofp i32 %n to float
  %p.p = getelementptr i64, ptr %out, i64 1
  %p = load ptr, ptr %p.p
  store float %f, ptr %p
  ret void
})");
  auto kernel = loadKernel(artifact);
  ASSERT_TRUE(bool(kernel)) << toString(kernel.takeError());
  std::vector<HostTensor> tensors = twoTensors({1, 1});
  ASSERT_FALSE(bool((*kernel)->launch(tensors)));
  EXPECT_GE(tensors[1].get(0), 1);
}

TEST(CpuKernel, NamesTheMissingSymbol) {
  Artifact artifact = twice();
  artifact.code = assemble(R"(
declare void @no_such_function()
define void @_mlir_ciface_twice(ptr %in, ptr %out) {
  call void @no_such_function()
  ret void
})");
  EXPECT_NE(loadError(artifact).find("no_such_function"), std::string::npos);
}

} // namespace
