//===- AttnAttributes.cpp - #attn.target and #attn.tiling -----------------===//

#include "StructAttribute.h"
#include "attn/IR/Attn.h"

using namespace attn;

llvm::hash_code attn::hash_value(const TargetDescription &target) {
  return detail::hashStruct(target);
}

llvm::hash_code attn::hash_value(const Tiling &tiling) {
  return detail::hashStruct(tiling);
}

/// Equality by the printed form: it names every field once.
template <typename Struct>
static bool equalByFields(const Struct &a, const Struct &b) {
  std::string textA, textB;
  llvm::raw_string_ostream streamA(textA), streamB(textB);
  detail::printStruct(a, streamA);
  detail::printStruct(b, streamB);
  return textA == textB;
}

bool TargetDescription::operator==(const TargetDescription &o) const {
  return equalByFields(*this, o);
}

bool Tiling::operator==(const Tiling &o) const {
  return equalByFields(*this, o);
}

void TargetAttr::print(mlir::AsmPrinter &printer) const {
  detail::printStruct(getValue(), printer.getStream());
}

mlir::Attribute TargetAttr::parse(mlir::AsmParser &parser, mlir::Type) {
  TargetDescription value;
  if (detail::parseStruct(parser, value))
    return {};
  return get(parser.getContext(), value);
}

void TilingAttr::print(mlir::AsmPrinter &printer) const {
  detail::printStruct(getValue(), printer.getStream());
}

mlir::Attribute TilingAttr::parse(mlir::AsmParser &parser, mlir::Type) {
  Tiling value;
  if (detail::parseStruct(parser, value))
    return {};
  return get(parser.getContext(), value);
}
