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

  /// Runs the passes up to attn-tile; says what failed, or nothing.
  std::string tile(mlir::ModuleOp module, bool isTensor);
  /// An operand as it is passed to the tiled form of a tensor or memref op.
  static HostMemRef asArgument(CaseOperand operand, bool isTensor);
  /// Runs the module's function on its inputs and destinations, which hold NaN.
  /// Says in one line what went wrong: an error, a changed input, a write
  /// beside a destination.
  std::string runChecked(mlir::ModuleOp module,
                         const std::vector<HostMemRef> &inputs,
                         std::vector<HostMemRef> &destinations,
                         bool reverseParallel);

  mlir::MLIRContext context;
};

} // namespace attn

#endif // ATTN_TEST_UNIT_TRANSFORMS_TILEDFORMFIXTURE_H
