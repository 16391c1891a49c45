//===- attn-opt.cpp - The optimizer driver --------------------------------===//

#include "attn/Pipelines/Registration.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/InitAllPasses.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  mlir::registerAllDialects(registry);
  mlir::registerAllExtensions(registry);
  attn::registerAttnDialects(registry);
  mlir::registerAllPasses();
  attn::registerAttnPasses();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "attention compiler\n", registry));
}
