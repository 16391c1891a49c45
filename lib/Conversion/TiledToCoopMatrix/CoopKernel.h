//===- CoopKernel.h - One attention kernel of subgroups ---------*- C++ -*-===//
//
// What the pieces of the mapping share. Each idea has its file:
//
//   TiledToCoopMatrix.cpp  the pass: one kernel from one tiled form
//   CoopKernel.cpp         what can be mapped, what a thread knows
//   Matrices.cpp           cooperative matrices and shared memory
//   MatrixLayout.cpp       which element of a matrix is which
//   LayoutCheck.cpp        a kernel that asks the device whether that is so
//   TileCopy.cpp           tiles from main memory to shared memory
//   MatrixSoftmax.cpp      the online softmax on what a thread holds
//   SubgroupScalars.h      scalars of a task, reduced by a subgroup
//   SeenKeys.cpp           which keys and blocks some row sees
//   Sweep.cpp              the sweep of a workgroup
//   Results.cpp            output and lse
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_TILEDTOCOOPMATRIX_COOPKERNEL_H
#define ATTN_LIB_CONVERSION_TILEDTOCOOPMATRIX_COOPKERNEL_H

#include "../Common/FragmentSoftmax.h"
#include "../Common/KernelOutline.h"
#include "MatrixLayout.h"
#include "attn/Target/CoopMatrixTiles.h"
#include <deque>

namespace attn::coop {

struct CoopKernel {
  TiledForm &form;
  CoopMatrixTiles tiles;
  /// How elements lie on a device that agrees, if the target says that.
  std::optional<KnownLayout> layout;

  /// Whether left sides lie in the threads as accumulators do.
  bool isLayoutShared() const {
    return form.target.has("matrix_layout_shared");
  }
  /// Values of unseen keys may not reach the product.
  bool dropsUnseen() const { return form.value && form.value.getMask(); }

  /// An error when the tiling does not describe a kernel of subgroups.
  static mlir::FailureOr<CoopKernel> plan(TiledForm &form);
};

/// What a thread knows once it runs; i32 unless said.
struct Thread {
  GpuEmitter &e;
  const CoopKernel &kernel;
  mlir::gpu::GPUModuleOp module;
  /// Null where the layout of matrices is not to be relied on.
  const KnownLayout *layout;
  RowSharing sharing;
  Matrices matrices;
  /// Units of 16 bytes for tiles, and f32 words to reduce rows in.
  MemoryArray tiles, reduction;
  /// i32 words: keys that some row sees, a bit each, and a vote.
  MemoryArray seen;
  /// Thread of the workgroup, lane, subgroup of the workgroup.
  mlir::Value id, lane, subgroup;
  /// Where the subgroup's matrix lies in `reduction`.
  mlir::Value reductionAt;
  /// Row and column of each element that the thread holds of an accumulator.
  Values elementRows, elementColumns;

  Thread(GpuEmitter &e, const CoopKernel &kernel, mlir::gpu::GPUModuleOp module,
         const KnownLayout *layout);

private:
  void findElements();
  void placeElements();
};

/// 16 rows of a subgroup: the unit of the products and of the softmax.
struct Slab {
  mlir::IRMapping scalars;
  TileSlicer slicer;
  MatrixLayout layout;

  Slab(Thread &thread, int64_t number);
};

/// m and l of a slab, for each row that a thread knows to hold elements of: m
/// is the row's, l the sum over the thread's elements of it.
struct MatrixRows {
  Values max, sum;
};

class MatrixSoftmax {
public:
  MatrixSoftmax(Thread &thread, Slab &slab)
      : thread(thread), e(thread.e), form(thread.kernel.form), slab(slab),
        layout(slab.layout) {}

  /// m and l before the first block.
  mlir::FailureOr<MatrixRows> initial();
  /// Whether masks are tested in blocks on an edge alone.
  static bool testsSomeBlocks(TiledForm &form) {
    return form.masked &&
           form.rowMax->getOperand(0) == form.masked->getResult(0);
  }
  /// The scores of a block from the raw product: score region and masks, the
  /// latter only in blocks on an edge. There are none where not `isMasked`.
  /// `whenTested` is called where masks are tested.
  mlir::FailureOr<Fragments>
  finishScores(const Fragments &raw, bool isMasked,
               llvm::function_ref<mlir::LogicalResult()> whenTested);
  /// Compares the scores of a block with the references of `rows`: whether one
  /// of the thread's elements has outgrown its row's (i1).
  mlir::FailureOr<mlir::Value> compare(const Fragments &scores,
                                       const MatrixRows &rows);
  /// Makes the greatest scores the references, and rescales l and the matrices
  /// `acc`; the subgroup does so together.
  mlir::LogicalResult correct(MatrixRows &rows, Values &acc);
  /// The probabilities of the block, which are added to l.
  mlir::FailureOr<Fragments> exponentiate(MatrixRows &rows);
  /// m, l and acc after the last block, for the ops behind the sweep.
  void finish(MatrixRows rows, const Values &acc);

private:
  enum class Combine { Maximum, Sum };
  /// Combines over all elements of a row; the subgroup does so together.
  Values combineRows(const Values &rows, Combine kind);
  Values combineInMemory(const Values &elements, Combine kind);
  /// Combines a thread's elements of a tile into its rows.
  Values gather(const Values &rows, const Fragments &tile, Combine kind);
  mlir::Value combine(Combine kind, mlir::Value x, mlir::Value y);

  Thread &thread;
  GpuEmitter &e;
  TiledForm &form;
  Slab &slab;
  MatrixLayout &layout;
  /// The maxima of the thread's elements and of the references.
  Values partial;
};

/// The argument of the kernel that a view is a part of, and whether all its
/// rows begin at whole units of 16 bytes, as far as types tell.
mlir::BlockArgument argumentOf(mlir::Value view);
bool hasWholeUnits(mlir::BlockArgument argument);

/// A matrix of the tiled form in main memory, for one task.
class TileCopy {
public:
  TileCopy(Thread &thread, const CoopMatrixTiles::Tile &tile,
           mlir::vector::TransferReadOp read, const mlir::IRMapping &scalars);

  /// This thread's units of the tile from `firstRow` (i32) of the view on. Rows
  /// past the end and columns behind the last are zero.
  Values fetch(mlir::Value firstRow);
  /// Writes them to shared memory, from unit `at` of `Thread::tiles` on; zeros
  /// for rows (i32) that are not seen.
  using IsSeen =
      llvm::function_ref<mlir::FailureOr<mlir::Value>(mlir::Value row)>;
  mlir::LogicalResult store(const Values &units, int64_t at,
                            IsSeen isSeen = {});

private:
  mlir::Value fetchUnit(mlir::Value row, mlir::Value unit);
  mlir::Value fetchHalves(mlir::Value at, mlir::Value firstColumn);
  int64_t unitsOfRow() const { return tile.columns / CoopMatrixTiles::kUnit; }
  int64_t total() const { return tile.rows * unitsOfRow(); }

  Thread &thread;
  GpuEmitter &e;
  const CoopMatrixTiles::Tile &tile;
  int64_t columns;
  bool isWhole, isAligned = false;
  /// Its number among those of the kernel.
  unsigned argument = 0;
  /// i32, in elements: of row 0, from row to row; rows of the view.
  mlir::Value base, stride, rows;
  /// i1: rows are whole units, where that is not known before.
  mlir::Value turnsOutAligned;
};

/// Which keys of a block some row of the task sees, and which blocks have such
/// a key, where that is not known from positions and lengths.
class SeenKeys {
public:
  SeenKeys(Thread &thread, std::deque<Slab> &slabs)
      : thread(thread), e(thread.e), form(thread.kernel.form), slabs(slabs) {}

  /// Whether values are left out in blocks that are tested, or not.
  bool dropValues(bool isTested) const;
  /// Forgets the block before; barriers in front and behind are the caller's.
  void clear();
  /// What the rows of a slab see; behind it lies a barrier.
  mlir::LogicalResult note(Slab &slab);
  /// Whether the key (i32) of the block is seen (i1).
  mlir::FailureOr<mlir::Value> isSeen(mlir::Value key);
  /// Whether any key is seen (i1); all threads ask together.
  mlir::FailureOr<mlir::Value> isAnySeen();

private:
  bool isTestedInBranch() const {
    return form.masked && form.masked->isAncestor(form.seen);
  }

  Thread &thread;
  GpuEmitter &e;
  TiledForm &form;
  std::deque<Slab> &slabs;
};

/// The sweep of a task, from the scalars of the task to the results of the
/// sweep, which `slabs` are bound to.
mlir::LogicalResult emitSweep(Thread &thread, mlir::IRMapping &scalars,
                              std::deque<Slab> &slabs);
/// Makes the kernel `name`, which asks the device whether matrices lie in its
/// threads as `kernel.layout` says.
void emitLayoutCheck(const CoopKernel &kernel, mlir::gpu::GPUModuleOp module,
                     llvm::StringRef name);
std::string layoutCheckName(llvm::StringRef kernel);

/// Writes output and lse of one task.
mlir::LogicalResult emitResults(Thread &thread, mlir::IRMapping &scalars,
                                std::deque<Slab> &slabs);

} // namespace attn::coop

#endif // ATTN_LIB_CONVERSION_TILEDTOCOOPMATRIX_COOPKERNEL_H
