//===- Artifact.cpp - Code and how to launch it ---------------------------===//

#include "attn/Artifact/Artifact.h"
#include "attn/Artifact/File.h"

using namespace llvm;
using namespace attn;

Error Artifact::save(StringRef path) const {
  if (Error error = writeFile(path, StringRef(code)))
    return error;
  if (!report.empty())
    if (Error error = writeFile((path + ".log").str(), StringRef(report)))
      return error;
  return writeFile((path + ".json").str(), StringRef(launch.toJSON()));
}

Expected<Artifact> Artifact::load(StringRef path) {
  std::string descriptionPath = (path + ".json").str();
  Expected<std::unique_ptr<MemoryBuffer>> code = readFile(path);
  if (!code)
    return code.takeError();
  Expected<std::unique_ptr<MemoryBuffer>> text = readFile(descriptionPath);
  if (!text)
    return text.takeError();
  Expected<LaunchDescription> launch =
      LaunchDescription::fromJSON((*text)->getBuffer(), descriptionPath);
  if (!launch)
    return launch.takeError();
  return Artifact{std::move(*launch), (*code)->getBuffer().str()};
}
