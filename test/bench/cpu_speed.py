"""Speed, beside the peers and the machine's limit: every contender in every round."""

import math
import re
import statistics
import time

import numpy as np

import cpu_peers
from cpu_kernel import HEADS, LENGTH, TYPES, from_bits, ours, to_bits

# A contender that misses this computes something else.
ERROR_BOUND = {"f32": 5e-6, "bf16": 1.5e-2}
# Of the product of AVX2 kernels, for AVX2 code.
AVX2_BOUND = 0.75


def inputs(element, dim):
    shape = (1, HEADS, LENGTH, dim)
    made = [np.random.default_rng([dim, i]).standard_normal(shape, dtype=np.float32) for i in range(3)]
    return [to_bits(a) for a in made] if element == "bf16" else made


def error(output, arrays, causal, element):
    """Against f64: the worst of some rows of the first and last head."""
    wide = lambda a: (from_bits(a) if element == "bf16" else a).astype(np.float64)
    rows = []
    for head in (0, HEADS - 1):
        q, k, v, o = (wide(a[0, head]) for a in (*arrays, output))
        for row in (0, 1, 63, 777, LENGTH - 1):
            keys = row + 1 if causal else LENGTH
            scores = k[:keys] @ q[row] / math.sqrt(q.shape[1])
            weights = np.exp(scores - scores.max())
            expected = weights @ v[:keys] / weights.sum()
            rows.append(np.linalg.norm(o[row] - expected) / np.linalg.norm(expected))
    return float(np.max(rows))


def race(contenders, rounds):
    """Times of each, in seconds: every round all of them, in turn."""
    times = {name: [] for name in contenders}
    for number in range(-2, rounds):
        for name, run in contenders.items():
            run()
            start = time.perf_counter()
            run()
            if number >= 0:
                times[name].append(time.perf_counter() - start)
    return times


def contenders(args):
    """Name to maker; the first is ours."""
    if args.avx2:
        return {"ours avx2": lambda *c: ours(args, *c, "cpu:avx2")}
    return {
        "ours": lambda *c: ours(args, *c, "cpu"),
        "torch": lambda *c: cpu_peers.torch_sdpa(args, *c),
        "ort MHA": lambda *c: cpu_peers.onnxruntime_attention(args, *c, "MultiHeadAttention"),
        "ort GQA": lambda *c: cpu_peers.onnxruntime_attention(args, *c, "GroupQueryAttention"),
        "openvino": lambda *c: cpu_peers.openvino_sdpa(args, *c),
    }


def prepare(makers, case, arrays):
    """Calls, outputs, and the words of peers that do not take the case."""
    runs, outputs, refused = {}, {}, {}
    for number, (name, make) in enumerate(makers.items()):
        try:
            run, output = make(*case, arrays)
            run()
        except Exception as reason:
            if number == 0:
                raise
            refused[name] = str(reason).strip().splitlines()[-1]
        else:
            runs[name], outputs[name] = run, output
    return runs, outputs, refused


def measure(makers, limit, case, rounds):
    """The record of one case."""
    element, dim, causal = case
    arrays = inputs(element, dim)
    runs, outputs, refused = prepare(makers, case, arrays)
    limit_name, product, limit_work = limit
    times = race(runs | {limit_name: product}, rounds)
    work = dict.fromkeys(runs, 4 * HEADS * LENGTH**2 * dim // (2 if causal else 1))
    work[limit_name] = limit_work
    rate = {n: work[n] / statistics.median(t) * 1e-9 for n, t in times.items()}
    errors = {n: error(outputs[n](), arrays, causal, element) for n in runs}
    me, *peers = makers
    # Not a number is off too. A peer that is off is no peer.
    off = [n for n, e in errors.items() if not e <= ERROR_BOUND[element]]
    refused |= {n: f"off by {errors[n]:.1e}" for n in off if n != me}
    best = max((rate[n] for n in peers if n in rate and n not in off), default=None)
    return {
        "case": f"{element} D{dim} {'causal' if causal else 'full'}",
        "gflops": rate,
        "limit": limit_name,
        "of_best_peer": best and rate[me] / best,
        "of_limit": rate[me] / rate[limit_name],
        "errors": errors,
        "wrong": me in off,
        "refused": refused,
        "milliseconds": {n: [1e3 * seconds for seconds in t] for n, t in times.items()},
    }


def summary(cases):
    """Geometric means of the ratios."""
    means = {}
    if compared := [c["of_best_peer"] for c in cases if c["of_best_peer"]]:
        means["of_best_peer"] = statistics.geometric_mean(compared)
        means["of_best_peer_lowest"] = min(compared)
    for element in TYPES:
        if part := [c["of_limit"] for c in cases if c["case"].startswith(element)]:
            means[f"of_limit_{element}"] = statistics.geometric_mean(part)
    return means


def speed(args):
    makers, limits = contenders(args), cpu_peers.matrix_products(args)
    me = next(iter(makers))
    row = ("{:<16}" + "{:>9} " * (len(makers) + 1) + "{:>8} {:>8} {:>9}").format
    print(
        f"GFLOP/s: 4 B H S^2 D operations, half of them when causal; B1 H{HEADS} S{LENGTH}, "
        f"medians of {args.rounds} rounds, {args.threads} threads.\n"
        "limit: a product of 3072 x 3072 matrices, f32 by OpenBLAS"
        + (" held to its AVX2 kernels\n" if args.avx2 else ", bf16 by torch\n")
    )
    print(row("case", *makers, "limit", "of best", "of limit", "error"), flush=True)
    cases = []
    for element in ("f32",) if args.avx2 else TYPES:
        for dim in (64, 128):
            for causal in (False, True):
                if not re.search(args.only, f"{element} D{dim} {'causal' if causal else 'full'}"):
                    continue
                case = measure(makers, limits[element], (element, dim, causal), args.rounds)
                cases.append(case)
                rate = case["gflops"]
                cells = [f"{rate[n]:.0f}" if n in rate else "-" for n in (*makers, case["limit"])]
                best = f"{case['of_best_peer']:.2f}" if case["of_best_peer"] else "-"
                error = f"{case['errors'][me]:.1e}"
                print(row(case["case"], *cells, best, f"{case['of_limit']:.2f}", error), flush=True)
    means = summary(cases)
    print("\nGeometric means: " + ", ".join(f"{n.replace('_', ' ')} {m:.2f}" for n, m in means.items()))
    for case in cases:
        for name, reason in case["refused"].items():
            print(f"  {case['case']}, {name}: {reason[:100]}")
    wrong = [f"{c['case']}: ours is off by {c['errors'][me]:.1e}" for c in cases if c["wrong"]]
    if args.avx2:
        low = [c for c in cases if c["of_limit"] < AVX2_BOUND]
        wrong += [f"{c['case']}: {c['of_limit']:.2f} of the limit, less than {AVX2_BOUND}" for c in low]
    return {"cases": cases, "geometric_means": means}, wrong
