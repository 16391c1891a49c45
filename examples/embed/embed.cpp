// Runs a pipeline on a module given as text, and prints what comes out.
#include "attn/Pipelines/Registration.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/InitAllDialects.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"

static const char *kModule = R"(
  func.func @attention(%q: memref<1x8x128x64xf32>, %o: memref<1x8x128x64xf32>) {
    attn.attention %q, %q, %q causal tiling(#attn.tiling<block_query = 64, block_key = 64>)
      outs(%o : memref<1x8x128x64xf32>) : memref<1x8x128x64xf32>, memref<1x8x128x64xf32>, memref<1x8x128x64xf32>
    return
  })";

int main() {
  mlir::DialectRegistry registry;
  mlir::registerAllDialects(registry);
  attn::registerAttnDialects(registry);
  attn::registerAttnPasses();
  mlir::MLIRContext context(registry);

  auto module = mlir::parseSourceString<mlir::ModuleOp>(kModule, &context);
  mlir::PassManager passes(&context);
  if (!module ||
      failed(mlir::parsePassPipeline("func.func(attn-tile)", passes)) ||
      failed(passes.run(*module)))
    return 1;
  module->print(llvm::outs());
}
