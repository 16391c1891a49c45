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
struct EntryPoint {
  std::string name;
  uint32_t function;
  std::optional<std::array<uint32_t, 3>> localSize;
};
} // namespace

/// Entry points come before execution modes.
static void look(ArrayRef<uint32_t> instruction,
                 std::vector<EntryPoint> &entries) {
  uint32_t opcode = instruction[0] & 0xFFFF;
  if (opcode == kOpEntryPoint && instruction.size() > 3 &&
      instruction[1] == kGLCompute)
    entries.push_back(
        {textOf(instruction.drop_front(3)), instruction[2], std::nullopt});
  if (opcode == kOpExecutionMode && instruction.size() == 6 &&
      instruction[2] == kLocalSize)
    for (EntryPoint &entry : entries)
      if (entry.function == instruction[1])
        entry.localSize = {instruction[3], instruction[4], instruction[5]};
}

/// Says what is wrong with the module as the code of `kernel`, or nothing.
static Expected<std::string> findMismatch(ArrayRef<EntryPoint> entries,
                                          const KernelLaunch &kernel) {
  std::vector<std::string> names;
  for (const EntryPoint &entry : entries) {
    names.push_back(entry.name);
    if (entry.name != kernel.entry)
      continue;
    for (int d : {0, 1, 2}) {
      Expected<int64_t> threads = constantSize(kernel.workgroup[d]);
      if (!threads)
        return threads.takeError();
      if (entry.localSize && (*entry.localSize)[d] != *threads)
        return ("the SPIR-V module has a local size of " +
                Twine((*entry.localSize)[d]) + " along dimension " + Twine(d) +
                ", the launch description " + Twine(*threads))
            .str();
    }
    return "";
  }
  return "the SPIR-V module has no compute entry '" + kernel.entry +
         "', but '" + join(names, "', '") + "'";
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
  std::vector<EntryPoint> entries;
  size_t position = kHeaderWords;
  uint32_t last = 0;
  while (position < words.size()) {
    size_t length = words[position] >> 16;
    if (!length || length > words.size() - position)
      break;
    look(ArrayRef(words).slice(position, length), entries);
    last = words[position] & 0xFFFF;
    position += length;
  }
  if (position != words.size() || code.size() % 4 || last != kOpFunctionEnd)
    return fail("the SPIR-V module is cut short or damaged at byte " +
                Twine(4 * position) + "; compile it again");
  for (const KernelLaunch *kernel : launch.kernels()) {
    Expected<std::string> problem = findMismatch(entries, *kernel);
    if (!problem)
      return problem.takeError();
    if (!problem->empty())
      return fail(*problem);
  }
  return words;
}
