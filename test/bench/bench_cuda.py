#!/usr/bin/env python3
"""Times compiled attention on an NVIDIA GPU beside PyTorch's: cuDNN, FlashAttention-2,
FlexAttention.

    test/bench/compile_cuda.py kernels --build build      # anywhere
    test/bench/bench_cuda.py kernels --json table.json    # where the GPU is

Needs torch, this file, compile_cuda.py, cuda_kernel.py, cuda_masks.py, which says what masks there
are, and the folder. All contenders of a case run in turn, several rounds, on fresh normal data with
B*S = 16384 and H = 2048/D, half of it for grouped heads; a figure is
the median over the rounds of the medians of triton.testing.do_bench. Before it is timed,
our output, poisoned with NaN, is compared with float64 on some rows, beside cuDNN's or, where
that cannot do the case, FlexAttention's on the same rows, and run again: the bits have to be the same. The table is the last thing
that is printed.
"""

import argparse
import json
import math
import pathlib
import statistics
import subprocess
import sys

import torch
import torch.nn.functional as F
from compile_cuda import heads_of
from cuda_kernel import CudaKernel
from cuda_masks import PLAIN, batches, bind_flex, captures, is_causal, scores_of, visible_pairs
from torch.nn.attention import SDPBackend, sdpa_kernel
from triton.testing import do_bench

TYPES = {"bf16": torch.bfloat16, "f16": torch.float16}
# What an error beyond cuDNN's own may be, as a factor.
ERROR_BOUND = 1.1


def numbers(text):
    return [int(n) for n in text.split(",")]


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--element", default="bf16", choices=TYPES)
    parser.add_argument("--dims", type=numbers, default=[64, 128, 256])
    parser.add_argument("--lengths", type=numbers, default=[512, 1024, 2048, 4096, 8192, 16384])
    parser.add_argument("--masks", default="full,causal")
    parser.add_argument("--peers", default="cudnn,flash,flex", help="in turn with ours; cudnn is always there")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rep", type=int, default=60, help="milliseconds a round and contender")
    parser.add_argument("--json", type=pathlib.Path)
    return parser.parse_args()


# ---------------------------------------------------------------------------
# Contenders: each a function of (q, k, v, mask) that returns a call.
# ---------------------------------------------------------------------------


def sdpa(backend):
    def bind(q, k, v, mask):
        if mask not in PLAIN:
            raise NotImplementedError(mask)

        def call():
            with sdpa_kernel(backend):
                return F.scaled_dot_product_attention(
                    q, k, v, is_causal=is_causal(mask), enable_gqa=q.shape[1] != k.shape[1]
                )

        return call

    return bind


PEERS = {"cudnn": sdpa(SDPBackend.CUDNN_ATTENTION), "flash": sdpa(SDPBackend.FLASH_ATTENTION), "flex": bind_flex}


def find_artifact(args, dim, mask):
    for extension in ("cubin", "ptx"):
        path = args.folder / f"{args.element}-d{dim}-{mask}.{extension}"
        if path.exists():
            return path
    return None


# ---------------------------------------------------------------------------
# Correctness
# ---------------------------------------------------------------------------


def sample_rows(length, count=96):
    """The first and last rows, and others at random."""
    rows = torch.randint(0, length, (count,), device="cuda")
    return torch.unique(torch.cat([rows, torch.tensor([0, 1, length - 2, length - 1], device="cuda")]))


def relative_error(output, q, k, v, mask, rows, heads):
    """Frobenius, against float64, over some rows of some heads."""
    wrong = total = 0.0
    ratio = q.shape[1] // k.shape[1]
    for b, h in heads:
        scores, _ = scores_of(q[b, h, rows].double(), k[b, h // ratio].double(), mask, h, q.shape[1], rows)
        exact = scores.softmax(-1) @ v[b, h // ratio].double()
        wrong += (output[b, h, rows].double() - exact).square().sum().item()
        total += exact.square().sum().item()
    return math.sqrt(wrong / total)


def check(run, q, k, v, mask, peer):
    """What is wrong, or None, and the two errors."""
    outputs = [torch.full_like(q, math.nan) for _ in range(2)]
    for output in outputs:
        run(output)
    torch.cuda.synchronize()
    rows = sample_rows(q.shape[2])
    heads = [(0, 0), (q.shape[0] - 1, q.shape[1] - 1), (q.shape[0] // 2, q.shape[1] // 2)]
    ours = relative_error(outputs[0], q, k, v, mask, rows, heads)
    theirs = relative_error(peer(), q, k, v, mask, rows, heads)
    figures = {"error": ours, "peer_error": theirs}
    unwritten = torch.isnan(outputs[0]).sum().item()
    if unwritten:
        return f"{unwritten} elements are NaN", figures
    if not torch.equal(outputs[0].view(torch.int16), outputs[1].view(torch.int16)):
        return "two runs differ", figures
    if not ours <= ERROR_BOUND * theirs:
        return f"error {ours:.2e}, the peer's {theirs:.2e}", figures
    return None, figures


# ---------------------------------------------------------------------------
# Timing
# ---------------------------------------------------------------------------


def bind_kernel(kernel, q, k, v, mask):
    """A call of ours on an output."""
    operands = [q, k, v, *captures(mask, q.shape[0], q.shape[1], q.shape[2])]
    behind = [torch.empty(q.shape[:3], device="cuda")] if mask == "lse" else []
    return lambda output: kernel(*operands, output, *behind)


def contenders(args, run, q, k, v, mask):
    """Calls by name; a peer that cannot do the case is left out and named."""
    calls, absent = {}, {}
    if run:
        output = torch.empty_like(q)
        calls["ours"] = lambda: run(output)
    for name in dict.fromkeys(["cudnn", *args.peers.split(",")]):
        try:
            call = PEERS[name](q, k, v, mask)
            call()
            torch.cuda.synchronize()
            calls[name] = call
        except Exception as error:  # noqa: BLE001: a peer may fail in any way
            absent[name] = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
    return calls, absent


def run_case(args, kernel, dim, mask, length):
    heads, kv_heads = heads_of(mask, dim)
    batch = batches(mask, length)
    q, k, v = (
        torch.randn((batch, h, length, dim), device="cuda", dtype=TYPES[args.element])
        for h in (heads, kv_heads, kv_heads)
    )
    case = {"dim": dim, "mask": mask, "length": length, "batch": batch, "heads": heads}
    run = bind_kernel(kernel, q, k, v, mask) if kernel else None
    calls, case["absent"] = contenders(args, run, q, k, v, mask)
    peer = calls.get("cudnn", calls.get("flex"))
    if kernel and peer:
        case["problem"], figures = check(run, q, k, v, mask, peer)
        case.update(figures)
    times = {name: [] for name in calls}
    for _ in range(args.rounds):
        for name, call in calls.items():
            times[name].append(do_bench(call, warmup=10, rep=args.rep, return_mode="median"))
    case["milliseconds"] = {name: statistics.median(t) for name, t in times.items()}
    flops = 4 * batch * heads * visible_pairs(mask, length) * dim
    case["tflops"] = {name: flops / ms * 1e-9 for name, ms in case["milliseconds"].items()}
    return case


# ---------------------------------------------------------------------------
# The report
# ---------------------------------------------------------------------------


def ratio(case, peer):
    times = case["milliseconds"]
    return times[peer] / times["ours"] if peer in times and "ours" in times else None


def geometric_mean(values):
    values = [v for v in values if v]
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None


def text_of(value, width, digits=2):
    return f"{value:{width}.{digits}f}" if value else f"{'-':>{width}}"


def print_tables(args, cases):
    lengths = sorted({c["length"] for c in cases})
    header = "".join(f"{length:>12}" for length in lengths)
    for peer in dict.fromkeys(["cudnn", *args.peers.split(",")]):
        print(f"\nratio to {peer} (our TFLOP/s), {args.element}\n{'':12}{header}{'mean':>8}")
        for dim in args.dims:
            for mask in args.masks.split(","):
                row = {c["length"]: c for c in cases if c["dim"] == dim and c["mask"] == mask}
                line = f"D {dim:<3} {mask:6.6}"
                for length in lengths:
                    case = row.get(length)
                    known = case and ratio(case, peer)
                    line += f"{text_of(known, 6)} ({case['tflops']['ours']:3.0f})" if known else f"{'-':>12}"
                print(line + text_of(geometric_mean([ratio(c, peer) for c in row.values()]), 8, 3))
        print(f"geometric mean {text_of(geometric_mean([ratio(c, peer) for c in cases]), 5, 3)}")


def machine():
    query = "nvidia-smi --query-gpu=driver_version,clocks.sm,power.limit --format=csv,noheader"
    try:
        state = subprocess.run(query.split(), capture_output=True, text=True).stdout.strip().splitlines()
    except OSError:
        state = []
    return {
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
        "driver_clock_power": state,
    }


def run_cases(args, run_case, checked):
    """Runs and reports all cases; returns the exit status. `checked` names what each compares."""
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
    print("\n".join(problems) if problems else f"every {checked} checked")
    print_tables(args, report["cases"])
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(run_cases(options(), run_case, "output"))
