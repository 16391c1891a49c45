//===- AttnPlugin.cpp - attn inside a stock mlir-opt ----------------------===//
//
//   mlir-opt-22 --load-dialect-plugin=AttnPlugin.so \
//               --load-pass-plugin=AttnPlugin.so --pass-pipeline=...
//
// The plugin links the shared libMLIR and libLLVM that mlir-opt itself runs on.
// A second, static copy would have its own registries and type identities, and
// nothing registered here would be seen there.
//
//===----------------------------------------------------------------------===//

#include "attn/Pipelines/Registration.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/Plugins/DialectPlugin.h"
#include "mlir/Tools/Plugins/PassPlugin.h"

static constexpr const char *kName = "attn";
static constexpr const char *kVersion = ATTN_VERSION;

extern "C" LLVM_ATTRIBUTE_WEAK ::mlir::DialectPluginLibraryInfo
mlirGetDialectPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, kName, kVersion,
          [](mlir::DialectRegistry *registry) {
            attn::registerAttnDialects(*registry);
          }};
}

extern "C" LLVM_ATTRIBUTE_WEAK ::mlir::PassPluginLibraryInfo
mlirGetPassPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, kName, kVersion,
          [] { attn::registerAttnPasses(); }};
}
