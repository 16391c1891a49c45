#!/usr/bin/env python3
"""Speed of CPU kernels beside the attentions that install here and the machine's limit.

    bench_cpu.py --build BUILD              B1 H8 S2048: f32, bf16; D 64, 128; full, causal
    bench_cpu.py --build BUILD --avx2       AVX2 code against a product by AVX2 kernels
    bench_cpu.py --build BUILD --gradients  of the same cases, beside PyTorch's and our forward
    bench_cpu.py --build BUILD --memory     one head: memory that the kernel adds, by length
    bench_cpu.py --build BUILD --compile    module to tiled form and to code, by variant

All contenders run in this process, one after the other in every round, so that a
slow minute of the machine is slow for all of them. Each turn is one call untimed, which
wakes the contender's threads and fetches its data, then one timed. Everyone gets the
same number of threads, and nobody's idle threads spin (OMP_WAIT_POLICY=passive and its
like for OpenBLAS and ONNX Runtime): they would hold the cores of the next in turn.
OpenBLAS runs the kernels of this chip, whatever the environment tells it; beside AVX2
code it runs its AVX2 kernels, in a process of its own that takes its turns with ours.
"""

import argparse
import json
import os
import pathlib
import platform
import re
import subprocess
import sys

FIXED = {"OMP_WAIT_POLICY": "passive", "OPENBLAS_THREAD_TIMEOUT": "4"}
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
MODES = ("avx2", "gradients", "memory", "compile")
HELD_BACK = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
ROOT = pathlib.Path(__file__).resolve().parents[2]


def about(args):
    say = lambda *command: subprocess.run(command, capture_output=True, text=True).stdout.strip()
    model = re.search(r"model name\s*: (.+)", pathlib.Path("/proc/cpuinfo").read_text())
    versions = {}
    for name in ("numpy", "torch", "onnxruntime", "openvino"):
        if name in sys.modules:
            versions[name] = sys.modules[name].__version__
    try:
        import threadpoolctl

        keys = ("internal_api", "version", "architecture", "num_threads")
        found = threadpoolctl.threadpool_info()
        versions["thread_pools"] = [{k: pool.get(k) for k in keys} for pool in found]
    except ImportError:
        pass
    return {
        "machine": {"cpu": model.group(1) if model else platform.machine(), "threads": args.threads},
        "commit": say("git", "-C", ROOT, "describe", "--always", "--dirty"),
        "compiler": say(args.build / "bin" / "attn-opt", "--version").splitlines(),
        "versions": versions,
        "environment": {k: os.environ[k] for k in (*FIXED, *THREADS)},
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--build", type=lambda p: pathlib.Path(p).resolve(), required=True)
    parser.add_argument("--json", type=pathlib.Path, help="where the figures go (BUILD/bench-cpu*.json)")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--only", default="", help="regular expression: cases to run")
    modes = parser.add_mutually_exclusive_group()
    for mode in MODES:
        modes.add_argument(f"--{mode}", action="store_true")
    parser.add_argument("--memory-of", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    # The libraries read these when they load.
    wanted = FIXED | {name: str(args.threads) for name in THREADS}
    environment = {k: v for k, v in os.environ.items() if k not in HELD_BACK} | wanted
    if environment != dict(os.environ):
        os.execve(sys.executable, [sys.executable, *sys.argv], environment)
    # And these load them.
    from cpu_gradients import gradients
    from cpu_limits import compile_times, memory, memory_of
    from cpu_speed import speed

    if args.memory_of:
        return memory_of(args)
    mode = next((m for m in MODES if getattr(args, m)), "")
    load = os.getloadavg()[0]
    makers = {"gradients": gradients, "memory": memory, "compile": compile_times}
    figures, wrong = makers.get(mode, speed)(args)
    if load > 0.3 * args.threads:
        print(f"\nThe machine was not idle (load {load:.1f} at the start): not figures to quote.")
    path = args.json or args.build / ("bench-cpu" + (f"-{mode}" if mode else "") + ".json")
    path.write_text(json.dumps({**about(args), "load_at_start": load, **figures}, indent=1) + "\n")
    print(f"\nWritten: {path}")
    for line in wrong:
        print(f"bench: {line}")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
