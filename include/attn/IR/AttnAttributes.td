//===- AttnAttributes.td - Attributes of the attn dialect --*- tablegen -*-===//

#ifndef ATTN_ATTRIBUTES
#define ATTN_ATTRIBUTES

include "attn/IR/AttnBase.td"

def Attn_Layout : I32EnumAttr<"Layout", "order of the dimensions of an operand", [
    I32EnumAttrCase<"bhsd", 0>, // batch, head, sequence, head dimension
    I32EnumAttrCase<"bshd", 1>  // batch, sequence, head, head dimension
  ]> {
  let cppNamespace = "::attn";
  let genSpecializedAttr = 0;
}
def Attn_LayoutAttr : EnumAttr<Attn_Dialect, Attn_Layout, "layout">;

def Attn_Alignment : I32EnumAttr<"Alignment", "corner that the diagonal starts from", [
    I32EnumAttrCase<"top_left", 0>,    // key j meets query i at j = i
    I32EnumAttrCase<"bottom_right", 1> // key j meets query i at j = i + (Skv - Sq)
  ]> {
  let cppNamespace = "::attn";
  let genSpecializedAttr = 0;
}
def Attn_AlignmentAttr : EnumAttr<Attn_Dialect, Attn_Alignment, "alignment">;

/// A plain struct with `visitFields` held as one attribute; the shared printer
/// and parser are in lib/IR/StructAttribute.h.
class Attn_StructAttr<string attrName, string attrMnemonic, string cppStruct>
    : AttrDef<Attn_Dialect, attrName> {
  let mnemonic = attrMnemonic;
  let parameters = (ins
    AttrParameter<cppStruct, "the plain struct">:$value);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def Attn_TargetAttr : Attn_StructAttr<"Target", "target", "::attn::TargetDescription"> {
  let summary = "a chip: every number that the planner reads";
  let description = [{
    Example:

    ```mlir
    #attn.target<name = "cpu:avx2", family = "cpu", arch = "x86-64-v3",
                 matrix_units = [["fma", "f32", 1, 8, 1, 16]],
                 simd_bits = 256, simd_registers = 16>
    ```

    A field that is zero or empty is not printed. `include/attn/IR/TargetDescription.h`
    documents each field.
  }];
}

def Attn_TilingAttr : Attn_StructAttr<"Tiling", "tiling", "::attn::Tiling"> {
  let summary = "the planner's decision for one op";
  let description = [{
    Example:

    ```mlir
    #attn.tiling<block_query = 64, block_key = 128, product = "fma",
                 register_rows = 4, register_columns = 64>
    ```
  }];
}

#endif // ATTN_ATTRIBUTES
