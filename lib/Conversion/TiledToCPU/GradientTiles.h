//===- GradientTiles.h - A task of the gradients in register tiles -*- C++ -*-//
//
// The tiles that a task of the gradients carries or multiplies lie in scratch,
// and each product is a loop nest around a register tile of accumulators:
//
//   delta [row]       = sums of rows of dO * O             (delta tasks)
//   P    [row][key]   = exp of the scores Q K^T            keys and values lie
//   dX   [row][key]   = from P and dO V^T                  turned, [d][key]
//   dV   [key][d]    += P^T dO                             (key tasks)
//   dK   [key][d]    += dX^T Q                             (key tasks)
//   dQ   [row][d]    += dX K                               (query tasks, or key
//                                                          tasks, in memory)
//
// What the tiled form does with the elements of a product (score region, masks,
// exponential, derivative) happens row by row before the next product reads it.
//
// Factors are of the accumulators' type: f16 and bf16 are widened where they
// are loaded, and P and dX are not rounded to them.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_TILEDTOCPU_GRADIENTTILES_H
#define ATTN_LIB_CONVERSION_TILEDTOCPU_GRADIENTTILES_H

#include "CpuKernel.h"

namespace attn::cpu {

class GradientTiles {
public:
  /// Whether the ops of the task loop are those above and arithmetic on
  /// elements, and its blocks of keys whole registers. Gradients of a bias or
  /// of captures, and masks that are asked whether they show anything, are not.
  static bool canMap(mlir::scf::ForallOp tasks,
                     const TargetDescription &target);

  /// `scalars` maps the induction variables of the task loop.
  GradientTiles(Emitter &e, mlir::scf::ForallOp tasks,
                const TargetDescription &target, mlir::IRMapping &scalars);

  /// Emits one task, at the insertion point.
  mlir::LogicalResult emitTask(mlir::scf::ForallOp tasks);

private:
  /// sums[row][column] (+)= sum over steps of left[row][step] *
  /// right[step][column], by register tiles.
  struct Product {
    mlir::Value steps, left, right, sums;
    /// left lies as [step][row].
    bool leftIsTurned = false;
    /// Adds to what is there.
    bool startsAtSums = false;
  };
  void multiply(const Product &product);
  void multiplyColumns(const Product &product, mlir::Value column,
                       int64_t vectors);
  /// Q K^T or dO V^T.
  void multiplyTiles(mlir::vector::ContractionOp product, mlir::Value sums);
  /// dV, dK or dQ.
  mlir::LogicalResult accumulate(mlir::vector::ContractionOp product);

  mlir::LogicalResult emitBlock(mlir::Block &block);
  mlir::LogicalResult emitOp(mlir::Operation &op);
  mlir::LogicalResult emitLoop(mlir::scf::ForOp loop);
  mlir::LogicalResult emitReach(mlir::scf::IfOp reach);
  mlir::LogicalResult write(mlir::vector::TransferWriteOp write);
  mlir::LogicalResult writePerRow(mlir::vector::TransferWriteOp write);
  /// An element of row sums.
  mlir::FailureOr<mlir::Value> sumRow(mlir::Value sums, mlir::Value row);
  void loadTile(mlir::vector::TransferReadOp read);
  void loadPlain(mlir::vector::TransferReadOp read);
  void loadTurned(mlir::vector::TransferReadOp read);
  /// A piece of a row of an operand, widened.
  mlir::Value loadPiece(mlir::vector::TransferReadOp read, mlir::Value row,
                        mlir::Value column, int64_t count);
  /// Computes P or dX to scratch.
  mlir::LogicalResult makeTile(mlir::Value tile);
  mlir::LogicalResult makeElements(mlir::Value tile, mlir::Value scratch);
  mlir::LogicalResult
  branchOnEdge(mlir::scf::IfOp masked,
               llvm::function_ref<mlir::LogicalResult()> body);

  /// To the type of sums.
  mlir::Value widen(mlir::Value piece);
  mlir::Value allocate(int64_t rows, int64_t columns);
  void clear(mlir::Value scratch);
  /// From here on the tile is what lies in the scratch.
  void place(mlir::Value tile, mlir::Value scratch);

  Emitter &e;
  mlir::IRMapping &scalars;
  TileSlicer slicer;
  mlir::FloatType type;
  mlir::VectorType vector;
  int64_t width, registers;
  /// Where tiles lie: [row][column], columns up to whole registers; and
  /// operands that products read turned, [column][row].
  llvm::DenseMap<mlir::Value, mlir::Value> tiles, turned;
};

} // namespace attn::cpu

#endif // ATTN_LIB_CONVERSION_TILEDTOCPU_GRADIENTTILES_H
