//===- Registration.cpp - All of attn, registered in one place ------------===//

#include "attn/Pipelines/Registration.h"
#include "attn/Conversion/Passes.h"
#include "attn/IR/Attn.h"
#include "attn/Transforms/BufferizableOpInterfaceImpl.h"
#include "attn/Transforms/Passes.h"
#include "mlir/IR/DialectRegistry.h"

void attn::registerAttnDialects(mlir::DialectRegistry &registry) {
  registry.insert<AttnDialect>();
  registerBufferizableOpInterfaceExternalModels(registry);
}

void attn::registerAttnPasses() {
  registerAttnTransformsPasses();
  registerAttnConversionPasses();
}
