//===- TileBuilder.h - Indices that fold, values of a tile ------*- C++ -*-===//
//
// Two small vocabularies that the tiler is written in: index arithmetic that
// keeps constants constant, and values of a score tile that are held no larger
// than they vary.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_TRANSFORMS_TILEBUILDER_H
#define ATTN_LIB_TRANSFORMS_TILEBUILDER_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/DenseMap.h"

namespace attn {

/// A size or a position: a constant attribute or an `index` value.
using Index = mlir::OpFoldResult;

/// Along which sides of a score tile a value varies. A value that varies along
/// one of them is a vector of that length, a uniform one a scalar: a slope is
/// loaded once a tile and not once an element.
enum class Extent : unsigned {
  Uniform = 0,
  PerRow = 1,
  PerColumn = 2,
  Tile = 3
};

inline Extent join(Extent a, Extent b) {
  return static_cast<Extent>(static_cast<unsigned>(a) |
                             static_cast<unsigned>(b));
}
inline bool varies(Extent extent, Extent along) {
  return static_cast<unsigned>(extent) & static_cast<unsigned>(along);
}

struct TileValue {
  mlir::Value value;
  Extent extent = Extent::Uniform;

  explicit operator bool() const { return bool(value); }
};

/// Builds at one location, for score tiles of `rows` x `columns`.
class TileBuilder : public mlir::ImplicitLocOpBuilder {
public:
  /// Builds in front of `op`; constants go to the start of its block.
  TileBuilder(mlir::Operation *op, int64_t rows, int64_t columns);

  const int64_t rows, columns;

  //===--- Constants, one op each -----------------------------------------===//

  mlir::Value constant(mlir::TypedAttr attr);
  /// A scalar, or a splat of a vector type.
  mlir::Value constant(mlir::Type type, double value);
  mlir::Value constantInt(mlir::Type type, int64_t value);
  mlir::Value negativeInfinity(mlir::Type type);

  //===--- Index arithmetic -----------------------------------------------===//

  mlir::Value value(Index index);
  Index add(Index a, Index b);
  Index subtract(Index a, Index b);
  Index multiply(Index a, Index b);
  Index minimum(Index a, Index b);
  Index maximum(Index a, Index b);
  /// Of non-negative numbers.
  Index divide(Index a, Index b);
  Index divideUp(Index a, int64_t b);
  Index roundDown(Index a, int64_t b);

  //===--- Values of a tile -----------------------------------------------===//

  /// `element` itself for a uniform value.
  mlir::Type typeOf(Extent extent, mlir::Type element);
  mlir::Value broadcast(TileValue value, Extent extent);
  mlir::Value toTile(TileValue value) { return broadcast(value, Extent::Tile); }
  /// A vector of row values beside `width` columns.
  mlir::Value broadcastRows(mlir::Value rowValues, int64_t width);
  /// 0, 1, 2, ... along one side.
  TileValue step(Extent side, mlir::Type element);

  template <typename OpTy, typename... Args>
  TileValue combine(TileValue a, TileValue b, Args... leading) {
    Extent extent = join(a.extent, b.extent);
    mlir::Value lhs = broadcast(a, extent), rhs = broadcast(b, extent);
    return {OpTy::create(*this, leading..., lhs, rhs).getResult(), extent};
  }
  /// Where neither is empty, their conjunction; otherwise the other.
  TileValue conjunction(TileValue a, TileValue b);

  /// Converts a float, scalar or vector, to another width.
  mlir::Value castFloat(mlir::Value value, mlir::Type element);

private:
  mlir::Value constant(mlir::TypedAttr element, mlir::Type type);

  mlir::Operation *lastConstant = nullptr;
  mlir::Block *constantsBlock;
  llvm::DenseMap<mlir::Attribute, mlir::Value> constants;
};

/// Which factor of a product is transposed.
enum class Transposed { None, Left, Right };

/// acc + lhs * rhs, as vector.contract over the dimensions (i, j, k).
mlir::Value contract(TileBuilder &b, mlir::Value lhs, mlir::Value rhs,
                     mlir::Value acc, Transposed transposed,
                     llvm::StringRef role);

/// Says what a value is, see TiledForm.h.
void setRole(mlir::Operation *op, llvm::StringRef role);

} // namespace attn

#endif // ATTN_LIB_TRANSFORMS_TILEBUILDER_H
