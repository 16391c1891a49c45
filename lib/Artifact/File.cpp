//===- File.cpp - Whole files, written whole ------------------------------===//

#include "attn/Artifact/File.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;
using namespace attn;

Expected<std::unique_ptr<MemoryBuffer>> attn::readFile(StringRef path) {
  // A mapped file could be cut short under us: read it.
  ErrorOr<std::unique_ptr<MemoryBuffer>> buffer = MemoryBuffer::getFileOrSTDIN(
      path, /*IsText=*/false, /*RequiresNullTerminator=*/true);
  if (std::error_code error = buffer.getError())
    return createStringError("cannot read '" + path + "': " + error.message());
  return std::move(*buffer);
}

static Error cannotWrite(StringRef path, std::error_code error) {
  return createStringError("cannot write '" + path + "': " + error.message());
}

static std::error_code writeParts(raw_fd_ostream &os,
                                  ArrayRef<StringRef> parts) {
  for (StringRef part : parts)
    os << part;
  os.flush();
  std::error_code error = os.error();
  os.clear_error();
  return error;
}

Error attn::writeFile(StringRef path, ArrayRef<StringRef> parts) {
  sys::fs::file_status status;
  bool isSpecial = path == "-" ||
                   (!sys::fs::status(path, status) && sys::fs::exists(status) &&
                    !sys::fs::is_regular_file(status));
  if (isSpecial) {
    std::error_code error;
    raw_fd_ostream os(path, error);
    if (!error)
      error = writeParts(os, parts);
    return error ? cannotWrite(path, error) : Error::success();
  }
  Expected<sys::fs::TempFile> temporary =
      sys::fs::TempFile::create(path + ".%%%%%%.tmp");
  if (!temporary)
    return cannotWrite(path, errorToErrorCode(temporary.takeError()));
  std::error_code error;
  {
    raw_fd_ostream os(temporary->FD, /*shouldClose=*/false);
    error = writeParts(os, parts);
  }
  if (error) {
    consumeError(temporary->discard());
    return cannotWrite(path, error);
  }
  if (Error failure = temporary->keep(path))
    return cannotWrite(path, errorToErrorCode(std::move(failure)));
  return Error::success();
}
