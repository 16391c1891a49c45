//===- Provocation.h - Data that leaves the range of a reference *- C++ -*-===//
//
// What a softmax reference that stays behind has to notice: keys that grow
// along the sweep, first blocks that are hidden or nearly so, huge and tiny
// scores, sinks that dominate, infinities and NaN.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TEST_SUPPORT_PROVOCATION_H
#define ATTN_TEST_SUPPORT_PROVOCATION_H

#include "AttentionCase.h"
#include <random>

namespace attn {

/// Changes the data of a problem; says how.
std::string provoke(AttentionCase &c, std::mt19937_64 &random);

/// A few provoked problems leave every softmax beyond the bound, the exact one
/// too, or another one by little: rows of two keys alone, say, where each
/// rounding shows. They must remain few, of so many that were checked.
constexpr double kProvokedSlack = 1.5;
constexpr int64_t mostBeyond(int64_t checked) { return 3 + checked / 20; }

} // namespace attn

#endif // ATTN_TEST_SUPPORT_PROVOCATION_H
