//===- OpenMPRuntime.h - The OpenMP runtime of CPU kernels ------*- C++ -*-===//

#ifndef ATTN_LIB_RUNTIME_CPU_OPENMPRUNTIME_H
#define ATTN_LIB_RUNTIME_CPU_OPENMPRUNTIME_H

#include "llvm/ExecutionEngine/Orc/Core.h"

namespace attn {

/// Resolves __kmpc_* and omp_* from LLVM's OpenMP runtime, which is opened
/// when the first of them is asked for: a kernel without threads runs on a
/// machine without it. A runtime that the process already holds is preferred,
/// since two of them in one process abort.
class OpenMPGenerator : public llvm::orc::DefinitionGenerator {
public:
  llvm::Error tryToGenerate(llvm::orc::LookupState &state,
                            llvm::orc::LookupKind kind,
                            llvm::orc::JITDylib &library,
                            llvm::orc::JITDylibLookupFlags flags,
                            const llvm::orc::SymbolLookupSet &symbols) override;
};

} // namespace attn

#endif // ATTN_LIB_RUNTIME_CPU_OPENMPRUNTIME_H
