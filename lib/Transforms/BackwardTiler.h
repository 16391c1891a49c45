//===- BackwardTiler.h - Builds the loop nests of the gradients -*- C++ -*-===//
//
// TileBackward.cpp says what they are, and builds those over key blocks and
// query blocks; TileBackwardBlock.cpp a block, TileBackwardRows.cpp what needs
// rows only.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_TRANSFORMS_BACKWARDTILER_H
#define ATTN_LIB_TRANSFORMS_BACKWARDTILER_H

#include "TileGradients.h"
#include "TileMask.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace attn {

/// What a block computes. Null where a dimension is 0.
struct BlockGradients {
  mlir::Value probabilities, ofProducts;
};

/// The tiles of a row block: of queries, and what else a row has.
struct RowTiles {
  mlir::Value query, outputGradient, reference, delta;
};

class BackwardTiler {
public:
  BackwardTiler(AttentionBackwardOp op, ScoreDerivative derivative)
      : op(op), derivative(std::move(derivative)), gradients(op),
        tiling(op.getTilingAttr().getValue()),
        b(op, tiling.blockQuery, tiling.blockKey), sizes(getSizes(b, op)),
        accumulator(op.getAccumulatorType()) {}

  void run();

private:
  // The four nests.
  void buildDelta();
  void buildKeyTasks();
  void buildQueryTasks();
  void buildSinks();

  mlir::scf::ForallOp enterTasks(llvm::ArrayRef<Index> counts,
                                 llvm::StringRef role);
  Task rowTask(mlir::Value batch, mlir::Value head, mlir::Value firstRow);
  RowTiles readRows(const Task &task);
  mlir::Value readTile(mlir::Value view, mlir::Value firstRow, int64_t columns,
                       int64_t rows, bool inBounds, llvm::StringRef role,
                       mlir::Value mask = {});
  mlir::Value readRowTile(mlir::Value operand, Layout layout, const Task &task,
                          int64_t width, llvm::StringRef role);
  mlir::Value readPerRow(mlir::Value operand, const Task &task, double pad);
  void writePerRow(mlir::Value value, mlir::Value destination, const Task &task,
                   llvm::StringRef role);
  mlir::Value perRowView(mlir::Value operand, mlir::Value batch,
                         mlir::Value head);

  BlockGradients computeBlock(const Task &task, TileMask &mask,
                              const RowTiles &rows, mlir::Value key,
                              mlir::Value value, mlir::Value firstKey,
                              bool mayHideKeys, bool addsToOthers);
  /// What is added to the exponents of a row's probabilities.
  mlir::Value computeReference(const Task &task);
  mlir::Value probabilities(const Task &task, mlir::Value scores,
                            mlir::Value reference);
  /// 16 bits keep less of a probability than one more rounding of its exponent
  /// takes away: then scores and lse are of base 2 from the start, unless that
  /// takes them out of range.
  bool hasBase2() {
    return op.getElementType().getWidth() <= 16 &&
           !TileScore::exponent(op).mayOverflow;
  }
  /// 0 where the probability is.
  mlir::Value dropHidden(mlir::Value gradient, mlir::Value probabilities);

  struct KeyAccumulators {
    mlir::Value key, value;
    llvm::SmallVector<mlir::Value> values() const;
  };
  KeyAccumulators asAccumulators(mlir::ValueRange values);
  /// Runs `body` in a loop that carries `initial`.
  llvm::SmallVector<mlir::Value>
  loop(Index begin, Index end, int64_t step, mlir::ValueRange initial,
       llvm::StringRef role,
       llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::Value,
                                                         mlir::ValueRange)>
           body);
  /// Runs `body` if the block is reached, and keeps `state` otherwise.
  llvm::SmallVector<mlir::Value>
  ifReached(TileMask &mask, mlir::ValueRange state,
            llvm::function_ref<llvm::SmallVector<mlir::Value>()> body);
  /// The sum of the query gradient plus what the block of keys adds.
  void addToQuerySum(const Task &task, TileMask &mask, mlir::Value key,
                     mlir::Value ofProducts, mlir::Value firstKey);
  mlir::Value querySumView(const Task &task);
  void writeQueryGradient(mlir::Value batch, mlir::Value head,
                          mlir::Value firstRow);
  KeyAccumulators visitRows(mlir::Value batch, mlir::Value head,
                            mlir::Value firstRow, const KeyRange &keys,
                            mlir::Value firstKey, mlir::Value key,
                            mlir::Value value, KeyAccumulators state);
  void buildQueryTask(mlir::Value batch, mlir::Value head,
                      mlir::Value firstRow);
  /// A number for each row, or `width` of them.
  mlir::Value allocatePerRow(int64_t width = 0);
  void writeRows(mlir::Value tile, mlir::Value destination, Layout layout,
                 mlir::Value batch, Index head, Index length,
                 mlir::Value firstRow, bool inBounds, int64_t width,
                 bool isScaled);
  /// The accumulator plus a product of tiles in the element type.
  mlir::Value accumulate(mlir::Value lhs, mlir::Value rhs, mlir::Value acc,
                         Transposed transposed, llvm::StringRef role);

  mlir::Value zeros(int64_t rows, int64_t columns) {
    return b.constant(mlir::VectorType::get({rows, columns}, accumulator), 0);
  }
  Index number(int64_t n) { return b.getIndexAttr(n); }

  AttentionBackwardOp op;
  const ScoreDerivative derivative;
  TileGradients gradients;
  const Tiling tiling;
  TileBuilder b;
  AttentionSizes sizes;
  mlir::FloatType accumulator;
  /// [B, Hq, Sq], filled by the first nest.
  mlir::Value delta;
  /// The query gradient is accumulated.
  bool isAccumulated = tiling.queryGradient == "accumulated" ||
                       tiling.queryGradient == "ordered";
  /// Delta and these have rows of whole blocks: [B, Hq, S], and the sum
  /// [B, Hq, S, D]. Copies of a matrix unit's tiles know no edges, and threads
  /// of a GPU read numbers of rows without a test.
  bool hasWholeBlocks =
      isAccumulated || tiling.product == "wgmma" || isForCuda(op);
  mlir::Value reference, querySum;
};

} // namespace attn

#endif // ATTN_LIB_TRANSFORMS_BACKWARDTILER_H
