//===- Dialects.cpp - What a module to compile may hold -------------------===//

#include "attn/Compiler/Compiler.h"
#include "attn/Pipelines/Registration.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/Target/LLVMIR/Dialect/All.h"

void attn::registerCompilerDialects(mlir::DialectRegistry &registry) {
  mlir::registerAllDialects(registry);
  mlir::registerAllExtensions(registry);
  mlir::registerAllToLLVMIRTranslations(registry);
  registerAttnDialects(registry);
}
