//===- DiagnosticCapture.h - Diagnostics as one-line errors -----*- C++ -*-===//

#ifndef ATTN_LIB_COMPILER_DIAGNOSTICCAPTURE_H
#define ATTN_LIB_COMPILER_DIAGNOSTICCAPTURE_H

#include "mlir/IR/Diagnostics.h"
#include "llvm/Support/Error.h"

namespace attn {

/// While it lives, errors of the context are kept instead of printed. The
/// first is the cause; what follows it is consequence.
class DiagnosticCapture {
public:
  explicit DiagnosticCapture(mlir::MLIRContext *context);

  /// The first error as "FILE:LINE:COLUMN: message", or `otherwise` when a
  /// failure gave none.
  llvm::Error takeError(llvm::StringRef otherwise);

private:
  std::string first;
  mlir::ScopedDiagnosticHandler handler;
};

} // namespace attn

#endif // ATTN_LIB_COMPILER_DIAGNOSTICCAPTURE_H
