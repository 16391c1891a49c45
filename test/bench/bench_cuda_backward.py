#!/usr/bin/env python3
"""Times compiled gradients on an NVIDIA GPU beside PyTorch's: cuDNN, FlashAttention-2,
FlexAttention.

    test/bench/compile_cuda.py gradients --build build --backward      # anywhere
    test/bench/bench_cuda_backward.py gradients --json table.json      # where the GPU is

Needs torch, the CUDA scripts of this folder and the folder. As bench_cuda.py: all
contenders of a case run in turn, several rounds, on fresh normal data with B*S = 16384 and
H = 2048/D. Our time is that of all kernels of the artifact. Before it is timed, our
gradients, poisoned with NaN as the workspace is, are compared with float64 on some heads,
beside cuDNN's on the same heads; or FlexAttention's, where cuDNN cannot do the case. Pairs are
counted over visible scores.

--memory measures what a launch takes of the GPU's memory beside operands and gradients, as the
driver counts it, at lengths of 8k, 32k and 128k unless --lengths names others.
"""

import argparse
import math
import pathlib
import statistics
import sys

import torch
import torch.nn.functional as F
from bench_cuda import TYPES, find_artifact, numbers, run_cases
from compile_cuda import HIDDEN, heads_of
from cuda_kernel import CudaKernel, evaluate
from cuda_masks import PLAIN, batches, bind_flex, captures, is_causal, scores_of, visible_pairs
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
    parser.add_argument("--lengths", type=numbers)
    parser.add_argument("--masks", default="full,causal", help="also window, softcap, alibi, grouped")
    parser.add_argument("--peers", default="cudnn,flash", help="of cudnn, flash, flex; cudnn is always there")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rep", type=int, default=60, help="milliseconds a round and contender")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--memory", action="store_true", help="bytes in place of times")
    args = parser.parse_args()
    args.lengths = args.lengths or ([8192, 32768, 131072] if args.memory else [1024, 4096, 16384])
    return args


# ---------------------------------------------------------------------------
# Contenders: each a function of (q, k, v, gradient, mask) that returns a call.
# ---------------------------------------------------------------------------


def differentiated(forward):
    """The forward runs once; a call is the backward alone."""

    def bind(q, k, v, gradient, mask):
        inputs = [t.detach().requires_grad_() for t in (q, k, v)]
        output = forward(*inputs, mask)
        return lambda: torch.autograd.grad(output, inputs, gradient, retain_graph=True)

    return bind


def sdpa(backend):
    def forward(q, k, v, mask):
        if mask not in PLAIN:
            raise NotImplementedError(mask)
        with sdpa_kernel(backend):
            return F.scaled_dot_product_attention(
                q, k, v, is_causal=is_causal(mask), enable_gqa=q.shape[1] != k.shape[1]
            )

    return forward


def flex(q, k, v, mask):
    return bind_flex(q, k, v, mask)()


PEERS = {
    "cudnn": differentiated(sdpa(SDPBackend.CUDNN_ATTENTION)),
    "flash": differentiated(sdpa(SDPBackend.FLASH_ATTENTION)),
    "flex": differentiated(flex),
}


def forward_results(q, k, v, mask):
    """Output and natural lse."""
    if mask in ("full", "causal"):
        results = torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, 0.0, mask == "causal")
        return results[0].contiguous(), results[1].contiguous()
    output, lse = torch.empty_like(q), torch.empty(q.shape[:3], device="cuda")
    ratio = q.shape[1] // k.shape[1]
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            scores, _ = scores_of(q[b, h].float(), k[b, h // ratio].float(), mask, h, q.shape[1])
            lse[b, h] = torch.logsumexp(scores, -1)
            output[b, h] = (torch.softmax(scores, -1) @ v[b, h // ratio].float()).to(q.dtype)
    return output, lse


# ---------------------------------------------------------------------------
# Correctness
# ---------------------------------------------------------------------------


def exact_gradients(q, k, v, gradient, mask, b, kv_head):
    """Of one key/value head and its first query head, in float64."""
    ratio = q.shape[1] // k.shape[1]
    scale = 1 / math.sqrt(q.shape[-1])
    key, value = k[b, kv_head].double(), v[b, kv_head].double()
    of_query, of_key, of_value = None, 0, 0
    for h in range(kv_head * ratio, (kv_head + 1) * ratio):
        query, of_output = q[b, h].double(), gradient[b, h].double()
        p, slope = scores_of(query, key, mask, h, q.shape[1])
        p = p.softmax(-1)
        ds = of_output @ value.T
        ds -= (p * ds).sum(-1, keepdim=True)
        ds *= p
        ds *= slope
        of_query = ds @ key * scale if of_query is None else of_query
        of_key, of_value = of_key + ds.T @ query * scale, of_value + p.T @ of_output
    return of_query, of_key, of_value


def errors(gradients, exact, heads):
    """Frobenius, a gradient; `heads` are of keys and values."""
    result = {}
    ratio = gradients[0].shape[1] // gradients[1].shape[1]
    for name, got, want in zip(GRADIENTS, gradients, zip(*exact)):
        got = got[:, ::ratio] if name == "query" else got
        wrong = sum((got[b, h].double() - w).square().sum().item() for (b, h), w in zip(heads, want))
        total = sum(w.square().sum().item() for w in want)
        result[name] = math.sqrt(wrong / total)
    return result


def check(run, tensors, mask, peer):
    """What is wrong, or None, and the errors."""
    k = tensors[1]
    ours = run(poison=True)
    torch.cuda.synchronize()
    heads = [(0, 0), (k.shape[0] - 1, k.shape[1] - 1)]
    exact = [exact_gradients(*tensors, mask, b, h) for b, h in heads]
    figures = {"errors": errors(ours, exact, heads), "peer_errors": errors(peer(), exact, heads)}
    figures["error"] = max(figures["errors"].values())
    for name, got in zip(GRADIENTS, ours):
        unwritten = torch.isnan(got).sum().item()
        if unwritten:
            return f"{unwritten} elements of the {name} gradient are NaN", figures
        mine, theirs = figures["errors"][name], figures["peer_errors"][name]
        if not mine <= ERROR_BOUND * theirs:
            return f"error of the {name} gradient {mine:.2e}, the peer's {theirs:.2e}", figures
    return None, figures


# ---------------------------------------------------------------------------
# Timing
# ---------------------------------------------------------------------------


def bind_kernel(kernel, q, k, v, gradient, mask):
    output, lse = forward_results(q, k, v, mask)
    operands = captures(mask, q.shape[0], q.shape[1], q.shape[2])
    gradients = [torch.empty_like(t) for t in (q, k, v)]

    def run(poison=False):
        if poison:
            for t in gradients:
                t.fill_(math.nan)
        kernel(q, k, v, output, lse, gradient, *operands, *gradients)
        return gradients

    return run


def run_case(args, kernel, dim, mask, length):
    heads, kv_heads = heads_of(mask, dim)
    batch = batches(mask, length)
    shapes = [(batch, h, length, dim) for h in (heads, kv_heads, kv_heads, heads)]
    tensors = [torch.randn(shape, device="cuda", dtype=TYPES[args.element]) for shape in shapes]
    case = {"dim": dim, "mask": mask, "length": length, "batch": batch, "heads": heads, "absent": {}}
    calls = {}
    if kernel:
        calls["ours"] = bind_kernel(kernel, *tensors, mask)
    for name in dict.fromkeys(["cudnn", *args.peers.split(",")]):
        try:
            call = PEERS[name](*tensors, mask)
            call()
            torch.cuda.synchronize()
            calls[name] = call
        except Exception as error:  # noqa: BLE001: a peer may fail in any way
            case["absent"][name] = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
    peer = calls.get("cudnn", calls.get("flex"))
    if kernel and peer:
        case["problem"], figures = check(calls["ours"], tensors, mask, peer)
        case.update(figures)
    times = {name: [] for name in calls}
    for _ in range(args.rounds):
        for name, call in calls.items():
            times[name].append(do_bench(call, warmup=10, rep=args.rep, return_mode="median"))
    case["milliseconds"] = {name: statistics.median(t) for name, t in times.items()}
    flops = 10 * batch * heads * visible_pairs(mask, length) * dim
    case["tflops"] = {name: flops / ms * 1e-9 for name, ms in case["milliseconds"].items()}
    return case


def measure_memory(args):
    """One batch; the lse, which the forward keeps, counts."""
    print(f"{'':22}{'MiB':>9}{'bytes a row':>13}{'workspace, lse':>16}{'N x N':>12}")
    for dim in args.dims:
        for mask in args.masks.split(","):
            kernel = CudaKernel(find_artifact(args, dim, mask))
            for length in args.lengths:
                shape = (1, HIDDEN // dim, length, dim)
                tensors = [torch.randn(shape, device="cuda", dtype=TYPES[args.element]) for _ in range(8)]
                torch.cuda.synchronize()
                torch.cuda.empty_cache()
                before = torch.cuda.mem_get_info()[0]
                lse = torch.zeros(shape[:3], device="cuda")
                kernel(*tensors[:4], lse, *tensors[4:])
                torch.cuda.synchronize()
                taken = before - torch.cuda.mem_get_info()[0]
                sizes = kernel.bind_sizes([*tensors[:4], lse, *tensors[4:]])
                counted = evaluate(kernel.description["workspace_bytes"], sizes) + 4 * lse.numel()
                pairs = lse.numel() * length * tensors[0].element_size()
                name = f"D {dim} {mask} S {length}"
                mib = [n / (1 << 20) for n in (taken, counted, pairs)]
                print(f"{name:22}{mib[0]:9.1f}{taken / lse.numel():13.1f}{mib[1]:16.1f}{mib[2]:12.0f}", flush=True)
                kernel.launches.clear()
                del tensors, lse
    return 0


if __name__ == "__main__":
    args = options()
    sys.exit(measure_memory(args) if args.memory else run_cases(args, run_case, "gradient"))
