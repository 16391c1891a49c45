//===- Wgmma.h - Tile products of a warpgroup -------------------*- C++ -*-===//
//
// wgmma.mma_async multiplies 64 rows by n columns over a depth of 16 while the
// warpgroup goes on. A whole tile product is one piece of PTX here. Operands in
// shared memory are named by descriptors (PTX ISA, "Asynchronous warpgroup
// level matrix shared memory layout"), for the 128-byte swizzle:
//
//   rows along the depth (Q, K): groups of 8 rows are 1024 bytes apart; 16 of
//     depth are 32 bytes, within the row of a chunk
//   depth along the rows (V): 16 of depth are 2048 bytes; 64 columns further is
//     the next chunk, at the leading offset
//
// The registers of a running product must not be touched. `wait` takes them
// and gives them back, so that nothing that reads them moves above it.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_TILEDTOHOPPER_WGMMA_H
#define ATTN_LIB_CONVERSION_TILEDTOHOPPER_WGMMA_H

#include "../Common/AccumulatorLayout.h"

namespace attn::hopper {

/// The low word of a descriptor: the address in units of 16 bytes.
mlir::Value descriptor(GpuEmitter &e, mlir::Value address);

/// scores = Q K^T: 64 x `columns` over `depth`. The tiles are chunks of 64
/// of depth, `rowsOfQuery` and `columns` rows high.
Fragment multiplyQueryKey(GpuEmitter &e, mlir::Value query, mlir::Value key,
                          int64_t columns, int64_t depth, int64_t rowsOfQuery,
                          mlir::FloatType type);
/// acc = acc + P V: 64 x `columns` over `depth` keys. With `ones`, the
/// descriptor of a tile of ones behind the values in memory, eight columns of
/// acc behind the others become acc + P 1, a row sum each.
Fragment multiplyProbabilitiesValue(GpuEmitter &e, Fragment acc,
                                    const Registers &probabilities,
                                    mlir::Value value, int64_t columns,
                                    int64_t depth, mlir::FloatType type,
                                    mlir::Value ones = {});
/// 16 keys of ones in a chunk: any swizzle of it is itself.
constexpr int64_t kOnesBytes = 2048;
void storeOnes(GpuEmitter &e, mlir::Value address, mlir::Value thread);

/// A^T B: 64 x `columns` over `depth`. A is a chunk whose rows go along the
/// depth, B lies like the keys above, `rowsOfB` rows high.
Fragment multiplyTransposed(GpuEmitter &e, mlir::Value a, mlir::Value b,
                            int64_t columns, int64_t depth, int64_t rowsOfB,
                            mlir::FloatType type);

void fence(GpuEmitter &e);
void commit(GpuEmitter &e);
/// Waits until at most `pending` committed groups run.
void wait(GpuEmitter &e, int64_t pending, llvm::ArrayRef<Fragment *> fragments);

} // namespace attn::hopper

#endif // ATTN_LIB_CONVERSION_TILEDTOHOPPER_WGMMA_H
