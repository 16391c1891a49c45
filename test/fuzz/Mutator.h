//===- Mutator.h - Module texts with a few tokens changed -------*- C++ -*-===//
//
// Deterministic: the same seeds and the same number give the same text, so a
// finding is named by its number.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TEST_FUZZ_MUTATOR_H
#define ATTN_TEST_FUZZ_MUTATOR_H

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace attn::fuzz {

class Mutator {
public:
  explicit Mutator(const std::vector<std::string> &texts);

  /// The text of number `index` in the run `seed`.
  std::string mutate(uint64_t seed, uint64_t index) const;

private:
  using Tokens = std::vector<std::string>;
  using Random = std::mt19937_64;

  void change(Tokens &tokens, Random &random) const;

  std::vector<Tokens> seeds;
  /// Every token that occurs in a seed.
  Tokens dictionary;
};

} // namespace attn::fuzz

#endif // ATTN_TEST_FUZZ_MUTATOR_H
