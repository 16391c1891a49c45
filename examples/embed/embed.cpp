// Runs a pipeline on a module given as text, and prints what comes out.
#include "attn/Pipelines/Registration.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"

static const char *kModule = R"(
  func.func @attention(%q: tensor<1x8x128x64xf32>) -> tensor<1x8x128x64xf32> {
    %o = attn.attention %q, %q, %q causal
      : tensor<1x8x128x64xf32>, tensor<1x8x128x64xf32>, tensor<1x8x128x64xf32> -> tensor<1x8x128x64xf32>
    return %o : tensor<1x8x128x64xf32>
  })";

int main() {
  mlir::DialectRegistry registry;
  mlir::registerAllDialects(registry);
  mlir::registerAllExtensions(registry);
  attn::registerAttnDialects(registry);
  attn::registerAttnPasses();
  mlir::MLIRContext context(registry);

  auto module = mlir::parseSourceString<mlir::ModuleOp>(kModule, &context);
  mlir::PassManager passes(&context);
  if (!module ||
      failed(mlir::parsePassPipeline("attn-to-cpu{target=cpu:avx2}", passes)) ||
      failed(passes.run(*module)))
    return 1;
  module->print(llvm::outs());
}
