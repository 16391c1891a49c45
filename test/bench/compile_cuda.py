#!/usr/bin/env python3
"""Compiles what bench_cuda.py and bench_cuda_backward.py run, into a folder to take to the
machine with the GPU.

    test/bench/compile_cuda.py kernels --build build
    test/bench/compile_cuda.py gradients --build build --backward

One kernel a head dimension, mask and element type serves all lengths. The folder holds
artifacts and nothing else that the benchmark needs but its Python files; it stays
below 8 MiB.
"""

import argparse
import json
import pathlib
import subprocess
import sys

HIDDEN = 2048  # heads times head dimension, in every case
LARGEST = 8 << 20


def alibi(heads):
    return f"""captures(%x : tensor<{heads}xf32>) score_mod(%s, %b, %h, %i, %j, %c) {{
      %slope = tensor.extract %c[%h] : tensor<{heads}xf32>
      %ji = arith.subi %j, %i : index
      %d = arith.index_cast %ji : index to i32
      %f = arith.sitofp %d : i32 to f32
      %bias = arith.mulf %slope, %f : f32
      %r = arith.addf %s, %bias : f32
      attn.yield %r : f32
    }}"""


SEGMENTS = "segments(%x, %y : tensor<?x?xi32>, tensor<?x?xi32>)"


def clauses_of(mask, heads):
    """As cuda_masks.py has them."""
    others = {
        "full": "", "grouped": "", "window": " causal window(1023, 0)", "softcap": " causal softcap(20.0)",
        "alibi": " causal " + alibi(heads), "documents": " causal " + SEGMENTS,
    }  # fmt: skip
    return others.get(mask, " causal")


def heads_of(mask, dim):
    if mask.startswith("grouped"):
        return (64 if "64" in mask else 32), 8
    return HIDDEN // dim, HIDDEN // dim


def types_of(element, dim, mask):
    """Heads, types of queries, keys and rows, and the operands that the mask adds."""
    heads, kv_heads = heads_of(mask, dim)
    tensor, key = (f"tensor<?x{h}x?x{dim}x{element}>" for h in (heads, kv_heads))
    ids = "tensor<?x?xi32>"
    more = {"alibi": f", %x: tensor<{heads}xf32>", "documents": f", %x: {ids}, %y: {ids}"}.get(mask, "")
    return heads, tensor, key, f"tensor<?x{heads}x?xf32>", more


def forward_module(element, dim, mask, clauses=""):
    heads, tensor, key, rows, more = types_of(element, dim, mask)
    results, names, values = tensor, "%o", "%o"
    if mask == "lse":
        results, names, values = f"{tensor}, {rows}", "%o:2", "%o#0, %o#1"
    clauses += clauses_of(mask, heads)
    return (
        f"func.func @attention(%q: {tensor}, %k: {key}, %v: {key}{more}) -> ({results}) {{\n"
        f"  {names} = attn.attention %q, %k, %v {clauses} : {tensor}, {key}, {key} -> {results}\n"
        f"  return {values} : {results}\n}}\n"
    )


def backward_module(element, dim, mask, clauses=""):
    heads, tensor, key, rows, more = types_of(element, dim, mask)
    clauses += clauses_of(mask, heads)
    gradients = f"{tensor}, {key}, {key}"
    return (
        f"func.func @gradients(%q: {tensor}, %k: {key}, %v: {key}, %o: {tensor}, %l: {rows}, %do: {tensor}{more})\n"
        f"    -> ({gradients}) {{\n"
        f"  %g:3 = attn.attention_backward %q, %k, %v, %o, %l, %do {clauses}\n"
        f"    : {gradients}, {tensor}, {rows}, {tensor} -> {gradients}\n"
        f"  return %g#0, %g#1, %g#2 : {gradients}\n}}\n"
    )


def compile_one(args, element, dim, mask):
    name = f"{element}-d{dim}-{mask}.{args.format}"
    command = [
        args.build / "bin" / "attn-opt", "-", f"--target={args.target}", f"--emit={args.format}",
        "-o", args.folder / name,
    ]
    text = (backward_module if args.backward else forward_module)(element, dim, mask, args.clauses)
    done = subprocess.run(command, input=text, text=True, capture_output=True)
    if done.returncode:
        return f"{name}: {done.stderr.strip()}"
    log = args.folder / f"{name}.log"
    if log.exists():
        lines = log.read_text().splitlines()
        worrying = [line for line in lines if "C75" in line or ("spill" in line and "0 bytes spill stores" not in line)]
        if worrying:
            return f"{name}: {worrying[0].strip()}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    parser.add_argument("--target", default="h200")
    parser.add_argument("--format", default="cubin", choices=["cubin", "ptx"], help="ptx needs no ptxas")
    parser.add_argument("--elements", default="bf16", help="of bf16 and f16, with commas")
    parser.add_argument("--dims", default="64,128,256")
    parser.add_argument("--backward", action="store_true", help="gradients")
    parser.add_argument("--masks", default="full,causal", help="of those of cuda_masks.py")
    parser.add_argument("--clauses", default="", help="of the op, such as 'scale(0.1)'")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    problems = []
    for element in args.elements.split(","):
        for dim in map(int, args.dims.split(",")):
            problems += [p for mask in args.masks.split(",") if (p := compile_one(args, element, dim, mask))]
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True).stdout.strip()
    manifest = {"commit": commit, "target": args.target, "format": args.format, "problems": problems}
    (args.folder / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")
    size = sum(f.stat().st_size for f in args.folder.iterdir())
    print(f"{args.folder}: {size / 1024:.0f} KiB at {commit}")
    if size > LARGEST:
        problems.append(f"{size} bytes are more than {LARGEST}; compile fewer, or to cubins")
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
