#!/usr/bin/env python3
"""Compiles a grid of attention kernels for a chip and reads ptxas's report.

    ptxas.py attn-opt TARGET FOLDER

Fails where a kernel spills, where ptxas serialises wgmma (C75xx) or where it warns of
anything else. Kernels with segments may spill, for now: the search for their blocks has
the registers of the producer; how many do is printed. The cases are those that planned tiles serve: head dimensions, masks,
layouts and variants of f16 and bf16 on tensor cores.
"""

import pathlib
import re
import subprocess
import sys

ALIBI = """captures(%x : tensor<16xf32>) score_mod(%s, %b, %h, %i, %j, %c) {
    %slope = tensor.extract %c[%h] : tensor<16xf32>
    %ji = arith.subi %j, %i : index
    %d = arith.index_cast %ji : index to i32
    %f = arith.sitofp %d : i32 to f32
    %bias = arith.mulf %slope, %f : f32
    %r = arith.addf %s, %bias : f32
    attn.yield %r : f32
  }"""

SEGMENTS = "segments(%x, %x : tensor<4x4096xi32>, tensor<4x4096xi32>)"

# name, element, D, Dv, clauses, a further operand
CASES = [(f"bf16-{d}-{mask or 'full'}", "bf16", d, d, mask, "") for d in (64, 128, 256) for mask in ("", "causal")]
CASES += [(f"bf16-{d}", "bf16", d, d, "causal", "") for d in (40, 72, 96, 112, 160)]
CASES += [
    (f"segments-{d}-{mask or 'full'}", "bf16", d, d, f"{mask} {SEGMENTS}", "tensor<4x4096xi32>")
    for d in (64, 128, 256)
    for mask in ("", "causal", "causal window(1023, 0)")
]
CASES += [
    ("f16-64", "f16", 64, 64, "causal", ""),
    ("f16-128", "f16", 128, 128, "", ""),
    ("bf16-192-128", "bf16", 192, 128, "causal", ""),
    ("window", "bf16", 128, 128, "causal window(1023, 0)", ""),
    ("softcap", "bf16", 128, 128, "causal softcap(20.0)", ""),
    ("alibi", "bf16", 128, 128, "causal " + ALIBI, "tensor<16xf32>"),
    ("sinks", "bf16", 64, 64, "causal sinks(%x : tensor<16xf32>)", "tensor<16xf32>"),
    ("lengths", "bf16", 128, 128, "kv_lengths(%x : tensor<4xi32>)", "tensor<4xi32>"),
    ("bshd", "bf16", 128, 128, "causal layout(bshd)", ""),
    ("segments-f16-64", "f16", 64, 64, SEGMENTS, "tensor<4x4096xi32>"),
    ("segments-alibi", "bf16", 128, 128, "causal " + SEGMENTS + " " + ALIBI.replace("%x", "%y"), "tensor<4x4096xi32>, %y: tensor<16xf32>"),
]


def module(element, dim, value_dim, clauses, operand):
    def tensor(heads, width):
        shape = f"4x4096x{heads}x{width}" if "bshd" in clauses else f"4x{heads}x4096x{width}"
        return f"tensor<{shape}x{element}>"

    q, k, v, o = tensor(16, dim), tensor(4, dim), tensor(4, value_dim), tensor(16, value_dim)
    x = f", %x: {operand}" if operand else ""
    return (
        f"func.func @attention(%q: {q}, %k: {k}, %v: {v}{x}) -> {o} {{\n"
        f"  %o = attn.attention %q, %k, %v {clauses} : {q}, {k}, {v} -> {o}\n  return %o : {o}\n}}\n"
    )


def main():
    attn_opt, target, folder = sys.argv[1:]
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    problems, known = [], []
    for name, *case in CASES:
        out = folder / f"{name}.cubin"
        command = [attn_opt, "-", f"--target={target}", "--emit=cubin", "-o", out]
        done = subprocess.run(command, input=module(*case), text=True, capture_output=True)
        if done.returncode:
            problems.append(f"{name}: {done.stderr.strip()}")
            continue
        log = pathlib.Path(f"{out}.log").read_text()
        spills = not re.search(r"\b0 bytes spill stores, 0 bytes spill loads", log)
        if spills and name.startswith("segments"):
            known.append(name)
            spills = False
        if spills or "C75" in log or "warning" in log:
            problems.append(f"{name}: {log.strip()}")
    print(f"{target}: {len(CASES)} kernels, {len(problems)} with problems", *problems, sep="\n")
    print(f"with segments and spills: {len(known)}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
