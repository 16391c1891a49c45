//===- CpuKernel.cpp - Kernels on the host's processor --------------------===//
//
// The object is linked into the process by ORC. The entry is MLIR's C
// interface: each argument is a pointer to a memref descriptor.
//
//===----------------------------------------------------------------------===//

#include "attn/Runtime/Cpu/CpuKernel.h"
#include "../StridedBuffer.h"
#include "OpenMPRuntime.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/Support/TargetSelect.h"
#include <utility>

using namespace llvm;
using namespace attn;

//===----------------------------------------------------------------------===//
// Calling a function of any number of pointers
//===----------------------------------------------------------------------===//

static constexpr size_t kMostArguments = 32;

template <size_t... kIndex>
static void callWith(void *function, void **arguments,
                     std::index_sequence<kIndex...>) {
  auto callee =
      reinterpret_cast<void (*)(decltype((void)kIndex, (void *)nullptr)...)>(
          function);
  callee(arguments[kIndex]...);
}

template <size_t kCount>
static void callCount(void *function, void **arguments) {
  callWith(function, arguments, std::make_index_sequence<kCount>());
}

using Caller = void (*)(void *, void **);

template <size_t... kCount>
static Caller callerOf(size_t count, std::index_sequence<kCount...>) {
  static constexpr Caller kCallers[] = {callCount<kCount>...};
  return kCallers[count];
}

//===----------------------------------------------------------------------===//
// Descriptors
//===----------------------------------------------------------------------===//

/// allocated, aligned, offset, sizes, strides.
static SmallVector<int64_t> describe(StridedBuffer &buffer) {
  int64_t address = reinterpret_cast<intptr_t>(buffer.data());
  SmallVector<int64_t> words = {address, address, buffer.offset()};
  append_range(words, buffer.shape());
  append_range(words, buffer.strides());
  return words;
}

//===----------------------------------------------------------------------===//
// The kernel
//===----------------------------------------------------------------------===//

namespace {
class CpuKernel : public Kernel {
public:
  CpuKernel(LaunchDescription description, std::unique_ptr<orc::LLJIT> jit,
            void *entry)
      : Kernel(std::move(description)), jit(std::move(jit)), entry(entry) {}

  Error launch(MutableArrayRef<HostTensor> arguments) override {
    return withDescriptors(arguments, [&](void **pointers) {
      call(pointers);
      return Error::success();
    });
  }

  Expected<Timing> time(MutableArrayRef<HostTensor> arguments,
                        int64_t runs) override {
    Timing timing;
    Error error = withDescriptors(arguments, [&](void **pointers) -> Error {
      auto run = [&] {
        call(pointers);
        return Error::success();
      };
      return timeRepeated(run, runs).moveInto(timing);
    });
    if (error)
      return error;
    return timing;
  }

private:
  void call(void **pointers) {
    callerOf(description().arguments.size(),
             std::make_index_sequence<kMostArguments + 1>())(entry, pointers);
  }

  Error withDescriptors(MutableArrayRef<HostTensor> arguments,
                        function_ref<Error(void **)> action) {
    if (Error error = checkArguments(arguments))
      return error;
    std::vector<StridedBuffer> buffers;
    std::vector<SmallVector<int64_t>> descriptors;
    for (auto [description, tensor] : zip(description().arguments, arguments)) {
      Expected<StridedBuffer> buffer =
          StridedBuffer::create(description, tensor);
      if (!buffer)
        return buffer.takeError();
      descriptors.push_back(describe(*buffer));
      buffers.push_back(std::move(*buffer));
    }
    std::vector<void *> pointers;
    for (SmallVector<int64_t> &descriptor : descriptors)
      pointers.push_back(descriptor.data());
    if (Error error = action(pointers.data()))
      return error;
    for (auto [description, buffer] : zip(description().arguments, buffers))
      if (description.access != Access::In)
        buffer.copyBack();
    return Error::success();
  }

  std::unique_ptr<orc::LLJIT> jit;
  void *entry;
};
} // namespace

Expected<std::unique_ptr<Kernel>>
attn::loadCpuKernel(const Artifact &artifact) {
  const LaunchDescription &launch = artifact.launch;
  auto fail = [&](Error error) {
    return createStringError("cannot load kernel '" + launch.name +
                             "': " + toString(std::move(error)));
  };
  if (launch.abi != "memref-descriptors")
    return createStringError("kernel '" + launch.name + "' has abi '" +
                             launch.abi + "', expected memref-descriptors");
  if (launch.arguments.size() > kMostArguments)
    return createStringError(
        "kernel '" + launch.name + "' takes " + Twine(launch.arguments.size()) +
        " arguments, at most " + Twine(kMostArguments) + " are supported");
  if (Error error = checkHostRuns(launch))
    return error;

  InitializeNativeTarget();
  Expected<std::unique_ptr<orc::LLJIT>> jit =
      orc::LLJITBuilder().setPlatformSetUp(orc::setUpInactivePlatform).create();
  if (!jit)
    return fail(jit.takeError());
  // Details that ORC reports aside are the causes; the lookup below then says
  // only that the symbol failed. Keep the first.
  std::string cause;
  (*jit)->getExecutionSession().setErrorReporter([&](Error error) {
    std::string text = toString(std::move(error));
    if (cause.empty())
      cause = std::move(text);
  });
  orc::JITDylib &library = (*jit)->getMainJITDylib();
  library.addGenerator(std::make_unique<OpenMPGenerator>());
  if (Error error = (*jit)->addObjectFile(
          MemoryBuffer::getMemBufferCopy(artifact.code, launch.name)))
    return fail(std::move(error));
  Expected<orc::ExecutorAddr> entry = (*jit)->lookup(launch.entry);
  (*jit)->getExecutionSession().setErrorReporter(consumeError);
  if (!entry) {
    std::string text = toString(entry.takeError());
    std::string what = cause.empty() ? text : cause;
    llvm::replace(what, '\n', ' ');
    return fail(createStringError(what));
  }
  return std::make_unique<CpuKernel>(launch, std::move(*jit),
                                     entry->toPtr<void *>());
}
