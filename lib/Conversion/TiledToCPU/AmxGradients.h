//===- AmxGradients.h - Gradients by AMX tile registers --------*- C++ -*-===//
//
// A block of rows and keys goes through three steps:
//
//   for patch of 32 rows and 32 keys:
//     S = Q K^T,  dP = dO V^T          tiles, to memory
//     P and dX, rounded                rows 2p of a tile in turn, from memory
//   dV^T += dO^T P,  dK^T += Q^T dX    tiles, over the rows of the block
//   dQ += dX K                         tiles, over its keys
//
// dV and dK are summed turned, [d][key]: so P and dX are the right operands of
// all their products but one, and only operands that are read have to be
// turned.
//
//   plain    [row][d]                        left, from memory as it lies
//   words    [row / 16][d / 32]              right of Q K^T, dO V^T: row p
//   holds
//                                            the d pair 2p of 16 rows
//   pairs    [row / 32][d / 16]              right: row p holds rows 2p, 2p + 1
//   turned   [d / 16][row / 32]              left of dO^T P, Q^T dX
//
// The order of a sum is free. Turned operands and the pairs of P and dX have
// rows p and p + 16 of 32 side by side, which is how both are made with the
// fewest shuffles.
//
// P and dX of a row past the end are of what its lse is not, dX of a key past
// the end of a derivative there: neither is multiplied.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_TILEDTOCPU_AMXGRADIENTS_H
#define ATTN_LIB_CONVERSION_TILEDTOCPU_AMXGRADIENTS_H

#include "AmxTiles.h"
#include "GradientTiles.h"
#include "attn/IR/TiledForm.h"
#include "llvm/Support/MathExtras.h"

namespace attn::cpu {

/// Rows and keys of a patch.
constexpr int64_t kPatch = 2 * kTileRows;

class AmxGradients : public GradientTiles {
public:
  AmxGradients(Emitter &e, mlir::scf::ForallOp tasks,
               const TargetDescription &target, mlir::IRMapping &scalars)
      : GradientTiles(e, tasks, target, scalars), target(target),
        turnsSums(getRole(tasks) == role::kKeyTasks) {}

private:
  /// P or dX: what it is multiplied as, and where.
  struct Factor {
    mlir::Value value;
    mlir::Value pairs, plain;
    /// Rows of the operands that it is multiplied with.
    mlir::vector::TransferReadOp rows, keys;
  };

  void loadTile(mlir::vector::TransferReadOp read) override;
  void loadPlain(mlir::vector::TransferReadOp read);
  void packWords(mlir::vector::TransferReadOp read);
  void packTurned(mlir::vector::TransferReadOp read);
  mlir::LogicalResult packPairs(mlir::Value tile);

  mlir::LogicalResult accumulate(mlir::vector::ContractionOp product) override;
  void sumTurned(mlir::vector::ContractionOp product, mlir::Value factor,
                 mlir::Value sums);
  void sumRows(mlir::vector::ContractionOp product, mlir::Value factor,
               mlir::Value sums, bool startsAtSums);
  mlir::Value allocateSums(mlir::VectorType sums) override;
  mlir::Value finishSums(mlir::VectorType sums, mlir::Value scratch) override;

  llvm::SmallVector<Factor> findFactors(mlir::Block &block);
  mlir::LogicalResult makeFactors(mlir::Block &block);
  void multiplyPatchOf(mlir::vector::ContractionOp product, mlir::Value patch,
                       mlir::Value row, mlir::Value key);
  mlir::LogicalResult finishPatch(llvm::ArrayRef<Factor> factors,
                                  mlir::Operation *probabilities,
                                  mlir::Value row, mlir::Value key);
  mlir::LogicalResult finishRowPair(llvm::ArrayRef<Factor> factors,
                                    mlir::Operation *probabilities,
                                    mlir::Value row, mlir::Value key,
                                    mlir::Value pair);
  void storePairs(const Factor &factor, mlir::Value row, mlir::Value key,
                  mlir::Value pair, llvm::ArrayRef<mlir::Value> pieces);
  void storePlain(const Factor &factor, mlir::Value row, mlir::Value key,
                  llvm::ArrayRef<mlir::Value> pieces);

  mlir::Value allocatePacked(int64_t rows, int64_t columns, int64_t depth,
                             mlir::Type element);
  mlir::FloatType bf16() { return e.b.getBF16Type(); }
  /// Columns in whole patches.
  static int64_t whole(int64_t columns) {
    return llvm::alignTo(columns, kPatch);
  }

  const TargetDescription &target;
  /// dK and dV lie turned.
  const bool turnsSums;
  /// What is packed of a tile.
  llvm::DenseMap<mlir::Value, mlir::Value> words, turned, pairs;
  /// Factors of the block at hand.
  llvm::SmallVector<Factor> factors;
  mlir::Block *madeFor = nullptr;
};

} // namespace attn::cpu

#endif // ATTN_LIB_CONVERSION_TILEDTOCPU_AMXGRADIENTS_H
