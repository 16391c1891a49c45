//===- GradientTask.h - A task over keys or queries -------------*- C++ -*-===//
//
// A thread's part of a key task or of a query task. P, dX and accumulators lie
// in registers; the factors of a product pass through shared memory a few quads
// of depth or a few rows at a time, the next ones fetched while these are
// multiplied:
//
//   for each block that the masks reach
//     S += Q K^T, dP += dO V^T          a chunk of the depth at a time
//     P and dX of the thread's pairs; sums over pairs              (PairSums)
//     P to shared memory; dV += P^T dO  a few rows at a time
//     dX likewise; dK += dX^T Q, or dQ += dX K
//   write the accumulators
//
// What a task keeps (K, V or Q, dO) is fetched again for each block: a small
// share of what is multiplied, and the tiles can be as large as the registers.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_TILEDTOSPIRV_GRADIENTTASK_H
#define ATTN_LIB_CONVERSION_TILEDTOSPIRV_GRADIENTTASK_H

#include "GradientLanes.h"
#include "SeenKeys.h"
#include <map>

namespace attn::spv {

/// The ops of a task that the kernel has to know.
struct GradientForm {
  mlir::scf::ForallOp tasks;
  mlir::scf::ForOp sweep;
  /// Around a block that masks may hide, the branch that tests elements, and
  /// which keys some row sees; null where absent.
  mlir::scf::IfOp reach, masked;
  mlir::vector::MultiDimReductionOp seen;
  /// Null without the head dimension.
  mlir::vector::ContractionOp scores, probabilityGradient;
  /// P, and the products that it and dX are factors of.
  mlir::Value probabilities;
  llvm::SmallVector<mlir::vector::ContractionOp> sums;
  /// The writes of the gradients.
  llvm::SmallVector<mlir::vector::TransferWriteOp> outputs;
  /// The flags that reads of keys are masked by; null where all are read.
  mlir::Value seenKeys;

  static mlir::FailureOr<GradientForm> read(mlir::scf::ForallOp tasks);
  bool isKeyTask() const;
};

/// A place of a thread's accumulators: some rows, and quads of columns.
struct AccumulatorFrame {
  LaneLayout layout;
  /// Its quads `first`, `first` + `distance`, ..., of `width` a row.
  mlir::Value first;
  int64_t count, distance, width;
  /// Numbers of the thread.
  int64_t size;
};

class GradientTask {
public:
  GradientTask(LaneThread &thread, GradientLanes &gradients, GradientForm &form,
               mlir::IRMapping &scalars);

  mlir::LogicalResult emit() { return emitBlock(*form.tasks.getBody()); }

private:
  // Loops and results: GradientTask.cpp.
  mlir::LogicalResult emitBlock(mlir::Block &block);
  mlir::LogicalResult emitLoop(mlir::scf::ForOp loop);
  mlir::LogicalResult emitSweepBody(mlir::Block &block);
  mlir::LogicalResult write(mlir::vector::TransferWriteOp write);
  Registers flatten(mlir::ValueRange accumulators);
  void bindAccumulators(mlir::ValueRange accumulators,
                        mlir::ValueRange numbers);
  AccumulatorFrame &frameOf(mlir::Value accumulator);
  AccumulatorFrame makeFrame(int64_t width);

  // A block of rows and keys: GradientBlock.cpp.
  mlir::LogicalResult visitBlock(mlir::Block &block);
  mlir::LogicalResult makePairs();
  Registers multiplyTiles(mlir::vector::ContractionOp product);
  void storeFactor(const Registers &elements);
  mlir::LogicalResult accumulate(mlir::vector::ContractionOp product);

  // Sums over pairs: PairSums.cpp.
  struct PairSum;
  mlir::LogicalResult sumPairs(mlir::Block &block);
  mlir::LogicalResult addPairs(PairSum &sum);
  mlir::LogicalResult storeTerms(PairSum &sum);
  mlir::LogicalResult storePlaces(PairSum &sum);
  mlir::FailureOr<mlir::Value> placeOf(PairSum &sum, int64_t row, int64_t key);
  void addTerms(PairSum &sum);

  LaneThread &thread;
  GpuEmitter &e;
  GradientLanes &gradients;
  const LaneGradientTiles &tiles;
  GradientForm &form;
  mlir::IRMapping &scalars;
  int64_t blockQuery, blockKey;
  /// The thread's place in the grid, and whether its pairs are its own.
  mlir::Value row, column, group, isWriter;
  LaneLayout pairs;
  /// Of a step, left and right factors; P or dX of the block; see PairSums and
  /// SeenKeys.
  SharedTile leftStep, rightStep, factor, terms, places, seenWords;
  SeenKeys seen;
  /// By the columns of an accumulator.
  std::map<int64_t, AccumulatorFrame> frames;
  llvm::DenseMap<mlir::Value, Registers> accumulators;
};

/// What a factor was before it was converted.
inline mlir::Value unrounded(mlir::Value factor) {
  while (llvm::isa_and_nonnull<mlir::arith::TruncFOp, mlir::arith::ExtFOp>(
      factor.getDefiningOp()))
    factor = factor.getDefiningOp()->getOperand(0);
  return factor;
}

} // namespace attn::spv

#endif // ATTN_LIB_CONVERSION_TILEDTOSPIRV_GRADIENTTASK_H
