#!/usr/bin/env python3
"""What `make demo` shows: one attention module compiled for every known target, and
run on this CPU on the attention inputs of a real model.

    demo.py BUILD        (numpy of the interpreter measures the matrix product)
"""

import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODULE = ROOT / "examples" / "minilm.mlir"
LONG = ROOT / "examples" / "long.mlir"
DATA = ROOT / "test" / "data"
INPUTS = [f"--input={n}={DATA}/minilm-{n}.npy" for n in ("query", "key", "value")]


class Tools:
    def __init__(self, build):
        self.bin = pathlib.Path(build).resolve() / "bin"

    def __call__(self, tool, *arguments, text=None, check=True):
        result = subprocess.run(
            [self.bin / tool, *map(str, arguments)],
            input=text,
            capture_output=True,
            text=True,
        )
        if check and result.returncode != 0:
            sys.exit(f"demo: {tool} {' '.join(map(str, arguments))}\n{result.stderr}")
        return result


def title(text):
    print(f"\n-- {text}\n", flush=True)


def size(count):
    for unit in ("B", "KiB", "MiB"):
        if count < 1024 or unit == "MiB":
            return f"{count:.3g} {unit}"
        count /= 1024


def targets(tools):
    for line in tools("attn-opt", "--list-targets").stdout.splitlines():
        name, family = line.split()[:2]
        yield name, family


def compile_for(tools, name, family, module):
    """One row of the table, or the sentence with which the planner refuses."""
    plan = tools(
        "attn-opt", "-", f"--target={name}", "--explain=json", text=module, check=False
    )
    if plan.returncode != 0:
        return None, plan.stderr.strip()
    chosen = json.loads(plan.stdout)[0]["chosen"]
    tiling = chosen["tiling"]
    budget = chosen["budgets"][0]
    # Back ends other than the CPU's do not exist yet: their road ends here.
    stage = "obj" if family == "cpu" else "tiled"
    with tempfile.TemporaryDirectory() as folder:
        output = pathlib.Path(folder) / "kernel"
        tools("attn-opt", "-", f"--target={name}", f"--emit={stage}", "-o", output, text=module)
        emitted = (
            f"object of {size(output.stat().st_size)}"
            if stage == "obj"
            else f"tiled form, {len(output.read_text().splitlines())} lines"
        )
    return (
        f"{tiling['block_query']} x {tiling['block_key']}",
        tiling.get("product", "fma"),
        f"{size(budget['used'])} of {size(budget['limit'])} {budget['memory']}",
        emitted,
    ), None


def show_targets(tools):
    title("The module, compiled for every known target")
    text = MODULE.read_text()
    print("\n".join(l for l in text.splitlines() if not l.startswith("//")) + "\n")
    row = "{:<16} {:<5} {:>9}  {:<8} {:<38} {}".format
    print(row("target", "type", "tile", "product", "working set of budget", "emitted"))
    done = 0
    for name, family in targets(tools):
        # Some machines multiply no f32 at all, and the planner says so.
        for element in ("f32", "f16", "bf16"):
            module = text.replace("f32", element)
            columns, refusal = compile_for(tools, name, family, module)
            if columns:
                break
        else:
            print(f"{name:<16} {refusal}")
            continue
        print(row(name, element, *columns), flush=True)
        done += 1
    return done


def show_loop(tools):
    title("The tiled loop for this CPU")
    form = tools("attn-opt", MODULE, "--target=cpu", "--emit=tiled").stdout
    outline = subprocess.run(
        [sys.executable, ROOT / "scripts" / "outline.py"],
        input=form, capture_output=True, text=True, check=True,
    )
    print(outline.stdout, end="")
    title("The tile sizes, and why")
    print(tools("attn-opt", MODULE, "--target=cpu", "--explain").stdout, end="")


def show_check(tools):
    title("On the queries, keys and values of a sentence encoder, against the f64 oracle")
    text = tools("attn-run", MODULE, "--target=cpu", *INPUTS).stdout
    print(text, end="")
    return re.search(r"error (\S+), bound ([\d.e+-]+)", text)


def matrix_product_rate():
    """Of a large sgemm by numpy's OpenBLAS on all cores, in GFLOP/s."""
    n = 2048
    a = np.random.default_rng(1).random((n, n), dtype=np.float32)
    a @ a
    times = []
    for _ in range(7):
        start = time.perf_counter()
        a @ a
        times.append(time.perf_counter() - start)
    return 2 * n**3 / statistics.median(times) * 1e-9


def show_speed(tools):
    title("Speed at 8 heads of 64, 2048 x 2048, f32, beside this machine's matrix product")
    rates, limits = {}, [matrix_product_rate()]
    for entry in ("full", "causal"):
        text = tools(
            "attn-run", LONG, f"--entry={entry}", "--seed=1", "--no-check", "--bench"
        ).stdout
        rates[entry] = 1000 * float(re.search(r"([\d.]+) TFLOP/s", text).group(1))
        limits.append(matrix_product_rate())
    limit = statistics.median(limits)
    print(f"sgemm     {limit:6.1f} GFLOP/s  (n 2048, median of {len(limits)} measurements)")
    for entry, rate in rates.items():
        print(f"{entry:<9} {rate:6.1f} GFLOP/s  {rate / limit:.2f} of sgemm")
    return {entry: rate / limit for entry, rate in rates.items()}


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: demo.py BUILD")
    tools = Tools(sys.argv[1])
    compiled = show_targets(tools)
    show_loop(tools)
    error = show_check(tools)
    ratios = show_speed(tools)

    title("Summary")
    print(f"targets   {compiled} compiled")
    print(f"error     {error.group(1)} on real data, bound {error.group(2)}")
    for entry, ratio in ratios.items():
        print(f"{entry:<9} {ratio:.2f} of the machine's matrix product rate")


if __name__ == "__main__":
    main()
