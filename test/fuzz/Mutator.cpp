//===- Mutator.cpp - Module texts with a few tokens changed ---------------===//

#include "Mutator.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"
#include <algorithm>
#include <set>

using namespace attn::fuzz;

/// Words with their sigil, numbers, strings, blanks, and single characters; the
/// `x` between the sizes and the type of a shape stands alone.
static std::vector<std::string> tokenize(llvm::StringRef text) {
  std::vector<std::string> tokens;
  auto isWord = [](char c) { return llvm::isAlnum(c) || c == '_' || c == '.'; };
  auto isNoDigit = [](char c) { return !llvm::isDigit(c); };
  auto isNoSpace = [](char c) { return !llvm::isSpace(c); };
  while (!text.empty()) {
    char first = text.front();
    size_t end = 1;
    if (first == '"')
      end = text.find('"', 1) + 1;
    else if (llvm::isDigit(first))
      end = text.find_if(isNoDigit);
    else if (llvm::isSpace(first))
      end = text.find_if(isNoSpace);
    else if (first != 'x' && (isWord(first) || first == '%' || first == '#'))
      end = text.find_if_not(isWord, 1);
    // What runs to the end, or is a quote that nobody closes.
    end = end == 0 ? 1 : std::min(end, text.size());
    tokens.push_back(text.take_front(end).str());
    text = text.drop_front(end);
  }
  return tokens;
}

Mutator::Mutator(const std::vector<std::string> &texts) {
  std::set<std::string> words;
  for (const std::string &text : texts) {
    if (text.empty())
      continue;
    seeds.push_back(tokenize(text));
    words.insert(seeds.back().begin(), seeds.back().end());
  }
  dictionary.assign(words.begin(), words.end());
}

/// Sizes, most of which a shape may have.
static const char *const kSizes[] = {"0", "1", "2", "3", "5", "8", "64", "?"};

/// The numbers that programs get wrong.
static const char *const kNumbers[] = {"0",
                                       "1",
                                       "2",
                                       "3",
                                       "-1",
                                       "7",
                                       "64",
                                       "255",
                                       "65536",
                                       "-2147483649",
                                       "4294967296",
                                       "9223372036854775807",
                                       "9223372036854775808",
                                       "-9223372036854775808",
                                       "1.0",
                                       "0x7FF8000000000000",
                                       "0xFFF0000000000000",
                                       "1.0e308",
                                       "?"};

static const char *const kTypes[] = {
    "f16", "bf16", "f32", "f64",   "f8E4M3FN",     "i1",
    "i8",  "i32",  "i64", "index", "complex<f32>", "none"};

static const char *const kContainers[] = {"tensor", "memref", "vector",
                                          "tuple"};

void Mutator::change(Tokens &tokens, Random &random) const {
  if (tokens.empty())
    return;
  auto below = [&](size_t bound) -> size_t { return random() % bound; };
  auto oneOf = [&](auto &list) -> std::string {
    return list[below(std::size(list))];
  };
  // A place that holds a token of a kind: most tokens are blanks and
  // punctuation.
  auto find = [&](auto isKind) {
    size_t from = below(tokens.size());
    auto isHere = [&](const std::string &t) {
      return isKind(llvm::StringRef(t));
    };
    auto found = std::find_if(tokens.begin() + from, tokens.end(), isHere);
    return found == tokens.end() ? from : size_t(found - tokens.begin());
  };
  // There, or everywhere at once: a module whose types agree reaches the
  // verifier.
  auto replace = [&](size_t place, const std::string &by) {
    std::string old = tokens[place];
    if (below(4) == 0)
      tokens[place] = by;
    else
      std::replace(tokens.begin(), tokens.end(), old, by);
  };
  auto isNumber = [](llvm::StringRef t) { return llvm::isDigit(t.front()); };
  auto isName = [](llvm::StringRef t) { return t.front() == '%'; };
  auto isType = [](llvm::StringRef t) { return llvm::is_contained(kTypes, t); };
  auto isContainer = [](llvm::StringRef t) {
    return llvm::is_contained(kContainers, t);
  };

  size_t at = below(tokens.size());
  switch (below(12)) {
  case 0:
    tokens.erase(tokens.begin() + at);
    break;
  case 1:
    tokens.insert(tokens.begin() + at, std::string(tokens[at]));
    break;
  case 2:
    std::swap(tokens[at], tokens[below(tokens.size())]);
    break;
  case 3:
    tokens[at] = oneOf(dictionary);
    break;
  case 4:
  case 5:
  case 6:
    replace(find(isNumber), below(2) ? oneOf(kSizes) : oneOf(kNumbers));
    break;
  case 7:
  case 8:
    replace(find(isType), oneOf(kTypes));
    break;
  case 9:
    replace(find(isContainer), oneOf(kContainers));
    break;
  case 10:
    tokens[find(isName)] = tokens[find(isName)];
    break;
  case 11: {
    // A stretch of another module in place of one here.
    const Tokens &other = seeds[below(seeds.size())];
    size_t from = below(other.size());
    size_t count = std::min(below(24) + 1, other.size() - from);
    size_t drop = std::min(below(24), tokens.size() - at);
    tokens.erase(tokens.begin() + at, tokens.begin() + at + drop);
    tokens.insert(tokens.begin() + at, other.begin() + from,
                  other.begin() + from + count);
    break;
  }
  }
}

std::string Mutator::mutate(uint64_t seed, uint64_t index) const {
  std::seed_seq sequence{seed, index};
  Random random(sequence);
  Tokens tokens = seeds[random() % seeds.size()];
  for (uint64_t changes = 1 + random() % 3; changes != 0; --changes)
    change(tokens, random);
  return llvm::join(tokens, "");
}
