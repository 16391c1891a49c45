#!/usr/bin/env python3
"""Kernels for a Vulkan device, to be checked and timed by bench_vulkan.py.

    compile_vulkan.py FOLDER [--target=vulkan-coopmat] [--attn-opt=build/bin/attn-opt]

A device is often a machine without a compiler: FOLDER holds all that it needs but
attn-launch-static. Problems to be timed have B S = 16384 and H D = 2048; those to be
checked are short, have tails and groups, and come with inputs and the answer in f64.
f32, and f16 in the kernels named "lanes", is multiplied without matrices. Needs numpy.
"""

import argparse
import pathlib
import subprocess

import numpy as np

TIMED = [
    (dim, length, variant, element)
    for dim in (128, 64)
    for length in (4096, 16384)
    for variant in ("full", "causal", "mask")
    for element in ("f16", "bf16", "f32", "lanes")
    if length == 4096 or (variant != "mask" and element in ("f16", "bf16"))
]
CHECKED = [
    (dim, variant, element)
    for dim in (128, 64, 72)
    for variant in ("full", "causal", "mask")
    for element in ("f16", "bf16", "f32", "lanes")
]


def module(batch, heads, groups, length, dim, variant, element):
    words, mask = {"full": "", "causal": "causal"}.get(variant), ""
    if variant == "mask":
        kind = f"tensor<{batch}x1x{length}x{length}xi1>"
        words, mask = f"mask(%m : {kind})", f", %m: {kind}"
    if element == "lanes":
        # What the planner chooses where there are no matrices.
        element = "f16"
        side, groups_of_tile = (32, 2) if mask else (64, 2 if dim <= 64 else 4)
        words += (
            f" tiling(#attn.tiling<block_query = {side}, block_key = {side}, "
            f'groups = {groups_of_tile}, product = "fma", softmax = "conditional">)'
        )
    query = f"tensor<{batch}x{heads}x{length}x{dim}x{element}>"
    key = f"tensor<{batch}x{groups}x{length}x{dim}x{element}>"
    lse = f"tensor<{batch}x{heads}x{length}xf32>"
    return f"""func.func @attention(%q: {query}, %k: {key}, %v: {key}{mask}) -> ({query}, {lse}) {{
  %o, %lse = attn.attention %q, %k, %v {words} : {query}, {key}, {key} -> {query}, {lse}
  return %o, %lse : {query}, {lse}
}}
"""


def rounded(values, element):
    """The values as the element type has them, and what goes to a file."""
    if element != "bf16":
        stored = values.astype(np.float32 if element == "f32" else np.float16)
        return stored.astype(np.float64), stored
    bits = values.astype(np.float32).view(np.uint32)
    bits = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    wide = (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return wide, bits.view(np.dtype("V2"))


def answer(query, key, value, seen):
    """Every row sees a key."""
    repeat = query.shape[1] // key.shape[1]
    key, value = np.repeat(key, repeat, 1), np.repeat(value, repeat, 1)
    scores = query @ key.swapaxes(-1, -2) / np.sqrt(query.shape[-1])
    scores = np.where(seen, scores, -np.inf)
    most = scores.max(-1, keepdims=True)
    weights = np.exp(scores - most)
    total = weights.sum(-1, keepdims=True)
    return weights / total @ value, (most + np.log(total))[..., 0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--target", default="vulkan-coopmat")
    parser.add_argument("--attn-opt", default="build/bin/attn-opt")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)

    def compile_kernel(name, text):
        source = args.folder / f"{name}.mlir"
        source.write_text(text)
        subprocess.run(
            [args.attn_opt, source, f"--target={args.target}", "--emit=spv"]
            + ["-o", args.folder / f"{name}.spv"],
            check=True,
        )

    for dim, length, variant, element in TIMED:
        name = f"time-{element}-d{dim}-s{length}-{variant}"
        shape = 16384 // length, 2048 // dim, 2048 // dim, length, dim
        compile_kernel(name, module(*shape, variant, element))
    random = np.random.default_rng()
    for dim, variant, element in CHECKED:
        name = f"check-{element}-d{dim}-{variant}"
        batch, heads, groups, length = 2, 6, 2, 199
        compile_kernel(
            name, module(batch, heads, groups, length, dim, variant, element)
        )
        seen = np.ones((batch, 1, length, length), bool)
        if variant == "causal":
            seen = np.tril(seen)
        if variant == "mask":
            seen = random.random(seen.shape) < 0.5
            seen[..., 64:128] = False
            seen[..., 0] = True
            np.save(args.folder / f"{name}.mask.npy", seen)
        exact = []
        for part, count in ("query", heads), ("key", groups), ("value", groups):
            values = random.standard_normal((batch, count, length, dim))
            wide, stored = rounded(values, element)
            exact.append(wide)
            np.save(args.folder / f"{name}.{part}.npy", stored)
        output, lse = answer(*exact, seen)
        np.save(args.folder / f"{name}.output.npy", output.astype(np.float32))
        np.save(args.folder / f"{name}.lse.npy", lse)
    print(f"{len(TIMED)} kernels to time, {len(CHECKED)} to check: {args.folder}")


if __name__ == "__main__":
    main()
