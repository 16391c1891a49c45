//===- Registration.h - All of attn, registered in one place ----*- C++ -*-===//
//
// What attn-opt, the plugin and an embedder's own driver call, so that each
// knows the same passes by the same names. A new pass or pipeline is a line in
// Registration.cpp.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_PIPELINES_REGISTRATION_H
#define ATTN_PIPELINES_REGISTRATION_H

namespace mlir {
class DialectRegistry;
} // namespace mlir

namespace attn {

/// The attn dialect with the external models of its ops.
void registerAttnDialects(mlir::DialectRegistry &registry);

/// Every pass and pipeline, by the name that a pass pipeline text uses.
void registerAttnPasses();

} // namespace attn

#endif // ATTN_PIPELINES_REGISTRATION_H
