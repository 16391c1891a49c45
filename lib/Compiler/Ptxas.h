//===- Ptxas.h - NVIDIA's assembler -----------------------------*- C++ -*-===//

#ifndef ATTN_LIB_COMPILER_PTXAS_H
#define ATTN_LIB_COMPILER_PTXAS_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <string>

namespace attn {

struct AssembledCode {
  std::string cubin;
  /// What `ptxas -v` printed: registers, spills, warnings.
  std::string report;
};

/// Assembles `ptx` for `arch` ("sm_90a") by the ptxas of $CUDA_HOME/bin, of
/// /usr/local/cuda/bin or of PATH, in that order.
llvm::Expected<AssembledCode> assemblePtx(llvm::StringRef ptx,
                                          llvm::StringRef arch);

} // namespace attn

#endif // ATTN_LIB_COMPILER_PTXAS_H
