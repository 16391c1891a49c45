//===- SizeExpression.cpp - Formulas over the sizes of a launch -----------===//

#include "attn/Artifact/SizeExpression.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include <algorithm>

using namespace llvm;
using namespace attn;

/// Descriptions come from files: bound the recursion that they can cause.
static constexpr unsigned kMaxDepth = 64;

bool attn::isSizeName(StringRef name) {
  return !name.empty() && (isAlpha(name.front()) || name.front() == '_') &&
         all_of(name, [](char c) { return isAlnum(c) || c == '_'; });
}

namespace {
using Wide = __int128;

/// Recursive descent over the text. Arithmetic is done in 128 bits and each
/// result checked to fit 64, so no step can overflow unseen.
class Evaluator {
public:
  Evaluator(StringRef text, const SizeMap &sizes)
      : text(text), rest(text), sizes(sizes) {}

  Expected<int64_t> run() {
    Expected<int64_t> value = sum(0);
    if (value && !rest.ltrim().empty())
      return fail("unexpected '" + rest.ltrim() + "'");
    return value;
  }

private:
  Error fail(const Twine &what) {
    return createStringError("size expression '" + text + "': " + what);
  }

  Expected<int64_t> narrow(Wide value) {
    if (value != static_cast<Wide>(static_cast<int64_t>(value)))
      return fail("the value does not fit 64 bits");
    return static_cast<int64_t>(value);
  }

  bool take(char c) {
    rest = rest.ltrim();
    return rest.consume_front(StringRef(&c, 1));
  }

  Expected<int64_t> sum(unsigned depth) {
    Expected<int64_t> left = product(depth);
    while (left) {
      bool isPlus = take('+');
      if (!isPlus && !take('-'))
        break;
      Expected<int64_t> right = product(depth);
      if (!right)
        return right;
      left = narrow(isPlus ? Wide(*left) + *right : Wide(*left) - *right);
    }
    return left;
  }

  Expected<int64_t> product(unsigned depth) {
    Expected<int64_t> left = factor(depth);
    while (left) {
      bool isTimes = take('*'), isOver = !isTimes && take('/');
      if (!isTimes && !isOver && !take('%'))
        break;
      Expected<int64_t> right = factor(depth);
      if (!right)
        return right;
      if (!isTimes && (*left < 0 || *right <= 0))
        return fail("division needs a non-negative and a positive number");
      left = narrow(isTimes  ? Wide(*left) * *right
                    : isOver ? *left / *right
                             : *left % *right);
    }
    return left;
  }

  Expected<int64_t> factor(unsigned depth) {
    if (depth > kMaxDepth)
      return fail("nested too deeply");
    if (take('-')) {
      Expected<int64_t> value = factor(depth + 1);
      return value ? narrow(-Wide(*value)) : std::move(value);
    }
    if (take('(')) {
      Expected<int64_t> value = sum(depth + 1);
      if (value && !take(')'))
        return fail("expected ')'");
      return value;
    }
    rest = rest.ltrim();
    StringRef word =
        rest.take_while([](char c) { return isAlnum(c) || c == '_'; });
    rest = rest.drop_front(word.size());
    if (!word.empty() && isDigit(word.front())) {
      int64_t value;
      if (word.getAsInteger(10, value))
        return fail("'" + word + "' is no 64-bit number");
      return value;
    }
    if (!word.empty() && take('('))
      return call(word, depth + 1);
    auto size = sizes.find(word);
    if (size == sizes.end())
      return fail(word.empty() ? Twine("expected a number or a size")
                               : "unknown size '" + word + "'");
    return size->second;
  }

  Expected<int64_t> call(StringRef function, unsigned depth) {
    SmallVector<int64_t, 3> args;
    do {
      Expected<int64_t> arg = sum(depth);
      if (!arg)
        return arg;
      args.push_back(*arg);
    } while (take(','));
    if (!take(')'))
      return fail("expected ')'");
    if (function == "min" && args.size() == 2)
      return std::min(args[0], args[1]);
    if (function == "max" && args.size() == 2)
      return std::max(args[0], args[1]);
    if (function == "ceildiv" && args.size() == 2) {
      if (args[0] < 0 || args[1] <= 0)
        return fail("division needs a non-negative and a positive number");
      return args[0] / args[1] + (args[0] % args[1] != 0);
    }
    if (function == "clamped_sum" && args.size() == 3)
      return clampedSum(args[0], args[1], std::max<int64_t>(args[2], 0));
    return fail("no function " + function + " of " + Twine(args.size()) +
                " arguments");
  }

  /// The terms are 0 up to `low`, rise by one up to `high`, then stay at
  /// `limit`.
  Expected<int64_t> clampedSum(int64_t n, int64_t first, int64_t limit) {
    Wide count = std::max<int64_t>(n, 0);
    Wide low = std::clamp<Wide>(-Wide(first), 0, count);
    Wide high = std::clamp<Wide>(Wide(limit) - first, low, count);
    // Four factors of 63 bits would leave even 128: bound the rising part.
    if (high > (Wide(1) << 62))
      return fail("the value does not fit 64 bits");
    Wide rising =
        (high - low) * first + (high * (high - 1) - low * (low - 1)) / 2;
    return narrow(rising + (count - high) * limit);
  }

  StringRef text, rest;
  const SizeMap &sizes;
};
} // namespace

Expected<int64_t> attn::evaluateSize(StringRef expression,
                                     const SizeMap &sizes) {
  return Evaluator(expression, sizes).run();
}
