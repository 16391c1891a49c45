#!/usr/bin/env python3
"""Kernels for a Vulkan device, to be checked and timed by bench_vulkan.py.

    compile_vulkan.py FOLDER [--target=vulkan-coopmat] [--attn-opt=build/bin/attn-opt]
                      [--gradients]

A device is often a machine without a compiler: FOLDER holds all that it needs but
attn-launch-static. Problems to be timed have B S = 16384 and H D = 2048, gradients B S =
4096; those to be checked are short, have tails and groups, and come with inputs and the
answer in f64. f32, and f16 in the kernels named "lanes", is multiplied without matrices, and
so are gradients. Needs numpy.
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

GRADIENTS = [
    (dim, causal, element)
    for dim in (64, 128)
    for causal in (False, True)
    for element in ("f32", "f16", "bf16")
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


def gradient_module(batch, heads, groups, length, dim, causal, element):
    query = f"tensor<{batch}x{heads}x{length}x{dim}x{element}>"
    key = f"tensor<{batch}x{groups}x{length}x{dim}x{element}>"
    lse = f"tensor<{batch}x{heads}x{length}xf32>"
    word = " causal" if causal else ""
    return f"""func.func @gradients(%q: {query}, %k: {key}, %v: {key}, %o: {query}, %l: {lse}, %do: {query})
    -> ({query}, {key}, {key}) {{
  %g:3 = attn.attention_backward %q, %k, %v, %o, %l, %do{word}
    : {query}, {key}, {key}, {query}, {lse}, {query} -> {query}, {key}, {key}
  return %g#0, %g#1, %g#2 : {query}, {key}, {key}
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


def gradients(query, key, value, output, lse, gradient, seen):
    groups, repeat = key.shape[1], query.shape[1] // key.shape[1]
    keys, values = np.repeat(key, repeat, 1), np.repeat(value, repeat, 1)
    scale = 1 / np.sqrt(query.shape[-1])
    weights = np.exp(query @ keys.swapaxes(-1, -2) * scale - lse[..., None])
    weights = np.where(seen, weights, 0)
    delta = (gradient * output).sum(-1, keepdims=True)
    slopes = weights * (gradient @ values.swapaxes(-1, -2) - delta) * scale

    def summed(each):  # over the heads of a group
        return each.reshape(len(each), groups, repeat, *each.shape[2:]).sum(2)

    return {
        "query_gradient": slopes @ keys,
        "key_gradient": summed(slopes.swapaxes(-1, -2) @ query),
        "value_gradient": summed(weights.swapaxes(-1, -2) @ gradient),
    }


def write_gradients(folder, compile_kernel):
    random = np.random.default_rng()
    for dim, causal, element in GRADIENTS:
        kind = f"grad-{element}-d{dim}-{'causal' if causal else 'full'}"
        length, heads = 4096, 2048 // dim
        text = gradient_module(1, heads, heads, length, dim, causal, element)
        compile_kernel(f"time-{kind}", text)
        batch, heads, groups, length = 2, 6, 2, 199
        text = gradient_module(batch, heads, groups, length, dim, causal, element)
        compile_kernel(f"check-{kind}", text)

        def save(part, values, form):
            wide, stored = rounded(values, form)
            np.save(folder / f"check-{kind}.{part}.npy", stored)
            return wide

        exact = [
            save(part, random.standard_normal((batch, count, length, dim)), element)
            for part, count in (("query", heads), ("key", groups), ("value", groups))
        ]
        seen = np.ones((length, length), bool)
        seen = np.tril(seen) if causal else seen
        output, lse = answer(*exact, seen)
        exact += [save("output", output, element), save("lse", lse, "f32")]
        drawn = random.standard_normal(output.shape)
        exact.append(save("output_gradient", drawn, element))
        for part, values in gradients(*exact, seen).items():
            np.save(folder / f"check-{kind}.{part}.npy", values.astype(np.float32))
    print(f"{len(GRADIENTS)} gradients to time and to check: {folder}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--target", default="vulkan-coopmat")
    parser.add_argument("--attn-opt", default="build/bin/attn-opt")
    parser.add_argument("--gradients", action="store_true")
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

    if args.gradients:
        return write_gradients(args.folder, compile_kernel)
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
