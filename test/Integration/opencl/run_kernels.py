"""Runs OpenCL kernels of several variants and compares them with float64.

    run_kernels.py [--attn-opt=attn-opt]

Prints a line a kernel, and the device. The exit status is 1 when one is wrong.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

from opencl import Device

# element, queries, keys, head dimension, of values, words behind the operands
CASES = [
    ("f32", 70, 90, 40, 40, ""),
    ("f32", 33, 33, 64, 64, "causal"),
    ("f16", 65, 97, 64, 64, "causal"),
    ("bf16", 31, 130, 59, 24, "window(40, 3)"),
    ("f32", 64, 64, 16, 16, "softcap(5.0)"),
    ("f32", 40, 72, 32, 32, "mask"),
]
BATCH, HEADS, GROUPS = 2, 6, 2
# Rounding the output, and f32 sums.
MOST = {"f32": 2e-6, "f16": 6e-4, "bf16": 5e-3}


def module(element, queries, keys, depth, width, words):
    q = f"tensor<{BATCH}x{HEADS}x{queries}x{depth}x{element}>"
    k = f"tensor<{BATCH}x{GROUPS}x{keys}x{depth}x{element}>"
    v = f"tensor<{BATCH}x{GROUPS}x{keys}x{width}x{element}>"
    o = f"tensor<{BATCH}x{HEADS}x{queries}x{width}x{element}>"
    mask = f"tensor<{BATCH}x1x{queries}x{keys}xi1>"
    if words == "mask":
        return f"""func.func @attention(%q: {q}, %k: {k}, %v: {v}, %m: {mask}) -> {o} {{
  %o = attn.attention %q, %k, %v mask(%m : {mask}) : {q}, {k}, {v} -> {o}
  return %o : {o}
}}
"""
    return f"""func.func @attention(%q: {q}, %k: {k}, %v: {v}) -> {o} {{
  %o = attn.attention %q, %k, %v {words} : {q}, {k}, {v} -> {o}
  return %o : {o}
}}
"""


def rounded(values, element):
    """As memory has them, and in float64."""
    if element == "bf16":
        bits = values.astype(np.float32).view(np.uint32)
        stored = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    else:
        stored = values.astype({"f32": np.float32, "f16": np.float16}[element])
    return stored, widened(stored, element)


def widened(stored, element):
    if element == "bf16":
        stored = (stored.astype(np.uint32) << 16).view(np.float32)
    return stored.astype(np.float64)


def visible(queries, keys, words, mask):
    distance = np.arange(keys) - np.arange(queries)[:, None]
    if words == "causal":
        return distance <= 0
    if words.startswith("window"):
        return (distance >= -40) & (distance <= 3)
    return mask if words == "mask" else np.ones((queries, keys), bool)


def answer(query, key, value, seen, words):
    key, value = (np.repeat(x, HEADS // GROUPS, 1) for x in (key, value))
    scores = query @ key.swapaxes(-1, -2) / np.sqrt(query.shape[-1])
    if words.startswith("softcap"):
        scores = 5 * np.tanh(scores / 5)
    scores = np.where(seen, scores, -np.inf)
    most = scores.max(-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isfinite(most), most, 0))
    total = weights.sum(-1, keepdims=True)
    return np.divide(weights, total, out=np.zeros_like(weights), where=total > 0) @ value


def check(device, attn_opt, folder, case):
    element, queries, keys, depth, width, words = case
    path = folder / "kernel.spv"
    subprocess.run([attn_opt, "-", "--target=opencl", "--emit=spv", "-o", path],
                   input=module(*case), text=True, check=True)
    launch = json.loads(pathlib.Path(f"{path}.json").read_text())
    random = np.random.default_rng()
    shapes = ((HEADS, queries, depth), (GROUPS, keys, depth), (GROUPS, keys, width))
    arrays, exact = zip(*(rounded(random.standard_normal((BATCH, *s)), element) for s in shapes))
    mask = random.random((BATCH, 1, queries, keys)) < 0.6
    mask[:, :, 3] = False
    output = np.full((BATCH, HEADS, queries, width), 0x7FFF, np.uint16)
    output = rounded(np.full(output.shape, np.nan), element)[0]
    inputs = [*arrays, mask.view(np.uint8)] if words == "mask" else list(arrays)
    # Formulas without a size: every shape is stated.
    size = {"min": min, "max": max, "ceildiv": lambda a, b: -(-a // b)}
    launch["grid_sizes"] = [eval(text, {"__builtins__": {}}, size) for text in launch["grid"]]
    device.launch(path, launch, [*inputs, output], [])
    expected = answer(*exact, visible(queries, keys, words, mask), words)
    error = np.linalg.norm(widened(output, element) - expected) / np.linalg.norm(expected)
    return error, bool(error <= MOST[element])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--attn-opt", default="attn-opt")
    args = parser.parse_args()
    device = Device()
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            error, good = check(device, args.attn_opt, pathlib.Path(folder), case)
            wrong += not good
            print(f"{case}: error {error:.1e}{'' if good else ' WRONG'}")
    print(f"{len(CASES) - wrong} of {len(CASES)} kernels are right on {device.name}")
    return wrong != 0


if __name__ == "__main__":
    sys.exit(main())
