//===- BufferizableOpInterfaceImpl.h - Tensors to memrefs -------*- C++ -*-===//

#ifndef ATTN_TRANSFORMS_BUFFERIZABLEOPINTERFACEIMPL_H
#define ATTN_TRANSFORMS_BUFFERIZABLEOPINTERFACEIMPL_H

namespace mlir {
class DialectRegistry;
} // namespace mlir

namespace attn {

/// Lets one-shot-bufferize turn the tensor form of attn.attention into the
/// memref form.
void registerBufferizableOpInterfaceExternalModels(
    mlir::DialectRegistry &registry);

} // namespace attn

#endif // ATTN_TRANSFORMS_BUFFERIZABLEOPINTERFACEIMPL_H
