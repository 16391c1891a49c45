#!/usr/bin/env python3
"""Times compiled gradients on an NVIDIA GPU beside PyTorch's: cuDNN, FlashAttention-2,
FlexAttention.

    test/bench/compile_cuda.py gradients --build build --backward      # anywhere
    test/bench/bench_cuda_backward.py gradients --json table.json      # where the GPU is

Needs torch, this file, bench_cuda.py, cuda_kernel.py and the folder. As bench_cuda.py: all
contenders of a case run in turn, several rounds, on fresh normal data with B*S = 16384 and
H = 2048/D. Our time is that of all kernels of the artifact. Before it is timed, our
gradients, poisoned with NaN as the workspace is, are compared with float64 on some heads,
beside cuDNN's on the same heads.
"""

import argparse
import json
import math
import pathlib
import statistics
import sys

import torch
import torch.nn.functional as F
from bench_cuda import HIDDEN, MASKS, TOKENS, TYPES, find_artifact, machine, numbers, print_tables
from cuda_kernel import CudaKernel
from torch.nn.attention import SDPBackend, sdpa_kernel
from triton.testing import do_bench

# What an error beyond cuDNN's own may be, as a factor.
ERROR_BOUND = 1.1
GRADIENTS = ("query", "key", "value")


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--element", default="bf16", choices=TYPES)
    parser.add_argument("--dims", type=numbers, default=[64, 128])
    parser.add_argument("--lengths", type=numbers, default=[1024, 4096, 16384])
    parser.add_argument("--masks", default="full,causal")
    parser.add_argument("--peers", default="cudnn,flash", help="of cudnn, flash, flex; cudnn is always there")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rep", type=int, default=60, help="milliseconds a round and contender")
    parser.add_argument("--json", type=pathlib.Path)
    return parser.parse_args()


# ---------------------------------------------------------------------------
# Contenders: each a function of (q, k, v, gradient, causal) that returns a call.
# ---------------------------------------------------------------------------


def differentiated(forward):
    """The forward runs once; a call is the backward alone."""

    def bind(q, k, v, gradient, causal):
        inputs = [t.detach().requires_grad_() for t in (q, k, v)]
        output = forward(*inputs, causal)
        return lambda: torch.autograd.grad(output, inputs, gradient, retain_graph=True)

    return bind


def sdpa(backend):
    def forward(q, k, v, causal):
        with sdpa_kernel(backend):
            return F.scaled_dot_product_attention(q, k, v, is_causal=causal)

    return forward


def flex(q, k, v, causal):
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    length = q.shape[2]
    block_mask = None
    if causal:
        block_mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, length, length, device="cuda")
    torch._dynamo.reset()
    return torch.compile(flex_attention, dynamic=False)(q, k, v, block_mask=block_mask)


PEERS = {
    "cudnn": differentiated(sdpa(SDPBackend.CUDNN_ATTENTION)),
    "flash": differentiated(sdpa(SDPBackend.FLASH_ATTENTION)),
    "flex": differentiated(flex),
}


def forward_results(q, k, v, causal):
    """Output and natural lse."""
    results = torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, 0.0, causal)
    return results[0].contiguous(), results[1].contiguous()


# ---------------------------------------------------------------------------
# Correctness
# ---------------------------------------------------------------------------


def exact_gradients(q, k, v, gradient, causal, b, h):
    """Of one head, in float64."""
    q, k, v, gradient = (t[b, h].double() for t in (q, k, v, gradient))
    scale = 1 / math.sqrt(q.shape[-1])
    p = q @ k.T * scale
    if causal:
        p.masked_fill_(torch.ones_like(p, dtype=torch.bool).triu_(1), -math.inf)
    p = p.softmax(-1)
    ds = gradient @ v.T
    ds -= (p * ds).sum(-1, keepdim=True)
    ds *= p
    return ds @ k * scale, ds.T @ q * scale, p.T @ gradient


def errors(gradients, exact, heads):
    """Frobenius, a gradient."""
    result = {}
    for name, got, want in zip(GRADIENTS, gradients, zip(*exact)):
        wrong = sum((got[b, h].double() - w).square().sum().item() for (b, h), w in zip(heads, want))
        total = sum(w.square().sum().item() for w in want)
        result[name] = math.sqrt(wrong / total)
    return result


def check(run, tensors, causal, cudnn):
    """What is wrong, or None, and the errors."""
    q = tensors[0]
    ours = run(poison=True)
    torch.cuda.synchronize()
    heads = [(0, 0), (q.shape[0] - 1, q.shape[1] - 1)]
    exact = [exact_gradients(*tensors, causal, b, h) for b, h in heads]
    figures = {"errors": errors(ours, exact, heads), "cudnn_errors": errors(cudnn(), exact, heads)}
    figures["error"] = max(figures["errors"].values())
    for name, got in zip(GRADIENTS, ours):
        unwritten = torch.isnan(got).sum().item()
        if unwritten:
            return f"{unwritten} elements of the {name} gradient are NaN", figures
        mine, theirs = figures["errors"][name], figures["cudnn_errors"][name]
        if not mine <= ERROR_BOUND * theirs:
            return f"error of the {name} gradient {mine:.2e}, cuDNN's {theirs:.2e}", figures
    return None, figures


# ---------------------------------------------------------------------------
# Timing
# ---------------------------------------------------------------------------


def bind_kernel(kernel, q, k, v, gradient, causal):
    output, lse = forward_results(q, k, v, causal)
    gradients = [torch.empty_like(t) for t in (q, k, v)]

    def run(poison=False):
        if poison:
            for t in gradients:
                t.fill_(math.nan)
        kernel(q, k, v, output, lse, gradient, *gradients)
        return gradients

    return run


def run_case(args, kernel, dim, mask, length):
    causal, heads, batch = MASKS[mask], HIDDEN // dim, max(TOKENS // length, 1)
    shape = (batch, heads, length, dim)
    tensors = [torch.randn(shape, device="cuda", dtype=TYPES[args.element]) for _ in range(4)]
    case = {"dim": dim, "mask": mask, "length": length, "batch": batch, "heads": heads, "absent": {}}
    calls = {}
    if kernel:
        calls["ours"] = bind_kernel(kernel, *tensors, causal)
    for name in dict.fromkeys(["cudnn", *args.peers.split(",")]):
        try:
            call = PEERS[name](*tensors, causal)
            call()
            torch.cuda.synchronize()
            calls[name] = call
        except Exception as error:  # noqa: BLE001: a peer may fail in any way
            case["absent"][name] = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
    if kernel and "cudnn" in calls:
        case["problem"], figures = check(calls["ours"], tensors, causal, calls["cudnn"])
        case.update(figures)
    times = {name: [] for name in calls}
    for _ in range(args.rounds):
        for name, call in calls.items():
            times[name].append(do_bench(call, warmup=10, rep=args.rep, return_mode="median"))
    case["milliseconds"] = {name: statistics.median(t) for name, t in times.items()}
    flops = 10 * batch * heads * length * length * dim / (2 if causal else 1)
    case["tflops"] = {name: flops / ms * 1e-9 for name, ms in case["milliseconds"].items()}
    return case


def main():
    args = options()
    manifest = args.folder / "manifest.json"
    report = {"machine": machine(), "element": args.element, "seed": torch.seed(), "cases": []}
    report["kernels"] = json.loads(manifest.read_text()) if manifest.exists() else {}
    problems = []
    for dim in args.dims:
        for mask in args.masks.split(","):
            path = find_artifact(args, dim, mask)
            if not path:
                problems.append(f"D {dim} {mask}: no {args.element} artifact in {args.folder}")
            kernel = CudaKernel(path) if path else None
            for length in args.lengths:
                case = run_case(args, kernel, dim, mask, length)
                report["cases"].append(case)
                name = f"D {dim} {mask} S {length}"
                if case.get("problem"):
                    problems.append(f"{name}: {case['problem']}")
                for peer, why in case["absent"].items():
                    print(f"{name}: no {peer}: {why}")
                speeds = ", ".join(f"{n} {t:.0f}" for n, t in case["tflops"].items())
                print(f"{name}: {speeds} TFLOP/s, error {case.get('error', math.nan):.2e}", flush=True)
                if args.json:
                    args.json.write_text(json.dumps(report, indent=1) + "\n")
    print("\n".join(problems) if problems else "every gradient checked")
    print_tables(args, report["cases"])
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
