//===- CpuKernel.h - One attention kernel while it is emitted ---*- C++ -*-===//
//
// The scratch of a task, the sizes of its register tiles and short names for
// the ops that the pieces of the back end emit. Each idea has its file:
//
//   TiledToCPU.cpp   the order of things: pack, tasks, sweep, epilogue
//   VectorProduct.cpp tile products by vector instructions, whose lanes are
//   FmaProduct.cpp     multiply-adds
//   DotProduct.cpp     or dot products of pairs
//   VectorPacking.cpp  their operands
//   RegisterTile.cpp   the loop around a register tile
//   AmxProduct.cpp   tile products by AMX
//   AmxPacking.cpp     their operands
//   AmxTiles.cpp       the tile registers
//   TaskScalars.cpp  bounds, views and conditions of tasks and key blocks
//   SoftmaxRows.cpp  the online softmax over the rows of a score tile
//   StaleSoftmax.cpp the same by a reference that stays behind
//   GradientTiles.cpp  the tasks of the gradients, whose products are
//   FmaGradients.cpp   multiply-adds
//   AmxGradients.cpp   or products of AMX tiles
//   AmxGradientOperands.cpp  their operands
//   Exp2Approximation.cpp  exp2 by a polynomial
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_TILEDTOCPU_CPUKERNEL_H
#define ATTN_LIB_CONVERSION_TILEDTOCPU_CPUKERNEL_H

#include "../Common/TileSlicer.h"
#include "../Common/TiledForm.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/TypeUtilities.h"

namespace attn::cpu {

/// Short names for the ops that every piece emits.
struct Emitter {
  mlir::OpBuilder &b;
  mlir::Location loc;

  mlir::Value index(int64_t value) {
    return mlir::arith::ConstantIndexOp::create(b, loc, value);
  }
  mlir::Value add(mlir::Value x, mlir::Value y) {
    return mlir::arith::AddIOp::create(b, loc, x, y);
  }
  mlir::Value add(mlir::Value x, int64_t y) {
    return y == 0 ? x : add(x, index(y));
  }
  mlir::Value sub(mlir::Value x, mlir::Value y) {
    return mlir::arith::SubIOp::create(b, loc, x, y);
  }
  mlir::Value mul(mlir::Value x, mlir::Value y) {
    return mlir::arith::MulIOp::create(b, loc, x, y);
  }
  mlir::Value mul(mlir::Value x, int64_t y) { return mul(x, index(y)); }
  mlir::Value min(mlir::Value x, mlir::Value y) {
    return mlir::arith::MinSIOp::create(b, loc, x, y);
  }
  mlir::Value max(mlir::Value x, mlir::Value y) {
    return mlir::arith::MaxSIOp::create(b, loc, x, y);
  }
  /// For sizes: both operands are non-negative, y > 0.
  mlir::Value div(mlir::Value x, int64_t y) {
    return mlir::arith::DivUIOp::create(b, loc, x, index(y));
  }
  mlir::Value ceilDiv(mlir::Value x, int64_t y) {
    return div(add(x, y - 1), y);
  }

  mlir::Value constant(mlir::Type type, double value);
  mlir::Value splat(mlir::VectorType type, mlir::Value scalar) {
    return mlir::vector::BroadcastOp::create(b, loc, type, scalar);
  }
  /// The lane-wise larger of two; `low` where they do not compare, so that a
  /// NaN in `x` is dropped here and shows in its probability instead.
  mlir::Value maxLanes(mlir::Value low, mlir::Value x);
  mlir::Value load(mlir::VectorType type, mlir::Value memref,
                   mlir::ValueRange indices) {
    return mlir::vector::LoadOp::create(b, loc, type, memref, indices);
  }
  void store(mlir::Value vector, mlir::Value memref, mlir::ValueRange indices) {
    mlir::vector::StoreOp::create(b, loc, vector, memref, indices);
  }
  /// A counted loop without carried values.
  void loop(mlir::Value lower, mlir::Value upper, int64_t step,
            llvm::function_ref<void(mlir::Value)> body);
  /// A counted loop that carries `inits`; `body` returns what it yields.
  llvm::SmallVector<mlir::Value>
  loop(mlir::Value lower, mlir::Value upper, int64_t step,
       mlir::ValueRange inits,
       llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::Value,
                                                         mlir::ValueRange)>
           body);
};

/// What does not change from task to task.
struct CpuKernel {
  TiledForm &form;
  /// Accumulator type, and a native vector of it.
  mlir::FloatType type;
  mlir::VectorType vector;
  int64_t width;
  /// Register tile of the score product: rows x columns (columns a multiple
  /// of the width that divides into the key block, or one vector).
  int64_t registerRows, registerColumns;
  /// Scratch sizes: rows and keys of a tile rounded up to register tiles.
  int64_t rows, keys;
  /// Value dimensions rounded up to vectors.
  int64_t valueColumns;
  /// Rows that share one causal limit: a multiple of every row step.
  int64_t rowGroup;

  /// Columns that the probabilities of a row are rounded up to: those between
  /// its limit and there are hidden, and zero.
  int64_t probabilityStep() const {
    return form.tiling.product == "amx" ? registerColumns : width;
  }
  /// Whether P is rounded before it is multiplied.
  bool roundsProbabilities() const {
    return form.tiling.product == "amx" || form.tiling.product == "dot";
  }
  /// Whether the row sum is that of the rounded P.
  bool sumsRounded() const { return roundsProbabilities() && !form.isStale(); }
  /// Whether the lse needs a row sum of its own.
  bool needsExactSum() const { return sumsRounded() && form.lse; }
  int64_t panels() const { return keys / registerColumns; }
  /// Rows of an output register tile of `vectors` columns of vectors.
  int64_t outputRows(int64_t vectors) const;
  /// Keys whose values are multiplied with all rows before the next ones are.
  int64_t valueChunk() const;

  explicit CpuKernel(TiledForm &form);
};

/// The scratch of one thread, in its stack frame.
struct Scratch {
  mlir::Value output;      // rows x valueColumns: the accumulator
  mlir::Value laneMax;     // rows x width: running maximum of a block, per lane
  mlir::Value laneSum;     // rows x width: row sum, per lane
  mlir::Value exactSum;    // rows x width: the same of unrounded P, for the lse
  mlir::Value blockSum;    // rows x width: what a block adds to laneSum (stale)
  mlir::Value rowMax;      // rows: the running maximum m
  mlir::Value nextMax;     // rows: the maximum m' with the current block
  mlir::Value correction;  // rows: alpha = exp2((m - m') c)
  mlir::Value rowSum;      // rows: l, in the epilogue
  mlir::Value rowExactSum; // rows: the same of exactSum
  mlir::Value seen;        // keys, i8: whether some row sees the key

  static Scratch allocate(Emitter &e, const CpuKernel &kernel);
};

/// One key block of one task.
struct KeyBlock {
  mlir::Value head;    // batch x Hkv + key/value head
  mlir::Value start;   // first key, relative to the key view
  mlir::Value isFirst; // i1: the first of the sweep
  /// Keys that a row group reaches, at most the block's (causal).
  std::function<mlir::Value(mlir::Value row)> limit;

  /// The limit rounded up to whole pieces of probabilities.
  mlir::Value probabilityLimit(Emitter &e, const CpuKernel &kernel,
                               mlir::Value row) const {
    int64_t step = kernel.probabilityStep();
    return e.mul(e.ceilDiv(limit(row), step), step);
  }
};

/// Rows of a task that a softmax update works on. Scores and probabilities of
/// row `first` are at row 0 of their scratch.
struct Rows {
  mlir::Value first;
  int64_t count;
};

/// Emission state of one task.
struct Task {
  Emitter e;
  const CpuKernel &kernel;
  Scratch scratch;
  mlir::IRMapping &scalars;
  TileSlicer &slicer;
};

/// A way to multiply tiles. Workspace that outlives a task is allocated before
/// the parallel region and filled by `pack`.
class TileProduct {
public:
  virtual ~TileProduct() = default;

  /// Workspace for `heads` (batch x Hkv) packed operands, in front of the
  /// parallel region, and its release behind it.
  virtual void allocate(Emitter &e, mlir::Value heads) = 0;
  virtual void deallocate(Emitter &e) = 0;
  /// Key blocks that `pack` fills per head; empty when nothing is packed.
  virtual mlir::Value keyBlocks() const = 0;
  /// What a thread needs before its first and after its last task.
  virtual void beginThread(Emitter &e) = 0;
  virtual void endThread(Emitter &e) {}

  /// Packs one key block of one key/value head. `head` counts batch x Hkv.
  virtual void pack(Emitter &e, mlir::IRMapping &scalars, mlir::Value head,
                    mlir::Value block) = 0;
  /// Fills the query tile.
  virtual void loadQuery(Task &task) = 0;
  /// One key block: scores, modified and masked by `finishScore`, softmax, and
  /// output = output * correction + P V.
  virtual mlir::LogicalResult update(Task &task, const KeyBlock &block) = 0;
  /// A piece of a row of scores, finished; rows as their scratch counts them.
  virtual mlir::Value loadScores(Task &task, mlir::Value row,
                                 mlir::Value column) = 0;
  /// Keeps a piece of a row of P; returns it as the product will see it,
  /// rounded to what it multiplies.
  virtual mlir::Value storeProbabilities(Task &task, mlir::Value row,
                                         mlir::Value column,
                                         mlir::Value piece) = 0;
};

std::unique_ptr<TileProduct> createFmaProduct(const CpuKernel &kernel);
std::unique_ptr<TileProduct> createDotProduct(const CpuKernel &kernel);
std::unique_ptr<TileProduct> createAmxProduct(const CpuKernel &kernel);
/// By the name in the tiling.
std::unique_ptr<TileProduct> createProduct(const CpuKernel &kernel);

/// The largest divisor of `value` that is at most `limit`.
int64_t divisorAtMost(int64_t value, int64_t limit);

/// Takes and makes scalars only, and has no region.
bool isScalarOp(mlir::Operation &op);
/// Clones the scalars of a block of the tiled form whose operands are there.
mlir::LogicalResult cloneScalars(Task &task, mlir::Block &block);
/// Those of a key block's masks, and which keys are seen at all.
mlir::LogicalResult cloneMaskScalars(Task &task);
/// Emits `body` once for blocks whose elements are tested against the masks
/// and once for those that need no test, behind the block's edge condition.
mlir::LogicalResult
branchOnEdge(Task &task,
             llvm::function_ref<mlir::LogicalResult(bool testElements)> body);
/// The score of the tiled form from its raw product, for one piece of a row.
mlir::FailureOr<mlir::Value> finishScore(Task &task, mlir::Value row,
                                         mlir::Value column, mlir::Value raw,
                                         bool testElements);
/// Visits `size` columns in pieces of `width`: a loop over the whole ones, and
/// what is left. `count` says how many columns of the piece there are.
void forEachPiece(
    Emitter &e, int64_t size, int64_t width,
    llvm::function_ref<void(mlir::Value column, int64_t count)> body);
/// The first `count` lanes of a vector; null for all of them.
mlir::Value firstLanes(Emitter &e, int64_t width, int64_t count);
/// A piece of a row of an operand view; columns past `count` and rows past the
/// view are zero.
mlir::Value loadRowPiece(Emitter &e, mlir::VectorType type, mlir::Value view,
                         mlir::Value row, mlir::Value column, int64_t count);
/// Writes the first `count` lanes.
void storeRowPiece(Emitter &e, mlir::Value piece, mlir::Value view,
                   mlir::Value row, mlir::Value column, int64_t count);
/// Words of two elements of `width` keys, turned: row p is word p from `d` on,
/// zero past `count` elements.
mlir::Value transposeWords(Emitter &e, mlir::Value view, mlir::Value firstKey,
                           int64_t width, mlir::Value d, int64_t count);
/// Calls `store` for each word p: the elements 2p and 2p + 1 of `width` keys.
/// Words come in groups of `width`, zero past `size`.
void packKeyPairs(
    Emitter &e, mlir::Value view, mlir::Value firstKey, int64_t width,
    int64_t size,
    llvm::function_ref<void(mlir::Value word, mlir::Value pairs)> store);
/// A piece of the rows of two keys, interleaved.
mlir::Value loadValuePairs(Emitter &e, mlir::VectorType half, mlir::Value view,
                           mlir::Value key, mlir::Value column, int64_t count);
/// The pairs with zeros for the keys that no row sees.
mlir::Value hideUnseenPairs(Emitter &e, mlir::Value pairs, mlir::Value seen,
                            mlir::Value firstKey);
/// The length of the sequence that the view of an operand is cut from.
mlir::Value sequenceLength(Emitter &e, mlir::vector::TransferReadOp read);
/// m, alpha, p and l of rows of one key block (the online softmax).
mlir::LogicalResult updateSoftmax(Task &task, TileProduct &product,
                                  const KeyBlock &block, const Rows &rows);
/// A piece of P by the reference that stays behind, from a finished score.
mlir::FailureOr<mlir::Value> staleProbability(Task &task, mlir::Value row,
                                              mlir::Value column,
                                              mlir::Value score);
/// The stale update: `keepReference` makes P by `staleProbability` and adds it
/// up in `blockSum`; where the sums call for it, `followMaximum` does the block
/// again.
mlir::LogicalResult
updateStale(Task &task, const KeyBlock &block, const Rows &rows,
            llvm::function_ref<mlir::LogicalResult()> keepReference,
            llvm::function_ref<mlir::LogicalResult()> followMaximum);
/// State before the sweep, and output and lse after it.
mlir::LogicalResult initializeState(Task &task);
mlir::LogicalResult writeResults(Task &task);

/// Replaces the math.exp2 ops below `root` by polynomials whose error a result
/// of type `precision` hides.
void approximateExp2(mlir::Operation *root, mlir::Type precision,
                     const TargetDescription &target);
/// Whether the chip has the instructions of AVX512-BF16, or NEON's: dot
/// products of pairs, and f32 to bf16 in one.
bool roundsBf16(const TargetDescription &target);
/// Replaces roundings to bf16 below `root` by integer arithmetic: without an
/// instruction LLVM would call a function for each element.
mlir::LogicalResult roundBf16InSoftware(mlir::Operation *root);
/// Visits `vectors` columns of `width` in groups of at most `most`, of nearly
/// equal width: 5 as 3 + 2, not 4 + 1. `body` gets the first column and the
/// vectors of a group, once for each width.
void forEachColumnGroup(
    Emitter &e, int64_t vectors, int64_t width, int64_t most,
    llvm::function_ref<void(mlir::Value column, int64_t vectors)> body);
/// One dynamically scheduled omp.wsloop iteration for each number below
/// `count`.
void emitParallelLoop(Emitter &e, mlir::Value count,
                      llvm::function_ref<void(mlir::Value)> body);

} // namespace attn::cpu

#endif // ATTN_LIB_CONVERSION_TILEDTOCPU_CPUKERNEL_H
