//===- AttnInterfaces.td - What forward and backward share -*- tablegen -*-===//

#ifndef ATTN_INTERFACES
#define ATTN_INTERFACES

include "mlir/IR/OpBase.td"

/// An accessor that the operation has by its definition.
class Attn_Accessor<string type, string name>
    : InterfaceMethod<"", type, name, (ins)>;
class Attn_Setter<string name, string type>
    : InterfaceMethod<"", "void", name, (ins type:$value)>;

def Attn_AttentionOpInterface : OpInterface<"AttentionOpInterface"> {
  let cppNamespace = "::attn";
  let description = [{
    Attention forward or backward: which scores are computed, and for which pairs. Whoever
    computes, bounds or masks scores takes this, and does not ask which of the two it has.
  }];
  let methods = !listconcat(
    !foreach(name, ["getQuery", "getKey", "getValue", "getBias", "getMask", "getKvLengths",
                    "getQuerySegments", "getKvSegments", "getSinks", "getQueryOffset"],
             Attn_Accessor<"::mlir::Value", name>),
    !foreach(name, ["getQueryLayout", "getKeyLayout", "getValueLayout", "getOutputLayout"],
             Attn_Accessor<"::attn::Layout", name>),
    !foreach(name, ["getScale", "getSoftcap"],
             Attn_Accessor<"::std::optional<::llvm::APFloat>", name>),
    !foreach(name, ["getWindowLeft", "getWindowRight"], Attn_Accessor<"int64_t", name>),
    !foreach(name, ["getScoreMod", "getMaskMod"], Attn_Accessor<"::mlir::Region &", name>),
    !foreach(name, ["getCaptures", "getOuts"], Attn_Accessor<"::mlir::OperandRange", name>),
    !foreach(name, ["getCapturesMutable", "getOutsMutable", "getQueryOffsetMutable"],
             Attn_Accessor<"::mlir::MutableOperandRange", name>),
    !foreach(name, ["setWindowLeft", "setWindowRight"], Attn_Setter<name, "int64_t">),
    [ Attn_Accessor<"bool", "getCausal">, Attn_Setter<"setCausal", "bool">,
      Attn_Accessor<"::attn::Alignment", "getAlignment">,
      Attn_Setter<"setAlignment", "::attn::Alignment">,
      Attn_Accessor<"::attn::TargetAttr", "getTargetAttr">,
      Attn_Setter<"setTargetAttr", "::attn::TargetAttr">,
      Attn_Accessor<"::attn::TilingAttr", "getTilingAttr">,
      Attn_Setter<"setTilingAttr", "::attn::TilingAttr">,
      InterfaceMethod<"First operand and length of a group; the groups up to `captures` have one "
                      "number in both ops.", "::std::pair<unsigned, unsigned>",
                      "getODSOperandIndexAndLength", (ins "unsigned":$group)>,
      InterfaceMethod<"Type of the output: a result, a destination or an operand.",
                      "::mlir::ShapedType", "getOutputType">,
      InterfaceMethod<"Type of the lse; null where the op has none.",
                      "::mlir::ShapedType", "getLseType"> ]);
  let extraSharedClassDeclaration = [{
    /// Sizes by name, merged over the operands: a size that any operand knows
    /// is known. `mlir::ShapedType::kDynamic` stands for the others.
    ::attn::AttentionShape getShape() { return ::attn::detail::getShape($_op); }

    /// The memref form has destinations and no results.
    bool isMemRefForm() {
      return ::llvm::isa<::mlir::MemRefType>($_op.getQuery().getType());
    }
    /// Element type of query, key and value.
    ::mlir::FloatType getElementType() {
      return ::llvm::cast<::mlir::FloatType>(
          ::llvm::cast<::mlir::ShapedType>($_op.getQuery().getType()).getElementType());
    }
    /// f32, or f64 for f64 queries: scores, softmax statistics, accumulators.
    ::mlir::FloatType getAccumulatorType() {
      return ::attn::detail::getAccumulatorType($_op);
    }

    /// The bounds of the diagonal band, from `causal` and `window` together:
    /// key j is visible when i + offset - left <= j <= i + offset + right.
    /// Empty when unbounded.
    ::std::optional<int64_t> getBandLeft() { return ::attn::detail::getBandLeft($_op); }
    ::std::optional<int64_t> getBandRight() { return ::attn::detail::getBandRight($_op); }

    bool hasScoreMod() { return !$_op.getScoreMod().empty(); }
    bool hasMaskMod() { return !$_op.getMaskMod().empty(); }
    /// `scale`, or 1/sqrt(D); D must be static when scale is absent.
    ::std::optional<double> getScaleValue() { return ::attn::detail::getScaleValue($_op); }
  }];
}

#endif // ATTN_INTERFACES
