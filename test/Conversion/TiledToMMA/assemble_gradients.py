"""Assembles planned gradients on warps, and reads what ptxas and the planner say of them.

    assemble_gradients.py TARGET...

Every combination below has to compile, to assemble without spills and warnings, and the greatest
of its kernels to take the shared memory that the planner counted. Combinations that the planner
gives to wgmma are another mapping's.
"""

import sys

from assemble_grid import CLAUSES, OPERANDS, REGIONS, assemble

# Gradients of what is given, beside those of query, key and value: name of the variant, request,
# type and name of the destination.
REQUESTS = {
    "bias": ("bias", "memref<8x?x?xf32>", "%bias"),
    "sinks": ("sinks", "memref<8xf32>", "%sinks"),
    "alibi": ("captures[0]", "memref<8xf32>", "%slopes"),
}


def module(element, d, dv, variant, layout="bhsd", kv_heads=8, requests=False, flags="", gradient=None):
    def memref(heads, width, kind=element):
        shape = f"2x?x{heads}x{width}" if layout == "bshd" else f"2x{heads}x?x{width}"
        strides = ", strided<[?, ?, ?, 1], offset: ?>" if layout == "strided" else ""
        return f"memref<{shape}x{kind}{strides}>"

    wide = "f64" if element == "f64" else "f32"
    q, k, v, o = memref(8, d), memref(kv_heads, d), memref(kv_heads, dv), memref(8, dv)
    do, rows = memref(8, dv, gradient or element), f"memref<2x8x?x{wide}>"
    extra, clause = OPERANDS.get(variant, ("", CLAUSES.get(variant, "")))
    region = ""
    if variant in REGIONS:
        extra, region = REGIONS[variant]
    arguments = [f"%q: {q}, %k: {k}, %v: {v}, %o: {o}, %l: {rows}, %do: {do}, %dq: {q}, %dk: {k}, %dv: {v}"]
    outs, types = ["%dq", "%dk", "%dv"], [q, k, v]
    if extra:
        arguments.append(extra)
    if requests:
        request, kind, name = REQUESTS[variant]
        clause += f" gradients({request})"
        arguments.append(f"{name}_gradient: {kind}")
        outs.append(f"{name}_gradient")
        types.append(kind)
    if layout == "bshd":
        clause += " layout(bshd)"
    return (
        f"func.func @f({', '.join(arguments)}) {{\n"
        f"  attn.attention_backward %q, %k, %v, %o, %l, %do {flags} {clause}\n"
        f"    outs({', '.join(outs)} : {', '.join(types)}) {region}\n"
        f"    : {q}, {k}, {v}, {o}, {rows}, {do}\n  return\n}}\n"
    )


def cases():
    for element in ("bf16", "f16"):
        for d in (64, 128, 256):
            yield (element, d, d, "causal")
    yield ("bf16", 64, 64, "plain")
    for d, dv in ((1, 1), (40, 40), (59, 59), (96, 96), (192, 128), (512, 512), (64, 320)):
        yield ("bf16", d, dv, "causal")
    for variant in ["window", "softcap", *OPERANDS, *REGIONS]:
        for d in (64, 128):
            yield ("bf16", d, d, variant)
    yield ("bf16", 256, 256, "mask")
    for variant in REQUESTS:
        yield ("bf16", 128, 128, variant, "bhsd", 8, True)
        yield ("f16", 64, 64, variant, "bhsd", 2, True, "deterministic")
    for layout in ("bshd", "strided"):
        yield ("f16", 128, 128, "causal", layout)
    yield ("bf16", 64, 64, "plain", "bhsd", 8, False, "", "f32")
    for element, dims in (("f32", (64, 128, 33, 256)), ("f64", (64, 128))):
        for d in dims:
            yield (element, d, d, "causal")


if __name__ == "__main__":
    sys.exit(assemble(module, cases, "gradients on warps"))
