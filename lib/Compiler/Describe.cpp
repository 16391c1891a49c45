//===- Describe.cpp - The launch description of a function ----------------===//
//
// Sizes that are open in the types get the names of the paper (B, Hq, Hkv, Sq,
// Skv, D, Dv): every operand of an attention op says which of its dimensions
// is which, so arguments that must agree share a name, and the shape of the
// output follows from the inputs. A size is named where it comes from
// (SizeRoot) so that what lies between an argument and the attention does not
// matter. Of several attention ops, the first that meets a size names it.
// Arguments that reach no attention are "arg3", and their open sizes "arg3_0".
//
//===----------------------------------------------------------------------===//

#include "Describe.h"
#include "AttentionParts.h"
#include "SizeRoot.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include <map>

using namespace mlir;
using namespace attn;

static std::string sizeText(const Dimension &size) {
  return size.isDynamic() ? size.name : llvm::itostr(size.size);
}

static std::string typeText(Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

llvm::Error attn::describeBuffer(ShapedType type,
                                 ArgumentDescription &argument) {
  std::string elementName = typeText(type.getElementType());
  std::optional<ElementType> element = parseElementType(elementName);
  if (!element)
    return llvm::createStringError("holds " + elementName +
                                   "; expected f16, bf16, f32, f64, i1, i8, "
                                   "i32 or i64");
  argument.type = *element;
  auto memref = dyn_cast<MemRefType>(type);
  if (!memref || memref.getLayout().isIdentity())
    return llvm::Error::success();
  SmallVector<int64_t> strides;
  int64_t offset;
  if (failed(memref.getStridesAndOffset(strides, offset)))
    return llvm::createStringError("has a layout without strides: " +
                                   typeText(memref));
  for (int64_t stride : strides)
    argument.strides.push_back(ShapedType::isDynamic(stride) ? kAnyStride
                                                             : stride);
  argument.offset = ShapedType::isDynamic(offset) ? 0 : offset;
  return llvm::Error::success();
}

namespace {
class Describer {
public:
  explicit Describer(func::FuncOp entry) : entry(entry) {}
  llvm::Expected<LaunchDescription> run();

private:
  void describeAttention(AttentionOpInterface op);
  void nameSizes(AttentionOpInterface op, ArrayRef<AttentionPart> parts);
  void placePart(const AttentionPart &part);
  void addFlops(AttentionOpInterface op);
  Dimension sizeOf(const std::string &name) const {
    return sizes.find(name)->second;
  }
  llvm::Expected<ArgumentDescription> describe(Value value, std::string name);
  llvm::Expected<ArgumentDescription> describeResult(Value value,
                                                     std::string name);
  llvm::Error refuse(const Twine &name, const Twine &what) {
    return llvm::createStringError(name + " of @" + entry.getName() + " " +
                                   what);
  }

  func::FuncOp entry;
  /// Of the op at hand, by the names of the paper.
  std::map<std::string, Dimension> sizes;
  /// Of everything seen so far.
  llvm::DenseMap<SizeRoot, Dimension> named;
  /// Values that have a part in an attention seen so far.
  llvm::DenseMap<Value, ArgumentDescription> known;
  llvm::StringSet<> sizeNames, argumentNames;
  /// Names of sizes that an argument has.
  llvm::StringSet<> boundNames;
  std::string flops;
};
} // namespace

/// `name`, or with the lowest number behind it that makes it new.
static std::string uniqueName(const std::string &name,
                              llvm::StringSet<> &taken) {
  std::string candidate = name;
  for (unsigned number = 2; !taken.insert(candidate).second; ++number)
    candidate = name + "_" + llvm::utostr(number);
  return candidate;
}

/// Finds each size of the op: in a type, where an earlier op has named it, or
/// under a new name.
void Describer::nameSizes(AttentionOpInterface op,
                          ArrayRef<AttentionPart> parts) {
  sizes.clear();
  AttentionShape shape = op.getShape();
  std::pair<const char *, int64_t> merged[] = {
      {"B", shape.batch},      {"Hq", shape.queryHeads},
      {"Hkv", shape.kvHeads},  {"Sq", shape.queryLength},
      {"Skv", shape.kvLength}, {"D", shape.headDim},
      {"Dv", shape.valueDim}};
  for (auto [name, size] : merged)
    if (!ShapedType::isDynamic(size))
      sizes.try_emplace(name, size);
  auto forEachOpen = [&](auto &&action) {
    for (const AttentionPart &part : parts)
      for (auto [index, name] : llvm::enumerate(part.dimensions))
        if (SizeRoot root = findSizeRoot(part.value, index); root.first)
          action(name, root);
        else if (root.second != 1 || !part.broadcasts)
          sizes.try_emplace(name, root.second);
  };
  forEachOpen([&](const std::string &name, SizeRoot root) {
    if (auto known = named.find(root); known != named.end())
      sizes.try_emplace(name, known->second);
  });
  // One by one, since one value may be query and key at once: what it is named
  // as the first, it is as the second.
  forEachOpen([&](const std::string &name, SizeRoot root) {
    if (auto known = named.find(root); known != named.end()) {
      sizes.try_emplace(name, known->second);
      return;
    }
    if (!sizes.count(name))
      sizes.try_emplace(name, uniqueName(name, sizeNames));
    named.try_emplace(root, sizeOf(name));
  });
}

/// The first part of a buffer names it. One that is written is written
/// whatever else it is.
void Describer::placePart(const AttentionPart &part) {
  ArgumentDescription &argument = known[part.value];
  if (!argument.name.empty()) {
    if (part.isWritten != (argument.access == Access::Out))
      argument.access = Access::InOut;
    return;
  }
  argument.name = isa<BlockArgument>(part.value)
                      ? uniqueName(part.name, argumentNames)
                      : part.name;
  argument.access = part.isWritten ? Access::Out : Access::In;
  for (StringRef bound : {part.lowest, part.highest}) {
    if (bound.empty())
      continue;
    // The bounds speak of this op's sizes.
    std::string text = bound.str();
    for (StringRef name : {"Skv", "Sq"})
      if (size_t at = text.find(name); at != std::string::npos)
        text.replace(at, name.size(), sizeText(sizeOf(name.str())));
    argument.values.push_back(text);
  }
}

/// Products, two operations a pair and head dimension, over the pairs that the
/// diagonal band leaves. A backward has five, whatever is computed twice.
void Describer::addFlops(AttentionOpInterface op) {
  auto text = [&](const char *name) { return sizeText(sizeOf(name)); };
  std::string sq = text("Sq"), skv = text("Skv");
  std::optional<int64_t> left = op.getBandLeft(), right = op.getBandRight();
  // A query_offset usually puts the queries behind a cache.
  bool isBehind =
      op.getAlignment() == Alignment::bottom_right || op.getQueryOffset();
  std::string offset = isBehind ? skv + "-" + sq : "0";
  auto keysBelow = [&](const std::string &first) {
    return "clamped_sum(" + sq + ", " + offset + first + ", " + skv + ")";
  };
  // Keys below i + offset + right + 1, less those below i + offset - left.
  std::string pairs =
      right ? keysBelow("+" + llvm::itostr(*right) + "+1") : sq + "*" + skv;
  if (left)
    pairs = "(" + pairs + " - " + keysBelow("-" + llvm::itostr(*left)) + ")";
  std::string depth = isa<AttentionBackwardOp>(*op)
                          ? "3*" + text("D") + "+2*" + text("Dv")
                          : text("D") + "+" + text("Dv");
  flops += (flops.empty() ? "2*" : " + 2*") + text("B") + "*" + text("Hq") +
           "*(" + depth + ")*" + pairs;
}

void Describer::describeAttention(AttentionOpInterface op) {
  std::vector<AttentionPart> parts = getParts(op);
  nameSizes(op, parts);
  for (const AttentionPart &part : parts)
    placePart(part);
  addFlops(op);
}

llvm::Expected<ArgumentDescription> Describer::describe(Value value,
                                                        std::string name) {
  auto type = dyn_cast<ShapedType>(value.getType());
  if (!isa<RankedTensorType, MemRefType>(value.getType()))
    return refuse(name, "is " + typeText(value.getType()) +
                            "; a kernel takes ranked tensors and memrefs only");
  ArgumentDescription argument = known.lookup(value);
  if (argument.name.empty()) {
    argument.name = uniqueName(name, argumentNames);
    // A buffer that something else than attention touches may be both.
    argument.access = isa<MemRefType>(type) ? Access::InOut : Access::In;
  }
  for (int64_t i = 0; i < type.getRank(); ++i) {
    SizeRoot root = findSizeRoot(value, i);
    auto size = named.find(root);
    if (root.first && size == named.end())
      size = named
                 .try_emplace(root,
                              uniqueName(argument.name + "_" + llvm::itostr(i),
                                         sizeNames))
                 .first;
    argument.shape.push_back(root.first ? size->second
                                        : Dimension(root.second));
  }
  if (llvm::Error error = describeBuffer(type, argument))
    return refuse(name, toString(std::move(error)));
  return argument;
}

llvm::Expected<ArgumentDescription>
Describer::describeResult(Value value, std::string name) {
  bool isAttention = known.count(value) && !isa<BlockArgument>(value);
  llvm::Expected<ArgumentDescription> result = describe(value, name);
  if (!result)
    return result;
  for (const Dimension &size : result->shape)
    if (size.isDynamic() && !boundNames.contains(size.name))
      return refuse(name, "has a size that the arguments do not tell; make it "
                          "static, or take the result's memory as an argument");
  // A value that is returned twice, or an argument, is a buffer of its own
  // again.
  if (known.count(value))
    result->name = uniqueName(isAttention ? result->name : name, argumentNames);
  result->access = Access::Out;
  result->values.clear();
  return result;
}

llvm::Expected<LaunchDescription> Describer::run() {
  if (!entry.getBody().hasOneBlock())
    return llvm::createStringError("@" + entry.getName() +
                                   " has several blocks; a kernel is one, with "
                                   "loops and conditions as scf ops");
  entry.walk([&](AttentionOpInterface op) { describeAttention(op); });
  LaunchDescription launch;
  launch.name = entry.getName().str();
  launch.flops = flops;
  for (BlockArgument value : entry.getArguments()) {
    llvm::Expected<ArgumentDescription> argument =
        describe(value, "arg" + llvm::utostr(value.getArgNumber()));
    if (!argument)
      return argument.takeError();
    for (const Dimension &size : argument->shape)
      if (size.isDynamic())
        boundNames.insert(size.name);
    launch.arguments.push_back(std::move(*argument));
  }
  ValueRange results = entry.front().getTerminator()->getOperands();
  for (auto [index, value] : llvm::enumerate(results)) {
    llvm::Expected<ArgumentDescription> result =
        describeResult(withoutCasts(value), "result" + llvm::utostr(index));
    if (!result)
      return result.takeError();
    launch.arguments.push_back(std::move(*result));
  }
  return launch;
}

llvm::Expected<LaunchDescription> attn::describeLaunch(func::FuncOp entry) {
  return Describer(entry).run();
}
