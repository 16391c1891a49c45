#!/usr/bin/env python3
"""Times compiled gradients on an NVIDIA GPU beside PyTorch's: cuDNN, FlashAttention-2,
FlexAttention.

    test/bench/compile_cuda.py gradients --build build --backward      # anywhere
    test/bench/bench_cuda_backward.py gradients --json table.json      # where the GPU is

Needs torch, this file, bench_cuda.py, cuda_kernel.py and the folder. As bench_cuda.py: all
contenders of a case run in turn, several rounds, on fresh normal data with B*S = 16384 and
H = 2048/D. Our time is that of all kernels of the artifact. Before it is timed, our
gradients, poisoned with NaN as the workspace is, are compared with float64 on some heads,
beside cuDNN's on the same heads; or FlexAttention's, where cuDNN cannot do the case: window of
1024, softcap 20 and ALiBi, all causal, counted over visible scores. "grouped" is 32 heads on 8.
"""

import argparse
import math
import pathlib
import statistics
import sys

import torch
import torch.nn.functional as F
from bench_cuda import HIDDEN, TOKENS, TYPES, numbers, run_cases
from torch.nn.attention import SDPBackend, sdpa_kernel
from triton.testing import do_bench

# What an error beyond cuDNN's own may be, as a factor.
ERROR_BOUND = 1.1
GRADIENTS = ("query", "key", "value")
WINDOW, SOFTCAP = 1024, 20.0


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--element", default="bf16", choices=TYPES)
    parser.add_argument("--dims", type=numbers, default=[64, 128])
    parser.add_argument("--lengths", type=numbers, default=[1024, 4096, 16384])
    parser.add_argument("--masks", default="full,causal", help="also window, softcap, alibi, grouped")
    parser.add_argument("--peers", default="cudnn,flash", help="of cudnn, flash, flex; cudnn is always there")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rep", type=int, default=60, help="milliseconds a round and contender")
    parser.add_argument("--json", type=pathlib.Path)
    return parser.parse_args()


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
        if mask in ("window", "softcap", "alibi"):
            raise NotImplementedError(mask)
        with sdpa_kernel(backend):
            return F.scaled_dot_product_attention(
                q, k, v, is_causal=mask == "causal", enable_gqa=q.shape[1] != k.shape[1]
            )

    return forward


def slopes(heads):
    return -(2.0 ** (-8 * torch.arange(1, heads + 1, device="cuda", dtype=torch.float32) / heads))


def flex(q, k, v, mask):
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    length, slope = q.shape[2], slopes(q.shape[1])
    block_mask = None
    if mask == "window":
        block_mask = create_block_mask(
            lambda b, h, i, j: (i >= j) & (i - j < WINDOW), None, None, length, length, device="cuda"
        )
    elif mask not in ("full", "grouped"):
        block_mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, length, length, device="cuda")
    score_mod = {
        "softcap": lambda s, b, h, i, j: SOFTCAP * torch.tanh(s / SOFTCAP),
        "alibi": lambda s, b, h, i, j: s + slope[h] * (j - i),
    }.get(mask)
    torch._dynamo.reset()
    compiled = torch.compile(flex_attention, dynamic=False)
    return compiled(q, k, v, score_mod=score_mod, block_mask=block_mask, enable_gqa=q.shape[1] != k.shape[1])


PEERS = {
    "cudnn": differentiated(sdpa(SDPBackend.CUDNN_ATTENTION)),
    "flash": differentiated(sdpa(SDPBackend.FLASH_ATTENTION)),
    "flex": differentiated(flex),
}


def scores_of(q, k, mask, h, heads):
    """Final scores and their derivative, of one head, in the type of q."""
    length, slope = q.shape[0], 1
    scores = q @ k.T / math.sqrt(q.shape[-1])
    if mask == "softcap":
        tanh = torch.tanh(scores / SOFTCAP)
        scores, slope = SOFTCAP * tanh, 1 - tanh * tanh
    if mask in ("full", "grouped"):
        return scores, slope
    i = torch.arange(length, device="cuda")[:, None]
    j = torch.arange(length, device="cuda")[None, :]
    if mask == "alibi":
        scores += slopes(heads)[h].to(q.dtype) * (j - i)
    hidden = j > i
    if mask == "window":
        hidden |= i - j >= WINDOW
    return scores.masked_fill_(hidden, -math.inf), slope


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
    captures = [slopes(q.shape[1])] if mask == "alibi" else []
    gradients = [torch.empty_like(t) for t in (q, k, v)]

    def run(poison=False):
        if poison:
            for t in gradients:
                t.fill_(math.nan)
        kernel(q, k, v, output, lse, gradient, *captures, *gradients)
        return gradients

    return run


def visible_pairs(mask, length):
    if mask in ("full", "grouped"):
        return length * length
    if mask == "window":
        return sum(min(i + 1, WINDOW) for i in range(length))
    return length * length / 2


def run_case(args, kernel, dim, mask, length):
    heads, batch = HIDDEN // dim, max(TOKENS // length, 1)
    kv_heads = heads
    if mask == "grouped":
        heads, kv_heads, batch = 32, 8, max(batch // 2, 1)
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


if __name__ == "__main__":
    sys.exit(run_cases(options(), run_case, "gradient"))
