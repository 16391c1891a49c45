"""Assembles planned gradients on warps, and reads what ptxas and the planner say of them.

    assemble_gradients.py TARGET...

Every combination below has to compile, to assemble without spills and warnings, and the greatest
of its kernels to take the shared memory that the planner counted. Combinations that the planner
gives to wgmma are another mapping's.
"""

import json
import pathlib
import re
import sys
import tempfile

from assemble_grid import CLAUSES, OPERANDS, REGIONS, run

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


def check(folder, target, case):
    """What is wrong, and whether the case was this mapping's at all."""
    text = module(*case)
    explained = run(["attn-opt", "-", f"--target={target}", "--explain=json"], text)
    if explained.returncode:
        return explained.stderr.strip(), True
    plan = json.loads(explained.stdout)[0]["chosen"]
    if plan["tiling"]["product"] == "wgmma":
        return "", False
    path = folder / "f.cubin"
    done = run(["attn-opt", "-", f"--target={target}", "--emit=cubin", "-o", path], text)
    if done.returncode:
        return done.stderr.strip(), True
    log = pathlib.Path(f"{path}.log").read_text()
    spills = re.findall(r"(\d+) bytes spill stores", log)
    if not spills or set(spills) != {"0"} or "warning" in log:
        return f"{plan['tiling']}: spills {spills} {'warning' in log}", True
    launch = json.loads(pathlib.Path(f"{path}.json").read_text())
    given = max(int(k["shared_memory_bytes"]) for k in [launch, *launch["then"]])
    counted = next(b["used"] for b in plan["budgets"] if b["memory"] == "shared memory")
    return (f"shared memory {given}, counted {counted}" if given != counted else ""), True


def main():
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for target in sys.argv[1:]:
            count = 0
            for case in cases():
                problem, is_ours = check(pathlib.Path(folder), target, case)
                count += is_ours
                if problem:
                    wrong += 1
                    print(f"{target} {case}: {problem}", flush=True)
            print(f"{target}: {count} gradients on warps")
    return wrong != 0


if __name__ == "__main__":
    sys.exit(main())
