#!/usr/bin/env python3
"""Checks and times what compile_vulkan.py left in a folder.

    bench_vulkan.py FOLDER [--attn-launch=attn-launch-static] [--only=WORD]

Needs numpy and attn-launch, and on the device's machine a Vulkan loader (libvulkan1) and
driver. ATTN_VULKAN_DEVICE chooses a device. The exit status is 1 when a kernel is wrong.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np


def launch(program, *arguments):
    run = subprocess.run([program, *arguments], capture_output=True, text=True)
    return run.returncode == 0, (run.stdout if run.returncode == 0 else run.stderr).strip()


def widened(path):
    array = np.load(path)
    if array.dtype.itemsize == 2 and array.dtype.kind == "V":
        bits = array.view(np.uint16).astype(np.uint32) << 16
        return bits.view(np.float32).astype(np.float64)
    return array.astype(np.float64)


def bound_of(name):
    """Rounding a result alone gives this in f16 and bf16, and rounding the probabilities as
    much again; half of that more is allowed. f32 is that of its sums."""
    usual = {"f16": 2.08e-4, "lanes": 2.08e-4, "bf16": 1.66e-3, "f32": 4e-7}
    return 1.5 * np.sqrt(2) * next(usual[part] for part in name.split("-") if part in usual)


def check(program, kernel, folder):
    """Errors against f64, relative but for those of the lse."""
    base = kernel.with_suffix("")
    launch_file = pathlib.Path(f"{kernel}.json")
    arguments = json.loads(launch_file.read_text())["arguments"]
    inputs = [a["name"] for a in arguments if a["access"] == "in"]
    outputs = [a["name"] for a in arguments if a["access"] == "out"]
    ended, text = launch(
        program,
        str(kernel),
        *[f"--input={name}={base}.{name}.npy" for name in inputs],
        *[f"--output={name}={folder}/{name}.npy" for name in outputs],
    )
    if not ended:
        return False, text
    good, words = True, []
    for name in outputs:
        got, expected = widened(f"{folder}/{name}.npy"), np.load(f"{base}.{name}.npy")
        if name == "lse":
            error, bound = np.abs(got - expected).max(), 2e-5
        else:
            error = np.linalg.norm(got - expected) / np.linalg.norm(expected)
            bound = bound_of(kernel.name)
        good &= bool(error <= bound)
        words.append(f"{name} {error:.2e} of at most {bound:.1e}")
    return good, ", ".join(words)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--attn-launch", default="attn-launch-static")
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for kernel in sorted(args.folder.glob("*.spv")):
            if args.only not in kernel.name:
                continue
            if kernel.name.startswith("check-"):
                good, text = check(args.attn_launch, kernel, folder)
            else:
                good, text = launch(args.attn_launch, str(kernel), "--seed=1", "--bench")
            wrong += not good
            print(f"{kernel.stem:32} {'' if good else 'WRONG '}{text}", flush=True)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
