//===- LaunchDescription.cpp - How to launch a compiled kernel ------------===//

#include "attn/Artifact/LaunchDescription.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;
using namespace attn;

static std::string dimensionText(const Dimension &dimension) {
  return dimension.isDynamic() ? dimension.name : itostr(dimension.size);
}

std::string attn::formatShape(ArrayRef<Dimension> shape) {
  return shape.empty() ? "scalar" : join(map_range(shape, dimensionText), "x");
}

std::string attn::formatShape(ArrayRef<int64_t> shape) {
  return shape.empty()
             ? "scalar"
             : join(map_range(shape, [](int64_t s) { return itostr(s); }), "x");
}

std::vector<const KernelLaunch *> LaunchDescription::kernels() const {
  std::vector<const KernelLaunch *> all = {this};
  for (const KernelLaunch &kernel : then)
    all.push_back(&kernel);
  return all;
}

const ArgumentDescription *LaunchDescription::find(StringRef argument) const {
  for (const ArgumentDescription &a : arguments)
    if (a.name == argument)
      return &a;
  return nullptr;
}

Error LaunchDescription::bindShape(size_t index, ArrayRef<int64_t> shape,
                                   SizeMap &sizes) const {
  const ArgumentDescription &argument = arguments[index];
  bool fits = shape.size() == argument.shape.size();
  for (auto [given, expected] : zip(shape, argument.shape))
    fits &= given >= 0 && (expected.isDynamic() || given == expected.size);
  if (!fits)
    return createStringError(
        "argument '" + argument.name + "': expected shape " +
        formatShape(argument.shape) + ", got " + formatShape(shape));
  for (auto [given, expected] : zip(shape, argument.shape)) {
    if (!expected.isDynamic())
      continue;
    auto [known, isNew] = sizes.try_emplace(expected.name, given);
    if (!isNew && known->second != given)
      return createStringError(
          "argument '" + argument.name + "' of shape " + formatShape(shape) +
          " makes " + expected.name + " " + Twine(given) + ", but it is " +
          Twine(known->second) + " already; give arguments that agree");
  }
  return Error::success();
}

Expected<std::vector<int64_t>>
LaunchDescription::shapeOf(size_t index, const SizeMap &sizes) const {
  std::vector<int64_t> shape;
  for (const Dimension &dimension : arguments[index].shape) {
    auto size = sizes.find(dimension.name);
    if (dimension.isDynamic() && size == sizes.end())
      return createStringError(
          "argument '" + arguments[index].name + "': size " + dimension.name +
          " of shape " + formatShape(arguments[index].shape) + " is not known");
    shape.push_back(dimension.isDynamic() ? size->second : dimension.size);
  }
  return shape;
}
