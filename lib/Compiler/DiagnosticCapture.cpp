//===- DiagnosticCapture.cpp - Diagnostics as one-line errors -------------===//

#include "DiagnosticCapture.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Location.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace attn;

/// "FILE:LINE:COLUMN: ", or nothing for a location without a file.
static std::string placeText(Location location) {
  FileLineColLoc place;
  location->walk([&](Location inner) {
    place = dyn_cast<FileLineColLoc>(inner);
    return place ? WalkResult::interrupt() : WalkResult::advance();
  });
  // Line 0 stands for the whole of a file.
  if (!place || place.getLine() == 0)
    return "";
  return (place.getFilename().getValue() + ":" + Twine(place.getLine()) + ":" +
          Twine(place.getColumn()) + ": ")
      .str();
}

DiagnosticCapture::DiagnosticCapture(MLIRContext *context)
    : handler(context, [this](Diagnostic &diagnostic) {
        if (diagnostic.getSeverity() != DiagnosticSeverity::Error)
          return failure();
        if (first.empty()) {
          first = placeText(diagnostic.getLocation()) + diagnostic.str();
          llvm::replace(first, '\n', ' ');
        }
        return success();
      }) {}

llvm::Error DiagnosticCapture::takeError(StringRef otherwise) {
  return llvm::createStringError(
      Twine(first.empty() ? otherwise : StringRef(first)));
}
