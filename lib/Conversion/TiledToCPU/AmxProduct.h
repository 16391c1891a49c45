//===- AmxProduct.h - Tile products by AMX tile registers -------*- C++ -*-===//
//
// All operands are kept as 1 KiB tiles, contiguous in memory:
//
//   query   [row tile][D / 32]           row: 32 consecutive d of one query
//   keys    [head x block][key / 16][D / 32]   row p: the d pair 2p of 16 keys
//   values  [head x block][key / 32][Dv / 16]  row p: the key pair 2p of 16
//                                              columns
//   S       [row tile][key / 16]         f32
//   P       [row tile][key / 32]         row: 32 consecutive keys of one query
//
// AmxPacking.cpp makes the first three, AmxProduct.cpp multiplies.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_TILEDTOCPU_AMXPRODUCT_H
#define ATTN_LIB_CONVERSION_TILEDTOCPU_AMXPRODUCT_H

#include "AmxTiles.h"

namespace attn::cpu {

class AmxProduct : public TileProduct {
public:
  explicit AmxProduct(const CpuKernel &kernel);

  void allocate(Emitter &e, mlir::Value heads) override;
  void deallocate(Emitter &e) override;
  mlir::Value keyBlocks() const override { return blocks; }
  void beginThread(Emitter &e) override;
  void endThread(Emitter &e) override { releaseTiles(e); }
  void pack(Emitter &e, mlir::IRMapping &scalars, mlir::Value head,
            mlir::Value block) override;
  void loadQuery(Task &task) override;
  mlir::LogicalResult update(Task &task, const KeyBlock &block) override;
  mlir::Value loadScores(Task &task, mlir::Value row,
                         mlir::Value column) override;
  mlir::Value storeProbabilities(Task &task, mlir::Value row,
                                 mlir::Value column,
                                 mlir::Value piece) override;

private:
  void packKeys(Emitter &e, mlir::Value view, mlir::Value position,
                mlir::Value firstKey);
  void packValues(Emitter &e, mlir::Value view, mlir::Value position,
                  mlir::Value firstKey);
  mlir::Value valueTilesOf(Task &task, mlir::Value position);
  void copySeenValues(Task &task, mlir::Value position);

  bool queryStays() const { return rowStep * depthTiles <= 4; }
  void loadQueryTiles(Task &task, mlir::Value row);
  void multiplyScores(Task &task, mlir::Value position, mlir::Value row,
                      mlir::Value key, mlir::Value place);
  void multiplyKeyTile(Task &task, mlir::Value position, mlir::Value keyTile,
                       mlir::Value placeTile);
  void multiplyKeyTiles(Task &task, mlir::Value position, mlir::Value row,
                        mlir::Value keyTile, mlir::Value placeTile);
  mlir::Value scoreTile(Emitter &e, int64_t rowTile, mlir::Value keyTile);

  mlir::LogicalResult updateRows(Task &task, const KeyBlock &block,
                                 mlir::Value position, mlir::Value row);
  mlir::LogicalResult followMaximum(Task &task, const KeyBlock &block,
                                    mlir::Value position, mlir::Value row);
  mlir::LogicalResult finishRows(Task &task, const KeyBlock &block,
                                 mlir::Value row);
  void rescale(Task &task, mlir::Value row);
  mlir::LogicalResult keepReference(Task &task, const KeyBlock &block,
                                    mlir::Value position, mlir::Value row);
  mlir::LogicalResult finishPatchRow(Task &task, mlir::Value firstRow,
                                     mlir::Value row, mlir::Value column,
                                     bool testElements);
  void multiplyOutput(Task &task, const KeyBlock &block, mlir::Value values,
                      mlir::Value row, mlir::Value column, int64_t columns);
  void multiplyRows(Task &task, const KeyBlock &block, mlir::Value values,
                    mlir::Value row);

  const CpuKernel &kernel;
  int64_t depthTiles, valueTiles, rowStep;
  mlir::Value packedKeys, packedValues, blocks;
  mlir::Value isSpecial; // [head x block], i8: some value is infinite or NaN
  // Scratch of the thread; S and P of the rows at hand.
  mlir::Value query, scores, probabilities, seenValues;
};

} // namespace attn::cpu

#endif // ATTN_LIB_CONVERSION_TILEDTOCPU_AMXPRODUCT_H
