//===- AttnOps.td - Operations of the attn dialect ---------*- tablegen -*-===//

#ifndef ATTN_OPS
#define ATTN_OPS

include "attn/IR/AttnBase.td"
include "attn/IR/AttnAttributes.td"
include "attn/IR/AttnInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class Attn_Op<string opMnemonic, list<Trait> traits = []>
    : Op<Attn_Dialect, opMnemonic, traits>;

/// A window bound; unlike I64Attr its C++ type is signed.
def Attn_BoundAttr : TypedSignlessIntegerAttrBase<I64, "int64_t", "window bound">;

def Attn_Shaped : AnyTypeOf<[AnyRankedTensor, AnyMemRef]>;

/// Attention forward or backward. The operands that both have come first, in one
/// order; each adds its own, and destinations last.
class Attn_AttentionLikeOp<string opMnemonic, dag ownOperands, dag ownAttributes>
    : Attn_Op<opMnemonic, !listconcat([
    AttrSizedOperandSegments, IsolatedFromAbove, RecursivelySpeculatable,
    Attn_AttentionOpInterface,
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>,
    DeclareOpInterfaceMethods<ReifyRankedShapedTypeOpInterface, ["reifyResultShapes"]>
  ], SingleBlockImplicitTerminator<"::attn::YieldOp">.traits)> {
  let arguments = !con((ins
    Attn_Shaped:$query, Attn_Shaped:$key, Attn_Shaped:$value,
    Optional<Attn_Shaped>:$bias, Optional<Attn_Shaped>:$mask,
    Optional<Attn_Shaped>:$kv_lengths,
    Optional<Attn_Shaped>:$query_segments, Optional<Attn_Shaped>:$kv_segments,
    Optional<Attn_Shaped>:$sinks, Optional<Attn_Shaped>:$query_offset,
    Variadic<Attn_Shaped>:$captures),
    ownOperands, (ins
    Variadic<Attn_Shaped>:$outs,
    OptionalAttr<F64Attr>:$scale, OptionalAttr<F64Attr>:$softcap,
    UnitAttr:$causal,
    DefaultValuedAttr<Attn_AlignmentAttr, "::attn::Alignment::top_left">:$alignment,
    DefaultValuedAttr<Attn_BoundAttr, "-1">:$window_left,
    DefaultValuedAttr<Attn_BoundAttr, "-1">:$window_right,
    DefaultValuedAttr<Attn_LayoutAttr, "::attn::Layout::bhsd">:$query_layout,
    DefaultValuedAttr<Attn_LayoutAttr, "::attn::Layout::bhsd">:$key_layout,
    DefaultValuedAttr<Attn_LayoutAttr, "::attn::Layout::bhsd">:$value_layout,
    DefaultValuedAttr<Attn_LayoutAttr, "::attn::Layout::bhsd">:$output_layout,
    OptionalAttr<Attn_TargetAttr>:$target, OptionalAttr<Attn_TilingAttr>:$tiling),
    ownAttributes);
  let regions = (region MaxSizedRegion<1>:$score_mod, MaxSizedRegion<1>:$mask_mod);
  let results = (outs Variadic<AnyRankedTensor>:$results);

  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
}

def Attn_AttentionOp : Attn_AttentionLikeOp<"attention", (ins), (ins)> {
  let summary = "dense softmax attention";
  let description = [{
    For every batch `b`, query head `h` and query row `i`

    ```
    s(j)   = scale * sum_d query[b, h, i, d] * key[b, g(h), j, d]
    s(j)   = softcap * tanh(s(j) / softcap)               if softcap is given
    s(j)   = score_mod(s(j), b, h, i, j)                  if the region is given
    s(j)   = s(j) + bias[b, h, i, j]                      if bias is given
    s(j)   = -inf                                         where a mask hides j from i
    output[b, h, i, :] = sum_j softmax(s)(j) * value[b, g(h), j, :]
    lse[b, h, i]       = ln(sum_j exp(s(j)))              if the second result is asked for
    ```

    where `g(h) = h / (Hq / Hkv)`. The definition and the running (online) form that
    the passes compute are those of Dao et al., FlashAttention (2022), sections 2.2 and 3.1.

    **Operands.** Ranked tensors, or memrefs with the destinations in `outs(...)`; never a mixture.

    | operand | shape in `bhsd` layout | element type |
    |---|---|---|
    | `query` | `[B, Hq, Sq, D]` | f16, bf16, f32 or f64 |
    | `key` | `[B, Hkv, Skv, D]` | the query's |
    | `value` | `[B, Hkv, Skv, Dv]` | the query's |
    | `bias` | broadcasts to `[B, Hq, Sq, Skv]` | any float |
    | `mask` | broadcasts to `[B, Hq, Sq, Skv]`, true is visible | i1 |
    | `kv_lengths` | `[B]`, a count of leading keys | i32 or i64 |
    | `query_segments`, `kv_segments` | `[B, Sq]`, `[B, Skv]` | i32 or i64 |
    | `sinks` | `[Hq]` | f32 (f64 for f64 queries) |
    | `query_offset` | `[B]` or `[1]` | i32 or i64 |
    | `captures` | any, read by the regions | any int or float |
    | output | `[B, Hq, Sq, Dv]` | the query's, or any other float |
    | lse | `[B, Hq, Sq]` | f32 (f64 for f64 queries) |

    `layout(bshd)` says that query, key, value and output are `[B, S, H, D]`; each may be given its own.

    **Regions.** `score_mod(%s, %b, %h, %i, %j, captures...)` maps a score to a score;
    `mask_mod(%b, %h, %i, %j, captures...)` yields an i1, true is visible. Positions are `index`
    values, a score is f32 (f64 for f64 queries). The bodies are scalar `arith` and `math` ops,
    and reads of captures: `tensor.extract`, or `memref.load` in the memref form. They are
    isolated: an outer value is seen through `captures` only. What they read and divide by has to
    be in range for visible pairs only, `table[%i - %j]` under `causal` for instance.

    **Constraints.**

    1. (C1) query, key, value and output have rank 4; batch sizes agree; key and value agree in heads and
       length; query and key agree in head dimension; output is query's batch, heads and length
       with value's head dimension.
    2. (C2) `Hq` is a whole multiple of `Hkv`.
    3. (C3) query, key and value have one element type: f16, bf16, f32 or f64. Scores, softmax and accumulators are f32 (f64 for f64).
    4. (C4) `scale` defaults to `1 / sqrt(D)`; zero and negative values are legal, NaN and infinities are not.
    5. (C5) `softcap` is a positive finite number.
    6. (C6) Masks combine by *and*. `causal` hides `j > i + offset`. `window(l, r)` hides `j < i + offset - l` and
       `j > i + offset + r`; -1 is unbounded. `offset` is 0 for `top_left`, `Skv - Sq` for `bottom_right`, or the given `query_offset`.
    7. (C7) bias and mask broadcast to `[B, Hq, Sq, Skv]`: each dimension is 1 or that size, leading ones may be absent.
       A dimension that broadcasts states its 1 in the type; `?` is the full size.
    8. (C8) `kv_lengths` are counts: key `j` is visible when `j < kv_lengths[b]`.
    9. (C9) segments come in pairs: key `j` is visible to query `i` when their segment ids are equal.
    10. (C10) a row without a visible key has output 0 and lse -inf; with a sink, output 0 and lse the sink.
    11. (C11) `sinks[h]` joins the denominator, hence the lse, and contributes no value.
    12. (C12) regions take the arguments listed above, yield one f32 (f64) score or one i1, and hold nothing but
        scalar arithmetic, constants and reads of captures.
    13. (C13) operands are all tensors, with results, or all memrefs, with `outs` and no result. Memrefs have a
        unit innermost stride; others are free.

    **Example.** Causal attention with ALiBi slopes, 8 query heads on 2 key/value heads:

    ```mlir
    func.func @alibi(%q: tensor<1x8x128x64xf32>, %k: tensor<1x2x128x64xf32>, %v: tensor<1x2x128x64xf32>,
                     %slopes: tensor<8xf32>) -> tensor<1x8x128x64xf32> {
      %o = attn.attention %q, %k, %v causal captures(%slopes : tensor<8xf32>)
        score_mod(%s, %b, %h, %i, %j, %sl) {
          %slope = tensor.extract %sl[%h] : tensor<8xf32>
          %ji = arith.subi %j, %i : index
          %d = arith.index_cast %ji : index to i32
          %f = arith.sitofp %d : i32 to f32
          %bias = arith.mulf %slope, %f : f32
          %r = arith.addf %s, %bias : f32
          attn.yield %r : f32
        } : tensor<1x8x128x64xf32>, tensor<1x2x128x64xf32>, tensor<1x2x128x64xf32> -> tensor<1x8x128x64xf32>
      return %o : tensor<1x8x128x64xf32>
    }
    ```

    **Lowering.** `attn-select-tiling` adds `#attn.target` and `#attn.tiling`; `attn-tile` expands the memref form to
    the online-softmax loop nest; a conversion per target family does the rest.
  }];

  let hasCanonicalizer = 1;

  let extraClassDeclaration = [{
    bool returnsLse() { return bool(getLseType()); }
    /// Results in the tensor form, destinations in the memref form.
    ::mlir::ShapedType getOutputType();
    ::mlir::ShapedType getLseType();
  }];
}

def Attn_AttentionBackwardOp : Attn_AttentionLikeOp<"attention_backward", (ins
    Attn_Shaped:$output, Attn_Shaped:$lse, Attn_Shaped:$output_gradient,
    Optional<Attn_Shaped>:$lse_gradient), (ins
    UnitAttr:$bias_gradient, UnitAttr:$sinks_gradient,
    DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$capture_gradients,
    UnitAttr:$deterministic)> {
  let summary = "the gradients of dense softmax attention";
  let description = [{
    Takes what `attn.attention` took and returned, and the gradient of its output. No score was
    kept: with `s(i, j)` computed again by the formula of `attn.attention`,

    ```
    p(i, j)   = exp(s(i, j) - lse[i])
    delta(i)  = sum_d output_gradient[i, d] * output[i, d] - lse_gradient[i]
    dP(i, j)  = sum_d output_gradient[i, d] * value[j, d]
    dS(i, j)  = p(i, j) * (dP(i, j) - delta(i))                 gradient of the final score
    dX(i, j)  = dS(i, j) * (d s / d x)(i, j)                    of x = scale * query . key

    dQuery[i] = scale * sum_j dX(i, j) * key[j]
    dKey[j]   = scale * sum_i dX(i, j) * query[i]
    dValue[j] = sum_i p(i, j) * output_gradient[i]
    dBias     = dS, summed over the dimensions that the bias broadcasts along
    dSinks    = - sum_i exp(sinks - lse[i]) * delta(i)
    dCapture[x] = sum of dS(i, j) * (d s / d capture[x])(i, j)
    ```

    where sums over `i` run over all query heads of a key/value head, those of a sink over the
    batch, those of a capture over every pair that reads the element. `d s / d x` goes through
    softcap and score region; the compiler differentiates the region in reverse mode. This is
    algorithm 2 of Dao et al., FlashAttention (2022), with the score region added.

    **Operands.** Those of `attn.attention`, with the same clauses, and

    | operand | shape | element type |
    |---|---|---|
    | `output`, `output_gradient` | that of the output, in `layout(output = ...)` | any float |
    | `lse`, `lse_gradient` | `[B, Hq, Sq]` | f32 (f64 for f64 queries) |
    | dQuery, dKey, dValue | shape and layout of query, key and value | any float |
    | dBias, dSinks, dCapture | shape of the operand | f32 (f64 for f64 queries) |

    dQuery, dKey and dValue are always results, in this order. `gradients(bias, sinks, captures[0, 2])`
    asks for others, which follow in the order bias, sinks, captures. They are sums over many pairs,
    hence in the type of the accumulators.

    **Constraints.** C1 to C13 of `attn.attention` hold. Beside them:

    14. (C14) output and output gradient have the output's shape, lse and its gradient that of the lse.
    15. (C15) there is one result (or destination) a gradient, with the shape of its operand.
    16. (C16) `gradients` asks for a bias or sinks that the op has, and for float captures by number, ascending.
    17. (C17) a row without a visible key has gradient 0 and adds nothing to any other. So does a pair whose
        probability is 0, whatever the derivative of its score.
    18. (C18) each op of score_mod between the score, or a capture whose gradient is asked for, and the result
        must have a derivative; `attn-differentiate` and `attn-tile` refuse the others by name. Where the derivative jumps,
        it is 0 for steps (`floor`, conversions to integers), 0 for `absf` at 0, and for
        `maximumf` and `minimumf` of equal numbers one half each.
    19. (C19) with `deterministic` equal inputs give equal bits. Without it a schedule may add in any order.
    20. (C20) A NaN or Inf that no query of a head can see is in no gradient; one that is visible to some
        rows and hidden from others may reach the others.

    **Example.** The gradients of causal attention with a bias:

    ```mlir
    func.func @gradients(%q: tensor<1x8x128x64xf32>, %k: tensor<1x2x128x64xf32>, %v: tensor<1x2x128x64xf32>,
                         %bias: tensor<8x128x128xf32>, %o: tensor<1x8x128x64xf32>, %lse: tensor<1x8x128xf32>,
                         %do: tensor<1x8x128x64xf32>)
        -> (tensor<1x8x128x64xf32>, tensor<1x2x128x64xf32>, tensor<1x2x128x64xf32>, tensor<8x128x128xf32>) {
      %dq, %dk, %dv, %db = attn.attention_backward %q, %k, %v, %o, %lse, %do
        bias(%bias : tensor<8x128x128xf32>) causal gradients(bias)
        : tensor<1x8x128x64xf32>, tensor<1x2x128x64xf32>, tensor<1x2x128x64xf32>,
          tensor<1x8x128x64xf32>, tensor<1x8x128xf32>, tensor<1x8x128x64xf32>
        -> tensor<1x8x128x64xf32>, tensor<1x2x128x64xf32>, tensor<1x2x128x64xf32>, tensor<8x128x128xf32>
      return %dq, %dk, %dv, %db : tensor<1x8x128x64xf32>, tensor<1x2x128x64xf32>, tensor<1x2x128x64xf32>, tensor<8x128x128xf32>
    }
    ```

    **Lowering.** As `attn.attention`: `attn-select-tiling` decides, `attn-tile` expands.
  }];

  let extraClassDeclaration = [{
    ::mlir::ShapedType getOutputType() {
      return ::llvm::cast<::mlir::ShapedType>(getOutput().getType());
    }
    ::mlir::ShapedType getLseType() {
      return ::llvm::cast<::mlir::ShapedType>(getLse().getType());
    }
    /// The operands whose gradients are asked for, one a result or destination:
    /// query, key, value, then bias, sinks and captures as requested.
    ::llvm::SmallVector<::mlir::Value> getDifferentiated();
  }];
}
def Attn_YieldOp : Attn_Op<"yield", [Pure, Terminator, ReturnLike,
                                     ParentOneOf<["::attn::AttentionOp", "::attn::AttentionBackwardOp"]>]> {
  let summary = "ends a score_mod or mask_mod region";
  let description = [{
    Yields the modified score (`score_mod`) or the visibility (`mask_mod`).

    Example:

    ```mlir
    attn.yield %score : f32
    ```
  }];
  let arguments = (ins Variadic<AnyType>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
  let builders = [OpBuilder<(ins), [{ /* yields nothing */ }]>];
}

#endif // ATTN_OPS
