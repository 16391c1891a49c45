"""Assembles planned kernels of warps, and reads what ptxas and the planner say of them.

    assemble_grid.py TARGET...

Every combination below has to compile, to assemble without spills and warnings, and to take
the shared memory that the planner counted. Combinations that the planner gives to wgmma are
another mapping's.
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

REGIONS = {
    "alibi": (
        "%slopes: memref<8xf32>",
        """captures(%slopes : memref<8xf32>) score_mod(%s, %b, %h, %i, %j, %slope) {
          %m = memref.load %slope[%h] : memref<8xf32>
          %d = arith.subi %j, %i : index
          %n = arith.index_cast %d : index to i32
          %f = arith.sitofp %n : i32 to f32
          %t = arith.mulf %m, %f : f32
          %r = arith.addf %s, %t : f32
          attn.yield %r : f32
        }""",
    ),
    "documents": (
        "%ids: memref<?xi32>",
        """captures(%ids : memref<?xi32>) mask_mod(%b, %h, %i, %j, %of) {
          %x = memref.load %of[%i] : memref<?xi32>
          %y = memref.load %of[%j] : memref<?xi32>
          %r = arith.cmpi eq, %x, %y : i32
          attn.yield %r : i1
        }""",
    ),
}

# Name: (argument, clause in front of outs).
OPERANDS = {
    "lengths": ("%n: memref<2xi32>", "kv_lengths(%n : memref<2xi32>)"),
    "segments": (
        "%qs: memref<2x?xi64>, %ks: memref<2x?xi64>",
        "segments(%qs, %ks : memref<2x?xi64>, memref<2x?xi64>)",
    ),
    "mask": ("%m: memref<2x1x?x?xi1>", "mask(%m : memref<2x1x?x?xi1>)"),
    "bias": ("%bias: memref<8x?x?xbf16>", "bias(%bias : memref<8x?x?xbf16>)"),
    "sinks": ("%sinks: memref<8xf32>", "sinks(%sinks : memref<8xf32>)"),
}

CLAUSES = {
    "plain": "", "causal": "causal", "window": "causal window(1023, -1)", "softcap": "softcap(30.0)",
}


def module(element, d, dv, variant, layout="bhsd", kv_heads=8, lse=False, output=None):
    def memref(heads, width, kind=element):
        shape = f"2x?x{heads}x{width}" if layout == "bshd" else f"2x{heads}x?x{width}"
        strides = ", strided<[?, ?, ?, 1], offset: ?>" if layout == "strided" else ""
        return f"memref<{shape}x{kind}{strides}>"

    q, k, v = memref(8, d), memref(kv_heads, d), memref(kv_heads, dv)
    o = memref(8, dv, output or element)
    extra, clause = OPERANDS.get(variant, ("", CLAUSES.get(variant, "")))
    region = ""
    if variant in REGIONS:
        extra, region = REGIONS[variant]
    outs, out_types = "%o", o
    arguments = [f"%q: {q}, %k: {k}, %v: {v}, %o: {o}"]
    if lse:
        outs, out_types = "%o, %lse", f"{o}, memref<2x8x?xf32>"
        arguments.append("%lse: memref<2x8x?xf32>")
    if extra:
        arguments.append(extra)
    if layout == "bshd":
        clause += " layout(query = bshd, key = bshd, value = bshd, output = bshd)"
    return (
        f"func.func @f({', '.join(arguments)}) {{\n"
        f"  attn.attention %q, %k, %v {clause} outs({outs} : {out_types}) {region}\n"
        f"    : {q}, {k}, {v}\n  return\n}}\n"
    )


def cases():
    for element in ("bf16", "f16"):
        for d in (64, 128, 256):
            for variant in ("plain", "causal"):
                yield (element, d, d, variant)
    for d, dv in ((1, 1), (40, 40), (59, 59), (72, 72), (96, 96), (192, 128), (512, 512), (576, 512), (64, 320)):
        yield ("bf16", d, dv, "causal")
    for variant in ["window", "softcap", *OPERANDS, *REGIONS]:
        for d in (64, 128):
            yield ("bf16", d, d, variant)
    for layout in ("bshd", "strided"):
        yield ("f16", 128, 128, "causal", layout)
    yield ("bf16", 128, 128, "causal", "bhsd", 2, True)
    yield ("bf16", 64, 64, "plain", "bhsd", 8, False, "f32")
    for element, dims in (("f32", (64, 128, 33, 512)), ("f64", (64, 128, 256))):
        for d in dims:
            yield (element, d, d, "causal")


def run(command, text):
    return subprocess.run(command, input=text, text=True, capture_output=True)


def check(folder, target, text):
    """What is wrong, and whether the case was this mapping's at all."""
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
    if set(spills) != {"0"} or "warning" in log:
        return f"{plan['tiling']}: {log}", True
    launch = json.loads(pathlib.Path(f"{path}.json").read_text())
    kernels = [launch, *launch.get("then", [])]
    given = max(int(kernel["shared_memory_bytes"]) for kernel in kernels)
    counted = next(b["used"] for b in plan["budgets"] if b["memory"] == "shared memory")
    return (f"shared memory {given}, counted {counted}" if given != counted else ""), True


def assemble(module, cases, what):
    """Checks `module` of every case for each target of the command line."""
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for target in sys.argv[1:]:
            count = 0
            for case in cases():
                problem, is_ours = check(pathlib.Path(folder), target, module(*case))
                count += is_ours
                if problem:
                    wrong += 1
                    print(f"{target} {case}: {problem}", flush=True)
            print(f"{target}: {count} {what}", flush=True)
    return wrong != 0


if __name__ == "__main__":
    sys.exit(assemble(module, cases, "kernels of warps"))
