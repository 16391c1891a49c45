//===- ElementType.cpp - Element types of kernel arguments ----------------===//

#include "attn/Artifact/ElementType.h"

using namespace attn;

namespace {
struct TypeInfo {
  ElementType type;
  const char *name;
  int64_t bytes;
};
constexpr TypeInfo kTypes[] = {
    {ElementType::f16, "f16", 2}, {ElementType::bf16, "bf16", 2},
    {ElementType::f32, "f32", 4}, {ElementType::f64, "f64", 8},
    {ElementType::i1, "i1", 1},   {ElementType::i8, "i8", 1},
    {ElementType::i32, "i32", 4}, {ElementType::i64, "i64", 8}};

const TypeInfo &infoOf(ElementType type) {
  return kTypes[static_cast<unsigned>(type)];
}
} // namespace

llvm::StringRef attn::elementTypeName(ElementType type) {
  return infoOf(type).name;
}

std::optional<ElementType> attn::parseElementType(llvm::StringRef name) {
  for (const TypeInfo &info : kTypes)
    if (name == info.name)
      return info.type;
  return std::nullopt;
}

int64_t attn::elementBytes(ElementType type) { return infoOf(type).bytes; }

bool attn::isFloat(ElementType type) { return type <= ElementType::f64; }
