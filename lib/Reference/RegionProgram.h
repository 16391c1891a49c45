//===- RegionProgram.h - A score or mask region, ready to run --*- C++ -*-===//

#ifndef ATTN_LIB_REFERENCE_REGIONPROGRAM_H
#define ATTN_LIB_REFERENCE_REGIONPROGRAM_H

#include "LaneDerivative.h"
#include "LaneOp.h"
#include "attn/Reference/Array.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"

namespace attn::reference {

/// The straight line of scalar ops of a `score_mod` or `mask_mod` region,
/// resolved once and run for every visible pair of query and key.
class RegionProgram {
public:
  /// `name` is for messages. The captures are the region's last arguments and
  /// must outlive the program.
  static llvm::Expected<RegionProgram> build(mlir::Region &region,
                                             llvm::StringRef name,
                                             llvm::ArrayRef<Array> captures,
                                             Rounding rounding);

  /// Runs the region on its arguments before the captures.
  llvm::Expected<Scalar> run(llvm::ArrayRef<Scalar> arguments);

  /// Finds the derivatives that `differentiate` needs: of ops that depend on
  /// the first argument, the score, or on one of these captures.
  llvm::Error prepareDerivatives(llvm::ArrayRef<int64_t> wantedCaptures);

  using CaptureGradient = llvm::function_ref<void(
      unsigned capture, int64_t element, double gradient)>;
  /// Reverse mode over the last `run`: given the gradient of what was yielded,
  /// returns that of the score and reports that of each element that was read
  /// from a wanted capture. Derivatives are those of exact arithmetic.
  double differentiate(double gradient, CaptureGradient addToCapture);

private:
  struct Instruction {
    mlir::Operation *op = nullptr;
    LaneOp lane;
    /// The captured array that a read reads; null for arithmetic.
    const Array *capture = nullptr;
    unsigned captureNumber = 0;
    mlir::Type elementType;
    llvm::SmallVector<unsigned, 4> operands;
    unsigned result = 0;
    /// Of a read: the element that the last run read.
    int64_t element = 0;
    /// A gradient passes through it.
    bool isActive = false;
    LaneDerivative derivative = nullptr;
  };

  llvm::Error add(mlir::Operation &op, llvm::ArrayRef<Array> captures,
                  Rounding rounding);
  llvm::Error read(Instruction &instruction);
  /// Where the region stands: "batch 0, head 3, query 1, key 9".
  std::string position() const;

  std::string name;
  unsigned numArguments = 0;
  std::vector<Instruction> instructions;
  llvm::DenseMap<mlir::Value, unsigned> slotOf;
  /// One per value: arguments, then constants and results as they come.
  std::vector<Scalar> slots;
  std::vector<double> gradients;
  unsigned yielded = 0;
};

} // namespace attn::reference

#endif // ATTN_LIB_REFERENCE_REGIONPROGRAM_H
