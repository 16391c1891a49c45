//===- SpirvModule.cpp - What a runtime reads of SPIR-V -------------------===//
//
// A module is a header of five words and instructions, the first word of each
// being length * 65536 + opcode (SPIR-V specification, "Physical Layout").
//
//===----------------------------------------------------------------------===//

#include "SpirvModule.h"
#include "Requirements.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Endian.h"
#include <optional>

using namespace llvm;
using namespace attn;
using namespace attn::vulkan;

static constexpr uint32_t kMagic = 0x07230203;
static constexpr size_t kHeaderWords = 5;
static constexpr uint32_t kOpEntryPoint = 15, kOpExecutionMode = 16,
                          kOpFunctionEnd = 56;
static constexpr uint32_t kGLCompute = 5, kLocalSize = 17;

/// A literal string ends at its first zero byte, within `words`.
static std::string textOf(ArrayRef<uint32_t> words) {
  std::string text;
  for (uint32_t word : words)
    for (int byte = 0; byte < 4; ++byte) {
      char c = char(word >> (8 * byte) & 0xFF);
      if (!c)
        return text;
      text += c;
    }
  return text;
}

namespace {
/// What is looked for.
struct EntryPoint {
  std::optional<uint32_t> function;
  std::vector<std::string> others;
  std::optional<std::array<uint32_t, 3>> localSize;
};
} // namespace

/// Entry points come before execution modes.
static void look(ArrayRef<uint32_t> instruction, StringRef entry,
                 EntryPoint &found) {
  uint32_t opcode = instruction[0] & 0xFFFF;
  if (opcode == kOpEntryPoint && instruction.size() > 3 &&
      instruction[1] == kGLCompute) {
    std::string name = textOf(instruction.drop_front(3));
    if (name == entry)
      found.function = instruction[2];
    else
      found.others.push_back(std::move(name));
  }
  if (opcode == kOpExecutionMode && instruction.size() == 6 &&
      found.function == instruction[1] && instruction[2] == kLocalSize)
    found.localSize = {instruction[3], instruction[4], instruction[5]};
}

Expected<std::vector<uint32_t>>
attn::vulkan::readModule(const Artifact &artifact) {
  const LaunchDescription &launch = artifact.launch;
  auto fail = [&](const Twine &what) {
    return createStringError("cannot load kernel '" + launch.name +
                             "': " + what);
  };
  StringRef code = artifact.code;
  std::vector<uint32_t> words(code.size() / 4);
  for (size_t i = 0; i < words.size(); ++i)
    words[i] = support::endian::read32le(code.data() + 4 * i);
  if (words.size() < kHeaderWords || words[0] != kMagic)
    return fail("the code is no SPIR-V module; compile it again");
  EntryPoint found;
  size_t position = kHeaderWords;
  uint32_t last = 0;
  while (position < words.size()) {
    size_t length = words[position] >> 16;
    if (!length || length > words.size() - position)
      break;
    look(ArrayRef(words).slice(position, length), launch.entry, found);
    last = words[position] & 0xFFFF;
    position += length;
  }
  if (position != words.size() || code.size() % 4 || last != kOpFunctionEnd)
    return fail("the SPIR-V module is cut short or damaged at byte " +
                Twine(4 * position) + "; compile it again");
  if (!found.function)
    return fail("the SPIR-V module has no compute entry '" + launch.entry +
                "', but '" + join(found.others, "', '") + "'");
  for (int d : {0, 1, 2}) {
    Expected<int64_t> threads = constantSize(launch.workgroup[d]);
    if (!threads)
      return threads.takeError();
    if (found.localSize && (*found.localSize)[d] != *threads)
      return fail("the SPIR-V module has a local size of " +
                  Twine((*found.localSize)[d]) + " along dimension " +
                  Twine(d) + ", the launch description " + Twine(*threads));
  }
  return words;
}
