//===- CpuKernel.cpp - Kernels on the host's processor --------------------===//
//
// The object is linked into the process by ORC. The entry is MLIR's C
// interface: each argument is a pointer to a memref descriptor.
//
//===----------------------------------------------------------------------===//

#include "attn/Runtime/Cpu/CpuKernel.h"
#include "OpenMPRuntime.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/TargetSelect.h"
#include <cstring>
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

namespace {
/// A memref over a tensor. Strides that are not those of the tensor get a copy
/// of it, which `copyBack` writes back.
class Descriptor {
public:
  static Expected<Descriptor> create(const ArgumentDescription &description,
                                     HostTensor &tensor);
  void *words() { return storage.data(); }
  void copyBack();

private:
  void copyElements(bool toCopy);

  HostTensor *tensor = nullptr;
  HostTensor copy;
  SmallVector<int64_t> strides;
  int64_t offset = 0;
  /// allocated, aligned, offset, sizes, strides.
  SmallVector<int64_t> storage;
};
} // namespace

/// Row-major strides; those that the description fixes are kept. `span` is
/// the number of elements from the first to behind the last.
static SmallVector<int64_t> chooseStrides(const ArgumentDescription &argument,
                                          ArrayRef<int64_t> shape,
                                          int64_t &span, bool &overflow) {
  SmallVector<int64_t> strides(shape.size());
  span = 1;
  overflow = false;
  for (size_t d = shape.size(); d-- > 0;) {
    bool isFixed =
        !argument.strides.empty() && argument.strides[d] != kAnyStride;
    strides[d] = isFixed ? argument.strides[d] : span;
    int64_t reach;
    overflow |=
        MulOverflow(std::max<int64_t>(shape[d] - 1, 0), strides[d], reach) ||
        AddOverflow(span, reach, span);
  }
  return strides;
}

/// Strides of dimensions of one element do not matter.
static bool isRowMajor(ArrayRef<int64_t> shape, ArrayRef<int64_t> strides) {
  int64_t expected = 1;
  for (auto [size, stride] : zip(reverse(shape), reverse(strides))) {
    if (size > 1 && stride != expected)
      return false;
    expected *= size;
  }
  return true;
}

Expected<Descriptor> Descriptor::create(const ArgumentDescription &description,
                                        HostTensor &tensor) {
  Descriptor d;
  d.tensor = &tensor;
  d.offset = description.offset;
  int64_t span;
  bool overflow;
  d.strides = chooseStrides(description, tensor.shape(), span, overflow);
  char *base = tensor.data();
  if (!isRowMajor(tensor.shape(), d.strides) || d.offset) {
    if (overflow || AddOverflow(span, d.offset, span))
      return createStringError("argument '" + description.name +
                               "': the strides reach beyond 64 bits");
    Expected<HostTensor> copy = HostTensor::create(tensor.type(), {span});
    if (!copy)
      return copy.takeError();
    d.copy = std::move(*copy);
    base = d.copy.data();
    d.copyElements(/*toCopy=*/true);
  }
  int64_t address = reinterpret_cast<intptr_t>(base);
  d.storage = {address, address, d.offset};
  append_range(d.storage, tensor.shape());
  append_range(d.storage, d.strides);
  return d;
}

void Descriptor::copyElements(bool toCopy) {
  ArrayRef<int64_t> shape = tensor->shape();
  int64_t width = elementBytes(tensor->type()), position = offset;
  SmallVector<int64_t> index(shape.size(), 0);
  for (int64_t i = 0; i < tensor->size(); ++i) {
    char *inTensor = tensor->data() + i * width;
    char *inCopy = copy.data() + position * width;
    std::memcpy(toCopy ? inCopy : inTensor, toCopy ? inTensor : inCopy, width);
    for (size_t d = shape.size(); d-- > 0;) {
      position += strides[d];
      if (++index[d] < shape[d])
        break;
      position -= strides[d] * shape[d];
      index[d] = 0;
    }
  }
}

void Descriptor::copyBack() {
  if (copy.data())
    copyElements(/*toCopy=*/false);
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
    std::vector<Descriptor> descriptors;
    for (auto [description, tensor] : zip(description().arguments, arguments)) {
      Expected<Descriptor> descriptor = Descriptor::create(description, tensor);
      if (!descriptor)
        return descriptor.takeError();
      descriptors.push_back(std::move(*descriptor));
    }
    std::vector<void *> pointers;
    for (Descriptor &descriptor : descriptors)
      pointers.push_back(descriptor.words());
    if (Error error = action(pointers.data()))
      return error;
    for (auto [description, descriptor] :
         zip(description().arguments, descriptors))
      if (description.access != Access::In)
        descriptor.copyBack();
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
