//===- RegionProgram.h - A score or mask region, ready to run --*- C++ -*-===//

#ifndef ATTN_LIB_REFERENCE_REGIONPROGRAM_H
#define ATTN_LIB_REFERENCE_REGIONPROGRAM_H

#include "LaneOp.h"
#include "attn/Reference/Array.h"
#include "llvm/ADT/ArrayRef.h"
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
  };

  llvm::Error add(mlir::Operation &op, llvm::ArrayRef<Array> captures,
                  Rounding rounding);
  llvm::Error read(const Instruction &instruction);
  /// Where the region stands: "batch 0, head 3, query 1, key 9".
  std::string position() const;

  std::string name;
  unsigned numArguments = 0;
  std::vector<Instruction> instructions;
  llvm::DenseMap<mlir::Value, unsigned> slotOf;
  /// One per value: arguments, then constants and results as they come.
  std::vector<Scalar> slots;
  unsigned yielded = 0;
};

} // namespace attn::reference

#endif // ATTN_LIB_REFERENCE_REGIONPROGRAM_H
