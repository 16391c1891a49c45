"""Speed of gradients, beside PyTorch's and our own forward: all in every round."""

import math
import re
import statistics

import numpy as np

from cpu_kernel import HEADS, LENGTH, TYPES, Kernel, from_bits, to_bits
from cpu_speed import race

# Relative error of a gradient that computes the same.
ERROR_BOUND = {"f32": 1e-5, "bf16": 2e-2}


def modules(element, dim, causal):
    """The forward with its lse, and the gradients."""
    tile, row = f"tensor<1x{HEADS}x{LENGTH}x{dim}x{element}>", f"tensor<1x{HEADS}x{LENGTH}xf32>"
    three = ", ".join([tile] * 3)
    clause = "causal" if causal else ""
    forward = (
        f"func.func @kernel(%q: {tile}, %k: {tile}, %v: {tile}) -> ({tile}, {row}) {{\n"
        f"  %o, %l = attn.attention %q, %k, %v {clause} : {three} -> {tile}, {row}\n"
        f"  return %o, %l : {tile}, {row}\n}}\n"
    )
    gradients = (
        f"func.func @kernel(%q: {tile}, %k: {tile}, %v: {tile}, %o: {tile}, %l: {row}, %g: {tile})"
        f" -> ({three}) {{\n"
        f"  %dq, %dk, %dv = attn.attention_backward %q, %k, %v, %o, %l, %g {clause}\n"
        f"    : {three}, {tile}, {row}, {tile} -> {three}\n"
        f"  return %dq, %dk, %dv : {three}\n}}\n"
    )
    return forward, gradients


def wide(array):
    return (from_bits(array) if array.dtype == np.uint16 else array).astype(np.float64)


def error(got, arrays, causal):
    """Against f64: the worst of the three gradients of one head."""
    q, k, v, g = (wide(a[0, 1]) for a in arrays)
    scale = 1 / math.sqrt(q.shape[1])
    scores = scale * (q @ k.T)
    if causal:
        scores[np.triu_indices(LENGTH, 1)] = -np.inf
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    of_p = g @ v.T
    of_scores = scale * p * (of_p - (p * of_p).sum(axis=1, keepdims=True))
    expected = (of_scores @ k, of_scores.T @ q, p.T @ g)
    return max(
        float(np.linalg.norm(wide(a)[0, 1] - e) / np.linalg.norm(e)) for a, e in zip(got, expected)
    )


def torch_gradients(args, element, causal, arrays):
    import torch

    torch.set_num_threads(args.threads)
    q, k, v, g = (torch.from_numpy(a).view(getattr(torch, TYPES[element])) for a in arrays)
    inputs = [t.detach().requires_grad_() for t in (q, k, v)]
    output = torch.nn.functional.scaled_dot_product_attention(*inputs, is_causal=causal)
    return lambda: torch.autograd.grad(output, inputs, g, retain_graph=True)


def measure(args, element, dim, causal):
    shape = (1, HEADS, LENGTH, dim)
    arrays = [
        np.random.default_rng([dim, i]).standard_normal(shape, dtype=np.float32) for i in range(4)
    ]
    if element == "bf16":
        arrays = [to_bits(a) for a in arrays]
    *operands, g = arrays
    empty = 0x7FC0 if element == "bf16" else np.nan
    output, *got = (np.full_like(arrays[0], empty) for _ in range(4))
    lse = np.full(shape[:3], np.nan, np.float32)
    forward, gradients = (Kernel(args.build, text, "cpu") for text in modules(element, dim, causal))
    runs = {
        "forward": forward.bind(*operands, output, lse),
        "ours": gradients.bind(*operands, output, lse, g, *got),
        "torch": torch_gradients(args, element, causal, arrays),
    }
    seconds = {n: statistics.median(t) for n, t in race(runs, args.rounds).items()}
    # Five products where the forward has two.
    work = 4 * HEADS * LENGTH**2 * dim / (2 if causal else 1)
    rate = {n: (1 if n == "forward" else 2.5) * work / s * 1e-9 for n, s in seconds.items()}
    return {
        "case": f"{element} D{dim} {'causal' if causal else 'full'}",
        "gflops": rate,
        "of_torch": rate["ours"] / rate["torch"],
        "of_forward": rate["ours"] / rate["forward"],
        "error": error(got, arrays, causal),
    }


def gradients(args):
    print(
        f"GFLOP/s: 10 B H S^2 D operations, the forward 4, half of them when causal; B1 H{HEADS} "
        f"S{LENGTH},\nmedians of {args.rounds} rounds, {args.threads} threads.\n"
    )
    row = "{:<16} {:>9} {:>9} {:>9} {:>9} {:>11} {:>9}".format
    print(row("case", "ours", "torch", "forward", "of torch", "of forward", "error"), flush=True)
    cases, wrong = [], []
    for element in TYPES:
        for dim in (64, 128):
            for causal in (False, True):
                if not re.search(args.only, f"{element} D{dim} {'causal' if causal else 'full'}"):
                    continue
                case = measure(args, element, dim, causal)
                cases.append(case)
                rates = [f"{case['gflops'][n]:.0f}" for n in ("ours", "torch", "forward")]
                ratios = [f"{case[n]:.2f}" for n in ("of_torch", "of_forward")]
                print(row(case["case"], *rates, *ratios, f"{case['error']:.1e}"), flush=True)
                # Not a number is off too.
                if not case["error"] <= ERROR_BOUND[element]:
                    wrong.append(f"{case['case']}: ours is off by {case['error']:.1e}")
    means = {
        n: statistics.geometric_mean(c[n] for c in cases) for n in ("of_torch", "of_forward") if cases
    }
    print("\nGeometric means: " + ", ".join(f"{n.replace('_', ' ')} {m:.2f}" for n, m in means.items()))
    return {"cases": cases, "geometric_means": means}, wrong
