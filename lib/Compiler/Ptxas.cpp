//===- Ptxas.cpp - NVIDIA's assembler -------------------------------------===//

#include "Ptxas.h"
#include "attn/Artifact/File.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Program.h"

using namespace llvm;
using namespace attn;

static Expected<std::string> findPtxas() {
  std::vector<std::string> folders;
  if (std::optional<std::string> home = sys::Process::GetEnv("CUDA_HOME"))
    folders.push_back(*home + "/bin");
  folders.push_back("/usr/local/cuda/bin");
  for (const std::string &folder : folders)
    if (ErrorOr<std::string> found =
            sys::findProgramByName("ptxas", StringRef(folder)))
      return *found;
  if (ErrorOr<std::string> found = sys::findProgramByName("ptxas"))
    return *found;
  return createStringError(
      "no ptxas in $CUDA_HOME/bin, /usr/local/cuda/bin or PATH; set CUDA_HOME "
      "to a CUDA toolkit, or emit ptx, which needs none");
}

/// The first line that is an error, for a one-line message.
static StringRef firstError(StringRef report) {
  SmallVector<StringRef> lines;
  report.split(lines, '\n', -1, /*KeepEmpty=*/false);
  const StringRef *error =
      find_if(lines, [](StringRef line) { return line.contains("error"); });
  if (error != lines.end())
    return *error;
  return lines.empty() ? "no message" : lines.front();
}

Expected<AssembledCode> attn::assemblePtx(StringRef ptx, StringRef arch) {
  Expected<std::string> ptxas = findPtxas();
  if (!ptxas)
    return ptxas.takeError();
  SmallString<128> folder;
  if (std::error_code error =
          sys::fs::createUniqueDirectory("attn-ptxas", folder))
    return createStringError("no folder for temporary files: " +
                             error.message());
  llvm::scope_exit removeFolder(
      [&] { (void)sys::fs::remove_directories(folder); });
  std::string input = (folder + "/kernel.ptx").str(),
              output = (folder + "/kernel.cubin").str(),
              log = (folder + "/log").str();
  if (Error error = writeFile(input, ptx))
    return error;

  std::string archOption = ("-arch=" + arch).str(), message;
  StringRef arguments[] = {*ptxas, "-O3", "-v",  archOption,
                           input,  "-o",  output};
  std::optional<StringRef> redirects[] = {StringRef(), StringRef(log),
                                          StringRef(log)};
  int status =
      sys::ExecuteAndWait(*ptxas, arguments, std::nullopt, redirects,
                          /*SecondsToWait=*/0, /*MemoryLimit=*/0, &message);
  AssembledCode assembled;
  if (Expected<std::unique_ptr<MemoryBuffer>> text = readFile(log))
    assembled.report = (*text)->getBuffer().str();
  else
    consumeError(text.takeError());
  if (status != 0)
    return createStringError(
        "'" + *ptxas + "' refuses the code: " +
        (message.empty() ? firstError(assembled.report) : StringRef(message)) +
        "; it has to be of CUDA 13.0 or later, or emit ptx");
  Expected<std::unique_ptr<MemoryBuffer>> cubin = readFile(output);
  if (!cubin)
    return cubin.takeError();
  assembled.cubin = (*cubin)->getBuffer().str();
  return assembled;
}
