//===- LaunchDescription.h - How to launch a compiled kernel ----*- C++ -*-===//
//
// Everything that a runtime has to know beside the code. It is written as a
// small JSON file; docs/Artifact.md describes each field for those who write
// their own runtime.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_ARTIFACT_LAUNCHDESCRIPTION_H
#define ATTN_ARTIFACT_LAUNCHDESCRIPTION_H

#include "attn/Artifact/ElementType.h"
#include "attn/Artifact/SizeExpression.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include <array>
#include <string>
#include <vector>

namespace attn {

/// One size of an argument: a number, or the name of a size that the caller
/// chooses. Arguments that share a name must agree.
struct Dimension {
  int64_t size = 0;
  std::string name; // not empty: `size` is not used

  Dimension(int64_t size) : size(size) {}
  Dimension(std::string name) : name(std::move(name)) {}
  bool isDynamic() const { return !name.empty(); }
  bool operator==(const Dimension &o) const {
    return name == o.name && (isDynamic() || size == o.size);
  }
};

constexpr int64_t kAnyStride = -1;

enum class Access { In, Out, InOut };

struct ArgumentDescription {
  /// Its part in the attention ("query", "bias", "output"), or "arg3".
  std::string name;
  ElementType type = ElementType::f32;
  std::vector<Dimension> shape;
  /// Empty: row-major without gaps, from the first element on. Otherwise, in
  /// elements, one a dimension; kAnyStride is for the caller to choose.
  std::vector<int64_t> strides;
  int64_t offset = 0;
  Access access = Access::In;
  /// Two size expressions, lowest and highest, or nothing: the integers that
  /// make sense here. A launcher that makes up inputs draws from them.
  std::vector<std::string> values;
};

/// A CUtensorMap that the kernel takes by value. It is encoded from an
/// argument's address, sizes and strides, and from what is here.
struct TensorMapDescription {
  /// Its number among the arguments.
  int64_t argument = 0;
  /// Elements of the box in each dimension, in the argument's order.
  std::vector<int64_t> box;
  /// Width of the swizzle pattern in bytes: 0, 32, 64, 128.
  int64_t swizzle = 0;
};

/// A number that a Vulkan kernel is told of an argument: one of its sizes or
/// strides, or the element that is its first. Each is an i32.
struct ScalarDescription {
  enum class Field { Size, Stride, Offset };

  int64_t argument = 0;
  Field field = Field::Size;
  /// Of a size or stride.
  int64_t dimension = 0;
};

/// How a SPIR-V kernel gets its scalars: in their order from byte 0 of push
/// constants or a buffer, or (OpenCL) as arguments behind the pointers.
enum class ScalarsIn { PushConstants, Buffer, Arguments };

/// One kernel. Its formulas are size expressions.
struct KernelLaunch {
  /// The symbol in the code.
  std::string entry;
  std::vector<TensorMapDescription> tensorMaps;
  /// Blocks of a launch and threads of a block (GPU).
  std::array<std::string, 3> grid = {"1", "1", "1"};
  std::array<std::string, 3> workgroup = {"1", "1", "1"};
  /// Shared memory of a block.
  std::string sharedMemoryBytes = "0";
};

struct LaunchDescription : KernelLaunch {
  /// Readers refuse other versions.
  static constexpr int64_t kVersion = 1;

  /// What the code is: "obj", "ptx", "cubin", "spv".
  std::string format;
  /// The user's name of the kernel.
  std::string name;
  /// Name of the target, and what the code generator was told. Features of a
  /// Vulkan kernel are the SPIR-V capabilities that a device has to be asked
  /// for, with commas between: "Float16,StorageBuffer16BitAccess".
  std::string target, triple, arch, features;
  /// How arguments are passed. "memref-descriptors": each is a pointer to
  /// {void *allocated, *aligned; int64 offset, sizes[rank], strides[rank]},
  /// outputs are arguments like the others, nothing is returned.
  /// "memref-parameters": the fields of those structures are the parameters of
  /// a GPU kernel, one by one; those of the workspace follow, if there is one,
  /// and the tensor maps.
  /// "vulkan-buffers": argument i is the storage buffer at binding i of set 0,
  /// and the scalars are push constants, or a buffer behind the arguments.
  /// "opencl-arguments": argument i of the kernel is a pointer to global
  /// memory, and each scalar is an argument behind them.
  std::string abi;
  std::vector<ArgumentDescription> arguments;
  /// Kernels that are launched behind this one, with the same arguments.
  std::vector<KernelLaunch> then;
  /// This one and those behind it.
  std::vector<const KernelLaunch *> kernels() const;
  /// Kernels that are launched in the place of all these where a tensor map of
  /// theirs cannot be made.
  std::vector<KernelLaunch> otherwise;
  /// Of SPIR-V kernels alone: what SPIR-V the code is, such as "vulkan1.1",
  /// the scalars, and the subgroup size that it relies on (0 is any).
  std::string environment;
  std::vector<ScalarDescription> scalars;
  ScalarsIn scalarsIn = ScalarsIn::PushConstants;
  int64_t subgroupSize = 0;
  /// An entry point that finds out whether specialisation constant 0 may be
  /// true, or "": see "vulkan-buffers" in docs/Artifact.md.
  std::string layoutCheck = "";
  /// A size expression: main memory that the caller provides beside the
  /// arguments, whatever it holds.
  std::string workspaceBytes = "0";
  /// Arithmetic of the two matrix products, for figures of speed; may be "".
  std::string flops;

  std::string toJSON() const;
  /// `source` names the text in errors.
  static llvm::Expected<LaunchDescription> fromJSON(llvm::StringRef text,
                                                    llvm::StringRef source);

  bool isVulkan() const { return abi == "vulkan-buffers"; }
  bool isOpenCL() const { return abi == "opencl-arguments"; }
  bool isSpirv() const { return isVulkan() || isOpenCL(); }

  const ArgumentDescription *find(llvm::StringRef argument) const;

  /// Takes the shape of `arguments[index]` as given and adds to `sizes` what
  /// it names; an error when it contradicts the description or `sizes`.
  llvm::Error bindShape(size_t index, llvm::ArrayRef<int64_t> shape,
                        SizeMap &sizes) const;

  /// The shape of `arguments[index]` once the sizes are known.
  llvm::Expected<std::vector<int64_t>> shapeOf(size_t index,
                                               const SizeMap &sizes) const;
};

/// Prints a shape as 1x8xSkvx64, or as "scalar".
std::string formatShape(llvm::ArrayRef<Dimension> shape);
std::string formatShape(llvm::ArrayRef<int64_t> shape);

} // namespace attn

#endif // ATTN_ARTIFACT_LAUNCHDESCRIPTION_H
