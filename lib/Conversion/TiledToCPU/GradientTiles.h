//===- GradientTiles.h - A task of the gradients in scratch ----*- C++ -*-===//
//
// The tiles that a task of the gradients carries or multiplies lie in scratch,
// and each product is a loop nest around a register tile of accumulators:
//
//   delta [row]       = sums of rows of dO * O             (delta tasks)
//   P    [row][key]   = exp of the scores Q K^T
//   dX   [row][key]   = from P and dO V^T
//   dV   [key][d]    += P^T dO                             (key tasks)
//   dK   [key][d]    += dX^T Q                             (key tasks)
//   dQ   [row][d]    += dX K                               (query tasks, or key
//                                                          tasks, in memory)
//
// What the tiled form does with the elements of a product (score region, masks,
// exponential, derivative) happens piece by piece before the next product reads
// it. Here are the nest and what enters and leaves it; FmaGradients.cpp and
// AmxGradients.h multiply.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_TILEDTOCPU_GRADIENTTILES_H
#define ATTN_LIB_CONVERSION_TILEDTOCPU_GRADIENTTILES_H

#include "CpuKernel.h"
#include "llvm/ADT/SetVector.h"

namespace attn::cpu {

class GradientTiles {
public:
  /// Whether the ops of the task loop are those above and arithmetic on
  /// elements, and its blocks of keys whole registers. Gradients of a bias or
  /// of captures, and masks that are asked whether they show anything, are not.
  static bool canMap(mlir::scf::ForallOp tasks,
                     const TargetDescription &target);
  /// Whether the tiling says AMX, and the task loop multiplies.
  static bool asksForTileRegisters(mlir::scf::ForallOp tasks);
  /// Whether it gets them: an output gradient in f32 is not rounded to be
  /// packed, but multiplied as such.
  static bool usesTileRegisters(mlir::scf::ForallOp tasks);
  /// What multiplies as the tiling says. `scalars` maps the induction variables
  /// of the task loop.
  static std::unique_ptr<GradientTiles> create(Emitter &e,
                                               mlir::scf::ForallOp tasks,
                                               const TargetDescription &target,
                                               mlir::IRMapping &scalars);
  virtual ~GradientTiles() = default;

  /// Emits one task, at the insertion point.
  mlir::LogicalResult emitTask(mlir::scf::ForallOp tasks);

protected:
  GradientTiles(Emitter &e, mlir::scf::ForallOp tasks,
                const TargetDescription &target, mlir::IRMapping &scalars);

  /// Makes the operands that products take of what is read.
  virtual void loadTile(mlir::vector::TransferReadOp read) = 0;
  /// dV, dK or dQ.
  virtual mlir::LogicalResult
  accumulate(mlir::vector::ContractionOp product) = 0;
  /// Scratch for sums of that shape that a loop carries.
  virtual mlir::Value allocateSums(mlir::VectorType sums) {
    return allocate(sums.getDimSize(0), sums.getDimSize(1), type);
  }
  /// The sums of a whole loop by rows.
  virtual mlir::Value finishSums(mlir::VectorType sums, mlir::Value scratch) {
    return scratch;
  }

  /// Emits `body` in both branches, where an element of `masked` is one with
  /// the tests of the mask or one without.
  mlir::LogicalResult
  branchOnEdge(mlir::scf::IfOp masked,
               llvm::function_ref<mlir::LogicalResult()> body);
  /// Rows of the tile that are rows of the operand.
  mlir::Value rowsInside(mlir::vector::TransferReadOp read);
  /// A piece of a row of an operand.
  mlir::Value loadPiece(mlir::vector::TransferReadOp read, mlir::Value row,
                        mlir::Value column, int64_t count, int64_t lanes);
  /// Rows of `element`, rounded up to whole registers of sums.
  mlir::Value allocate(int64_t rows, int64_t columns, mlir::Type element);
  void clear(mlir::Value scratch);
  /// From here on the tile is what lies in the scratch, by rows.
  void place(mlir::Value tile, mlir::Value scratch);

  Emitter &e;
  mlir::IRMapping &scalars;
  TileSlicer slicer;
  mlir::FloatType type;
  mlir::VectorType vector;
  int64_t width, registers;
  /// Where tiles lie.
  llvm::DenseMap<mlir::Value, mlir::Value> tiles;

private:
  mlir::LogicalResult emitBlock(mlir::Block &block);
  mlir::LogicalResult emitOp(mlir::Operation &op);
  mlir::LogicalResult emitLoop(mlir::scf::ForOp loop);
  mlir::LogicalResult emitReach(mlir::scf::IfOp reach);
  mlir::LogicalResult write(mlir::vector::TransferWriteOp write);
  mlir::LogicalResult writePerRow(mlir::vector::TransferWriteOp write);
  /// An element of row sums.
  mlir::FailureOr<mlir::Value> sumRow(mlir::Value sums, mlir::Value row);
};

std::unique_ptr<GradientTiles>
createFmaGradients(Emitter &e, mlir::scf::ForallOp tasks,
                   const TargetDescription &target, mlir::IRMapping &scalars);
std::unique_ptr<GradientTiles>
createAmxGradients(Emitter &e, mlir::scf::ForallOp tasks,
                   const TargetDescription &target, mlir::IRMapping &scalars);

/// Products whose sums stay in scratch from block to block; the others become
/// P and dX.
bool accumulates(mlir::vector::ContractionOp product);
/// What a factor is before it was rounded for the product.
mlir::Value unrounded(mlir::Value factor);
/// The ops that `tile` is computed by, down to what is placed.
void collectOps(mlir::Value tile,
                const llvm::DenseMap<mlir::Value, mlir::Value> &placed,
                llvm::SetVector<mlir::Operation *> &ops);
/// The tile of an operand, or one that is made of it.
mlir::vector::TransferReadOp findRead(mlir::Value tile);

} // namespace attn::cpu

#endif // ATTN_LIB_CONVERSION_TILEDTOCPU_GRADIENTTILES_H
