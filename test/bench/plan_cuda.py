#!/usr/bin/env python3
"""Compares what the planner predicts for an NVIDIA GPU with what the GPU does.

    test/bench/plan_cuda.py compile plans --build build    # anywhere
    test/bench/plan_cuda.py time plans --json times.json   # where the GPU is; torch
    test/bench/plan_cuda.py bytes plans --json bytes.json  # the same, and ncu
    test/bench/plan_cuda.py report times.json bytes.json   # anywhere

`compile` takes the cases of bench_cuda.py (B*S = 16384, H = 2048/D), each with the kernel
that the planner chooses for its sizes, and for the cases of --candidates every other one
that fits as well; --most of those that are not for warpgroups, best first. The plans come
from `attn-opt --explain=json`, a kernel from the tiling stated in the op.

`time` is the median of triton.testing.do_bench, after the output was compared with that of
PyTorch. `bytes` reads the counters of main memory by ncu: reads from a cold cache, and
writes including those that a pass over another buffer behind the kernel drives out of it.
"""

import argparse
import csv
import io
import json
import pathlib
import statistics
import subprocess
import sys

from compile_cuda import HIDDEN

TOKENS = 16384
DIMS, LENGTHS, MASKS = (64, 128, 256), (512, 1024, 2048, 4096, 8192, 16384), ("full", "causal")
# Of these all candidates are measured: dim, mask, length.
CANDIDATES = ((64, "causal", 4096), (128, "full", 4096), (128, "causal", 16384), (256, "causal", 1024))
COUNTED = (4096, 16384)
FLUSH_BYTES = 512 << 20


# ---------------------------------------------------------------------------
# Compiling
# ---------------------------------------------------------------------------


def module(dim, mask, length, tiling=None):
    batch, heads = max(TOKENS // length, 1), HIDDEN // dim
    tensor = f"tensor<{batch}x{heads}x{length}x{dim}xbf16>"
    clauses = "causal " if mask == "causal" else ""
    if tiling:
        text = {True: "true", False: "false"}
        fields = [(n, text.get(v, v) if isinstance(v, bool) else json.dumps(v)) for n, v in tiling.items() if v]
        clauses += "tiling(#attn.tiling<" + ", ".join(f"{n} = {v}" for n, v in fields) + ">) "
    return (
        f"func.func @attention(%q: {tensor}, %k: {tensor}, %v: {tensor}) -> {tensor} {{\n"
        f"  %o = attn.attention %q, %k, %v {clauses}: {tensor}, {tensor}, {tensor} -> {tensor}\n"
        f"  return %o : {tensor}\n}}\n"
    )


def run_compiler(args, text, *options):
    command = [args.build / "bin" / "attn-opt", "-", f"--target={args.target}", *options]
    return subprocess.run(command, input=text, text=True, capture_output=True)


def compile_candidate(args, name, case, candidate):
    """An entry of the manifest."""
    entry = {**case, "name": name, "tiling": candidate["tiling"]}
    entry["predicted"] = candidate["predicted_seconds"]
    entry["predicted_bytes"] = candidate["traffic_bytes"]["main_memory"]
    text = module(case["dim"], case["mask"], case["length"], candidate["tiling"])
    done = run_compiler(args, text, "--emit=cubin", "-o", args.folder / f"{name}.cubin")
    if done.returncode:
        return {**entry, "problem": done.stderr.strip()}
    lines = (args.folder / f"{name}.cubin.log").read_text().splitlines()
    entry["spills"] = any("spill" in line and "0 bytes spill stores" not in line for line in lines)
    return entry


def compile_case(args, dim, mask, length):
    explained = run_compiler(args, module(dim, mask, length), "--explain=json")
    if explained.returncode:
        sys.exit(explained.stderr)
    plan = json.loads(explained.stdout)[0]
    case = {"dim": dim, "mask": mask, "length": length, "flops": plan["problem"]["flops"]}
    base = f"d{dim}-{mask}-{length}"
    entries = [compile_candidate(args, base, {**case, "chosen": True}, plan["chosen"])]
    if (dim, mask, length) in args.candidates:
        others = plan["runners_up"]
        warps = [c for c in others if c["tiling"]["product"] != "wgmma"]
        kept = [c for c in others if c["tiling"]["product"] == "wgmma"] + warps[: args.most]
        for number, candidate in enumerate(kept):
            entries.append(compile_candidate(args, f"{base}-{number}", {**case, "chosen": False}, candidate))
    return entries


def compile_all(args):
    args.folder.mkdir(parents=True, exist_ok=True)
    entries = []
    for dim in args.dims:
        for mask in MASKS:
            for length in args.lengths:
                entries += compile_case(args, dim, mask, length)
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True).stdout.strip()
    (args.folder / "manifest.json").write_text(json.dumps({"commit": commit, "entries": entries}, indent=1) + "\n")
    problems = [e for e in entries if "problem" in e]
    for entry in problems:
        print(f"{entry['name']}: {entry['problem']}", file=sys.stderr)
    print(f"{len(entries)} kernels at {commit}, {sum(e.get('spills', False) for e in entries)} spill")
    return 1 if problems else 0


# ---------------------------------------------------------------------------
# Measuring
# ---------------------------------------------------------------------------


def load(args, entry):
    """The kernel, and fresh data."""
    import torch
    from cuda_kernel import CudaKernel

    dim, length = entry["dim"], entry["length"]
    shape = (max(TOKENS // length, 1), HIDDEN // dim, length, dim)
    tensors = [torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(3)]
    return CudaKernel(args.folder / f"{entry['name']}.cubin"), tensors


def time_entry(args, entry):
    import torch
    import torch.nn.functional as F
    from triton.testing import do_bench

    kernel, tensors = load(args, entry)
    output = torch.full_like(tensors[0], float("nan"))
    kernel(*tensors, output)
    expected = F.scaled_dot_product_attention(*tensors, is_causal=entry["mask"] == "causal")
    error = ((output.float() - expected.float()).norm() / expected.float().norm()).item()
    if not error < 1e-2:
        return {"problem": f"differs from PyTorch by {error:.2e}"}
    times = [do_bench(lambda: kernel(*tensors, output), warmup=5, rep=args.rep, return_mode="median") for _ in range(2)]
    return {"measured": statistics.median(times) * 1e-3}


def measure(args, selected, one):
    manifest = json.loads((args.folder / "manifest.json").read_text())
    entries = [e for e in manifest["entries"] if selected(e) and "problem" not in e]
    for entry in entries:
        entry.update(one(args, entry))
    args.json.write_text(json.dumps({**manifest, "entries": entries}, indent=1) + "\n")
    return report([args.json])


def time_all(args):
    return measure(args, lambda e: True, time_entry)


def is_counted(entry):
    return entry["chosen"] and entry["length"] in COUNTED


def launch_all(args):
    """What ncu looks at: each kernel between two passes over memory of its own."""
    import torch

    other = torch.zeros(FLUSH_BYTES // 4, device="cuda")
    for entry in json.loads((args.folder / "manifest.json").read_text())["entries"]:
        if not is_counted(entry):
            continue
        kernel, tensors = load(args, entry)
        output = torch.empty_like(tensors[0])
        other.sum()
        kernel(*tensors, output)
        other.sum()
        torch.cuda.synchronize()
    return 0


def count_all(args):
    metrics = "dram__bytes_read.sum,dram__bytes_write.sum"
    command = [
        "ncu", "--csv", "--page", "raw", "--print-units", "base", "--clock-control", "none", "--cache-control", "none",
        "--metrics", metrics, "-k", "regex:attention|reduce_kernel",
        sys.executable, __file__, "launch", args.folder,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith('"')]
    rows = [r for r in csv.DictReader(io.StringIO("\n".join(lines))) if r.get("ID", "").isdigit()]
    if not rows:
        print(f"no counters: {(done.stderr or done.stdout).strip()[-400:]}")
        return 1
    counts = [[float(row[m].replace(",", "")) for m in metrics.split(",")] for row in rows]
    places = [i for i, row in enumerate(rows) if "attention" in row["Kernel Name"]]

    def count(_, entry):
        place = places.pop(0)
        return {"read": counts[place][0], "written": counts[place][1] + counts[place + 1][1]}

    return measure(args, is_counted, count)


# ---------------------------------------------------------------------------
# The report
# ---------------------------------------------------------------------------


def tiling_text(tiling):
    words = f"{tiling['block_query']}x{tiling['block_key']} {tiling['product']}"
    return words + f" {tiling['groups']}g {tiling['stages']}/{tiling['query_stages']}s"


def report_times(entries):
    chosen = [e for e in entries if e["chosen"] and "measured" in e]
    lengths = sorted({e["length"] for e in chosen})
    print(f"\npredicted time / measured time (measured us)\n{'':14}" + "".join(f"{n:>13}" for n in lengths))
    for dim, mask in dict.fromkeys((e["dim"], e["mask"]) for e in chosen):
        line = f"D {dim:<4} {mask:7}"
        for e in sorted((e for e in chosen if (e["dim"], e["mask"]) == (dim, mask)), key=lambda e: e["length"]):
            line += f"{e['predicted']['total'] / e['measured']:6.2f} ({e['measured'] * 1e6:4.0f})"
        print(line)
    off = [e for e in chosen if not 0.8 <= e["predicted"]["total"] / e["measured"] <= 1.25]
    print(f"{len(chosen) - len(off)} of {len(chosen)} within 25 %")


def report_candidates(entries):
    cases = dict.fromkeys((e["dim"], e["mask"], e["length"]) for e in entries if not e["chosen"])
    for case in cases:
        own = [e for e in entries if (e["dim"], e["mask"], e["length"]) == case and "measured" in e]
        own.sort(key=lambda e: e["measured"])
        chosen = next(e for e in own if e["chosen"])
        dim, mask, length = case
        print(f"\n{mask} D {dim} S {length}: the choice takes {chosen['measured'] / own[0]['measured']:.3f} of the fastest of {len(own)}")
        for e in own[:8] + [e for e in own[8:] if e["tiling"]["product"] == "wgmma"]:
            mark = "*" if e["chosen"] else " "
            spilled = ", spills" if e.get("spills") else ""
            print(f" {mark} {tiling_text(e['tiling']):26} {e['measured'] * 1e6:7.0f} us, predicted {e['predicted']['total'] * 1e6:7.0f}{spilled}")


def report_bytes(entries):
    print("\nMiB of main memory: predicted, read + written, and their ratio")
    for e in entries:
        counted = e["read"] + e["written"]
        mib = [x / (1 << 20) for x in (e["predicted_bytes"], e["read"], e["written"])]
        print(f"D {e['dim']:<4} {e['mask']:7} {e['length']:6} {mib[0]:7.0f} {mib[1]:7.0f} +{mib[2]:5.0f} {e['predicted_bytes'] / counted:6.2f}")


def report(paths):
    problems = 0
    for path in paths:
        table = json.loads(path.read_text())
        entries = table["entries"]
        for e in entries:
            if "problem" in e:
                problems += 1
                print(f"{e['name']}: {e['problem']}")
        if any("measured" in e for e in entries):
            report_times(entries)
            report_candidates(entries)
        if counted := [e for e in entries if "read" in e]:
            report_bytes(counted)
    return 1 if problems else 0


def case_of(text):
    dim, mask, length = text.split(":")
    return int(dim), mask, int(length)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["compile", "time", "bytes", "launch", "report"])
    parser.add_argument("paths", type=pathlib.Path, nargs="+", help="the folder; of `report`, what --json wrote")
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    parser.add_argument("--target", default="h200")
    parser.add_argument("--dims", type=lambda t: [int(n) for n in t.split(",")], default=DIMS)
    parser.add_argument("--lengths", type=lambda t: [int(n) for n in t.split(",")], default=LENGTHS)
    parser.add_argument("--candidates", type=lambda t: [case_of(c) for c in t.split(",")], default=CANDIDATES, help="such as 128:causal:4096,64:full:1024")
    parser.add_argument("--most", type=int, default=1 << 30, help="candidates for warps of a case")
    parser.add_argument("--rep", type=int, default=20, help="milliseconds a kernel, twice")
    parser.add_argument("--json", type=pathlib.Path, default=pathlib.Path("plans.json"))
    args = parser.parse_args()
    if args.action == "report":
        return report(args.paths)
    (args.folder,) = args.paths
    return {"compile": compile_all, "time": time_all, "bytes": count_all, "launch": launch_all}[args.action](args)


if __name__ == "__main__":
    sys.exit(main())
