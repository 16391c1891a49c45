//===- CommandLine.h - Options of a tool, or one line ------------*- C++
//-*-===//

#ifndef ATTN_TOOLS_COMMANDLINE_H
#define ATTN_TOOLS_COMMANDLINE_H

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/raw_ostream.h"

namespace attn {

/// False after wrong use, which LLVM tells in several lines: they become one.
inline bool parseCommandLine(int argc, char **argv, llvm::StringRef overview) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  if (llvm::cl::ParseCommandLineOptions(argc, argv, overview, &stream))
    return true;
  llvm::SmallVector<llvm::StringRef> lines;
  llvm::SplitString(text, lines, "\n");
  llvm::errs() << llvm::join(lines, " ") << "\n";
  return false;
}

} // namespace attn

#endif // ATTN_TOOLS_COMMANDLINE_H
