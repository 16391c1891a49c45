//===- Arguments.cpp - The arguments of a launch --------------------------===//

#include "attn/Runtime/Arguments.h"
#include "attn/Runtime/Npy.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;
using namespace attn;

/// The names of arguments that a kernel reads, or writes, for messages.
static std::string namesOf(const LaunchDescription &launch, bool inputs) {
  std::vector<std::string> names;
  for (const ArgumentDescription &argument : launch.arguments)
    if ((argument.access == Access::Out) != inputs)
      names.push_back("'" + argument.name + "'");
  return join(names, ", ");
}

/// Assigns the files of a command line to arguments: by name where there is
/// one, the others in order. The result has one entry an argument.
static Expected<std::vector<std::string>>
assignFiles(const LaunchDescription &launch, ArrayRef<std::string> files,
            bool inputs) {
  StringRef what = inputs ? "input" : "output";
  std::vector<std::string> assigned(launch.arguments.size());
  std::vector<StringRef> unnamed;
  for (StringRef file : files) {
    auto [name, path] = file.split('=');
    const ArgumentDescription *argument = launch.find(name);
    // A path may hold a "=" as well: it is one when a folder comes before.
    if (!file.contains('=') || (!argument && name.contains('/'))) {
      unnamed.push_back(file);
      continue;
    }
    if (!argument || (argument->access == Access::Out) == inputs)
      return createStringError("kernel '" + launch.name + "' has no " + what +
                               " '" + name + "'; it has " +
                               namesOf(launch, inputs));
    std::string &slot = assigned[argument - launch.arguments.data()];
    if (!slot.empty())
      return createStringError("two files for " + what + " '" + name + "': '" +
                               slot + "' and '" + path + "'");
    slot = path.str();
  }
  auto next = unnamed.begin();
  for (auto [argument, slot] : zip(launch.arguments, assigned))
    if (next != unnamed.end() && slot.empty() &&
        (argument.access == Access::Out) != inputs)
      slot = next++->str();
  if (next != unnamed.end())
    return createStringError("too many files: nothing takes '" + *next +
                             "'; the " + what + "s are " +
                             namesOf(launch, inputs));
  return assigned;
}

static Error parseSizes(const LaunchDescription &launch,
                        ArrayRef<std::string> texts, SizeMap &sizes) {
  for (StringRef text : texts) {
    auto [name, number] = text.split('=');
    int64_t value;
    if (!isSizeName(name) || number.getAsInteger(10, value) || value < 0)
      return createStringError("expected --size=NAME=NUMBER, got '" + text +
                               "'");
    std::vector<std::string> known;
    for (const ArgumentDescription &argument : launch.arguments)
      for (const Dimension &dimension : argument.shape)
        if (dimension.isDynamic() && !is_contained(known, dimension.name))
          known.push_back(dimension.name);
    if (!is_contained(known, name))
      return createStringError("kernel '" + launch.name +
                               "' has no open size '" + name + "'; it has " +
                               (known.empty() ? "none" : join(known, ", ")));
    sizes[name] = value;
  }
  return Error::success();
}

/// Reads the files into `tensors` and adds what their shapes say to `sizes`.
static Error readInputs(const LaunchDescription &launch,
                        ArrayRef<std::string> files,
                        MutableArrayRef<HostTensor> tensors, SizeMap &sizes) {
  for (auto [index, file] : enumerate(files)) {
    if (file.empty())
      continue;
    const ArgumentDescription &argument = launch.arguments[index];
    Expected<HostTensor> tensor = readNpy(file);
    if (!tensor)
      return tensor.takeError();
    if (tensor->type() != argument.type)
      return createStringError("argument '" + argument.name + "': expected " +
                               elementTypeName(argument.type) + ", '" + file +
                               "' holds " + elementTypeName(tensor->type()) +
                               "; convert it with numpy's astype");
    if (Error error = launch.bindShape(index, tensor->shape(), sizes))
      return createStringError(toString(std::move(error)) + " from '" + file +
                               "'");
    tensors[index] = std::move(*tensor);
  }
  return Error::success();
}

static Error fillFromSeed(const ArgumentDescription &argument, uint64_t seed,
                          const SizeMap &sizes, HostTensor &tensor) {
  if (isFloat(argument.type)) {
    tensor.fillNormal(seed);
    return Error::success();
  }
  int64_t bounds[] = {0, 1};
  if (!argument.values.empty())
    for (int i : {0, 1}) {
      Expected<int64_t> bound = evaluateSize(argument.values[i], sizes);
      if (!bound)
        return bound.takeError();
      bounds[i] = *bound;
    }
  tensor.fillIntegers(seed, bounds[0], std::max(bounds[0], bounds[1]));
  return Error::success();
}

Expected<std::vector<HostTensor>>
attn::makeArguments(const LaunchDescription &launch,
                    const ArgumentSources &sources) {
  if (sources.inputs.empty() && !sources.seed &&
      any_of(launch.arguments, [](const ArgumentDescription &argument) {
        return argument.access != Access::Out;
      }))
    return createStringError("no inputs: give --input=NAME=FILE.npy for " +
                             namesOf(launch, /*inputs=*/true) +
                             ", or --seed=N to make them up");
  Expected<std::vector<std::string>> files =
      assignFiles(launch, sources.inputs, /*inputs=*/true);
  if (!files)
    return files.takeError();
  SizeMap sizes;
  std::vector<HostTensor> tensors(launch.arguments.size());
  if (Error error = parseSizes(launch, sources.sizes, sizes))
    return error;
  if (Error error = readInputs(launch, *files, tensors, sizes))
    return error;

  for (auto [index, argument] : enumerate(launch.arguments)) {
    if (!(*files)[index].empty())
      continue;
    bool isOutput = argument.access == Access::Out;
    if (!isOutput && !sources.seed)
      return createStringError("no input for '" + argument.name +
                               "': give --input=" + argument.name +
                               "=FILE.npy, or --seed=N to make it up");
    Expected<std::vector<int64_t>> shape = launch.shapeOf(index, sizes);
    if (!shape)
      return createStringError(toString(shape.takeError()) +
                               "; give --size=NAME=NUMBER");
    Expected<HostTensor> tensor = HostTensor::create(argument.type, *shape);
    if (!tensor)
      return tensor.takeError();
    if (isOutput)
      tensor->poison();
    else if (Error error =
                 fillFromSeed(argument, *sources.seed + (uint64_t(index) << 32),
                              sizes, *tensor))
      return error;
    tensors[index] = std::move(*tensor);
  }
  return tensors;
}

Expected<std::vector<std::string>>
attn::assignOutputFiles(const LaunchDescription &launch,
                        ArrayRef<std::string> outputs) {
  return assignFiles(launch, outputs, /*inputs=*/false);
}

Expected<SizeMap> attn::bindSizes(const LaunchDescription &launch,
                                  ArrayRef<HostTensor> arguments) {
  SizeMap sizes;
  for (auto [index, tensor] : enumerate(arguments))
    if (Error error = launch.bindShape(index, tensor.shape(), sizes))
      return error;
  return sizes;
}
