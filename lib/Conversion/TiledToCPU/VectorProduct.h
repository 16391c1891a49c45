//===- VectorProduct.h - Tile products by vector instructions ---*- C++ -*-===//
//
// The loops of the vector products, and what a lane does in one step of the
// reduction: multiply and add one element, or a pair.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_TILEDTOCPU_VECTORPRODUCT_H
#define ATTN_LIB_CONVERSION_TILEDTOCPU_VECTORPRODUCT_H

#include "RegisterTile.h"

namespace attn::cpu {

/// One instruction: its operands in memory, and the instruction.
///
/// The right operand of a step is a register of factors, `depth` to each lane.
/// The left one is a word, as wide as an accumulator, that every lane gets.
class LaneProduct {
public:
  LaneProduct(const CpuKernel &kernel, int64_t depth, mlir::FloatType factor)
      : kernel(kernel), depth(depth), factor(factor) {}
  virtual ~LaneProduct() = default;

  /// A register of factors, and the steps of a reduction over `size`.
  mlir::VectorType registerType() const {
    return mlir::VectorType::get(kernel.width * depth, factor);
  }
  int64_t steps(int64_t size) const { return (size + depth - 1) / depth; }

  /// Whether keys must be packed to be read as factors.
  virtual bool packsKeys() const = 0;
  /// Calls `store` with the factors of `width` keys in each step.
  virtual void
  packKeys(Emitter &e, mlir::Value view, mlir::Value firstKey,
           llvm::function_ref<void(mlir::Value step, mlir::Value factors)>
               store) const = 0;
  /// Whether values must be packed to be read as factors.
  virtual bool packsValues() const = 0;
  /// The factors of `width` columns of `depth` keys.
  virtual mlir::Value packValues(Emitter &e, mlir::Value view, mlir::Value key,
                                 mlir::Value column, int64_t count) const = 0;
  /// `width` words of a query row.
  virtual mlir::Value loadQuery(Emitter &e, mlir::Value view, mlir::Value row,
                                mlir::Value column, int64_t count) const = 0;
  /// The words of `width` probabilities; `piece` becomes what they stand for.
  virtual mlir::Value packProbabilities(Emitter &e,
                                        mlir::Value &piece) const = 0;
  virtual mlir::Value multiplyAdd(Emitter &e, mlir::Value word,
                                  mlir::Value factors,
                                  mlir::Value sum) const = 0;

  const CpuKernel &kernel;
  const int64_t depth;
  const mlir::FloatType factor;
};

/// The loops. VectorPacking.cpp makes the operands, VectorProduct.cpp
/// multiplies.
class VectorProduct : public TileProduct {
public:
  VectorProduct(const CpuKernel &kernel, std::unique_ptr<LaneProduct> lanes)
      : kernel(kernel), lanes(std::move(lanes)) {}

  void allocate(Emitter &e, mlir::Value heads) override;
  void pack(Emitter &e, mlir::IRMapping &scalars, mlir::Value head,
            mlir::Value block) override;
  void loadQuery(Task &task) override;
  void beginThread(Emitter &e) override;
  mlir::LogicalResult update(Task &task, const KeyBlock &block) override;
  mlir::Value loadScores(Task &task, mlir::Value row,
                         mlir::Value column) override {
    return task.e.load(kernel.vector, scores.memory,
                       scores.at(task.e, row, column));
  }
  mlir::Value storeProbabilities(Task &task, mlir::Value row,
                                 mlir::Value column,
                                 mlir::Value piece) override;
  void deallocate(Emitter &e) override;
  mlir::Value keyBlocks() const override {
    return packsKeys() || packsValues() ? blocks : mlir::Value();
  }

private:
  /// What becomes of the raw scores of a row of register tiles.
  using Keep = mlir::LogicalResult (VectorProduct::*)(
      Task &, mlir::Value row, mlir::Value column,
      llvm::ArrayRef<mlir::Value> raw);
  mlir::LogicalResult multiplyScores(Task &task, const KeyBlock &block,
                                     Keep keep);
  mlir::LogicalResult followMaximum(Task &task, const KeyBlock &block);
  mlir::LogicalResult keepReference(Task &task, const KeyBlock &block);
  void multiplyValues(Task &task, const KeyBlock &block);
  void packKeyPanel(Emitter &e, mlir::Value view, mlir::Value position,
                    mlir::Value panel, mlir::Value firstKey);
  mlir::LogicalResult keepScores(Task &task, mlir::Value row,
                                 mlir::Value column,
                                 llvm::ArrayRef<mlir::Value> raw);
  mlir::LogicalResult keepProbabilities(Task &task, mlir::Value row,
                                        mlir::Value column,
                                        llvm::ArrayRef<mlir::Value> raw);
  llvm::SmallVector<mlir::Value> multiplyPanel(Task &task,
                                               const KeyBlock &block,
                                               mlir::Value panel,
                                               mlir::Value row);
  llvm::SmallVector<mlir::Value> multiplyInPlace(Task &task,
                                                 const KeyBlock &block,
                                                 mlir::Value panel,
                                                 mlir::Value row);
  /// Keys that are multiplied side by side where they lie: enough independent
  /// sums for one row to hide the latency of the multiply-add.
  int64_t keysInPlace() const { return std::min<int64_t>(4, kernel.width); }
  void multiplyKeys(Task &task, mlir::Value firstKey, mlir::Value row,
                    mlir::Value column);
  llvm::SmallVector<mlir::Value> loadValues(Task &task, const KeyBlock &block,
                                            mlir::Value step,
                                            mlir::Value column,
                                            int64_t vectors);
  void multiplyOutput(Task &task, const KeyBlock &block, mlir::Value first,
                      mlir::Value column, int64_t vectors);

  bool packsKeys() const { return kernel.form.key && lanes->packsKeys(); }
  bool packsValues() const { return kernel.form.value && lanes->packsValues(); }
  int64_t querySteps() const { return lanes->steps(kernel.form.headDim); }

  const CpuKernel &kernel;
  std::unique_ptr<LaneProduct> lanes;
  // [head x block][panel][step][register columns x depth]
  mlir::Value packedKeys;
  // [head x block][step][value columns x depth]
  mlir::Value packedValues;
  // Key blocks of a head.
  mlir::Value blocks;
  // Scratch of the thread: words of the query tile; scores, then the words of P
  // in their place.
  LeftRows query, scores;
};

} // namespace attn::cpu

#endif // ATTN_LIB_CONVERSION_TILEDTOCPU_VECTORPRODUCT_H
