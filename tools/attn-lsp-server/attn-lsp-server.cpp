//===- attn-lsp-server.cpp - Language server of the dialect ---------------===//

#include "attn/Compiler/Compiler.h"
#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  attn::registerCompilerDialects(registry);
  return mlir::failed(mlir::MlirLspServerMain(argc, argv, registry));
}
