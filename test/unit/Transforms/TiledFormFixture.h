//===- TiledFormFixture.h - Runs a tiled problem against the oracle -*- C++
//-*-//
//
// A problem goes through attn-tile (from tensors, through one-shot
// bufferization), is run by the interpreter, and is compared with the oracle:
// outputs within the error bound, rows without keys exactly, NaN exactly where
// the oracle has it. Keys and values that no query sees are NaN, gaps between
// elements are NaN, destinations are NaN before; inputs and gaps must be
// unchanged after.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TEST_UNIT_TRANSFORMS_TILEDFORMFIXTURE_H
#define ATTN_TEST_UNIT_TRANSFORMS_TILEDFORMFIXTURE_H

#include "CheckedCase.h"
#include "attn/IR/TargetDescription.h"
#include "mlir/IR/MLIRContext.h"
#include "gtest/gtest.h"
#include <optional>

namespace attn {

class TiledFormFixture : public ::testing::Test {
protected:
  TiledFormFixture();

  /// Runs one problem and says in one line what is wrong with it, or nothing.
  /// `vote`, where it is given, stands in for every vote of the tiled form;
  /// `slack` multiplies the error bounds.
  std::string check(AttentionCase c, std::mt19937_64 &random,
                    std::optional<bool> vote = std::nullopt, double slack = 1);

  /// Gives the problem the planner's tiling for the target, if it has one: a
  /// chip may lack the element type, or memory for a tile.
  bool plan(AttentionCase &c, const TargetDescription &target);

  mlir::MLIRContext context;

private:
  std::string tile(mlir::ModuleOp module, bool isTensor);
};

} // namespace attn

#endif // ATTN_TEST_UNIT_TRANSFORMS_TILEDFORMFIXTURE_H
