"""What a kernel costs besides time to run: memory, and time to compile."""

import pathlib
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

from cpu_kernel import Kernel, module

STATUS = pathlib.Path("/proc/self/status")


def memory(args):
    """A process for each length: what one call adds at its peak to what it had."""
    print(
        f"One head, D 64, f32, all pairs, {args.threads} threads: "
        "peak resident memory above inputs and output\n"
    )
    found, wrong = {}, []
    for length in (8192, 16384, 32768, 65536, 131072):
        child = [sys.executable, sys.argv[0], "--build", args.build, "--memory-of", str(length)]
        result = subprocess.run(child, stdout=subprocess.PIPE, text=True, check=True)
        found[length] = int(result.stdout)
        print(f"S {length:>7}  {found[length] / 1024:7.1f} MiB", flush=True)
    growth = (found[131072] - found[8192]) / (131072 - 8192) * 1024
    print(f"\n{growth:.0f} B a position from 8k to 128k")
    if found[65536] > 64 * 1024:
        wrong.append("more than 64 MiB at S 65536")
    # A quadratic part would make the last doubling add far more than twice the one before.
    if found[131072] - found[65536] > 2.5 * max(found[65536] - found[32768], 1024):
        wrong.append("memory grows faster than the length")
    return {"kib": found, "bytes_a_position": growth}, wrong


def memory_of(args):
    """In that process: prints KiB."""
    shape = f"1x1x{args.memory_of}x64"
    kernel = Kernel(args.build, module("f32", shape, shape), "cpu")
    size = (1, 1, args.memory_of, 64)
    arrays = [np.random.default_rng(i).standard_normal(size, dtype=np.float32) for i in range(3)]
    call = kernel.bind(*arrays, np.full_like(arrays[0], np.nan))
    status = lambda key: int(re.search(rf"{key}:\s+(\d+)", STATUS.read_text()).group(1))
    (STATUS.parent / "clear_refs").write_text("5")  # the peak starts here
    before = status("VmRSS")
    call()
    print(status("VmHWM") - before)


def compile_variants():
    shape = "1x8x2048x64"
    return {
        "f32 full": module("f32", shape, shape),
        "f32 causal": module("f32", shape, shape, "causal"),
        "bf16 D128 causal": module("bf16", "1x8x2048x128", "1x8x2048x128", "causal"),
        "f16 D256 full": module("f16", "1x8x2048x256", "1x8x2048x256"),
        "f64 D72 full": module("f64", "1x8x799x72", "1x8x799x72"),
        "any sizes, groups": module("f32", "?x8x?x64", "?x2x?x64", "causal bottom_right"),
        "window, softcap": module("bf16", shape, shape, "causal window(255, 0) softcap(30.0)"),
        "lengths, sinks": module(
            "bf16", shape, shape,
            "kv_lengths(%n : tensor<1xi32>) sinks(%s : tensor<8xf32>)",
            ", %n: tensor<1xi32>, %s: tensor<8xf32>",
        ),
        "bias, mask": module(
            "f32", shape, shape,
            "bias(%b : tensor<8x2048x2048xf32>) mask(%m : tensor<1x1x2048x2048xi1>)",
            ", %b: tensor<8x2048x2048xf32>, %m: tensor<1x1x2048x2048xi1>",
        ),
        "segments": module(
            "f32", shape, shape,
            "segments(%i, %i : tensor<1x2048xi32>, tensor<1x2048xi32>)",
            ", %i: tensor<1x2048xi32>",
        ),
        "score, mask regions": module("f32", shape, shape, """
          captures(%c, %d : tensor<8xf32>, tensor<2048xi32>)
          score_mod(%s, %b, %h, %i, %j, %x, %y) {
            %t = tensor.extract %x[%h] : tensor<8xf32>
            %u = arith.mulf %s, %t : f32
            attn.yield %u : f32
          } mask_mod(%b, %h, %i, %j, %x, %y) {
            %t = tensor.extract %y[%i] : tensor<2048xi32>
            %u = tensor.extract %y[%j] : tensor<2048xi32>
            %w = arith.cmpi eq, %t, %u : i32
            attn.yield %w : i1
          }""", ", %c: tensor<8xf32>, %d: tensor<2048xi32>"),
    }


def compile_times(args):
    stages = {"input": None, "tiled": 0.1, "obj": 0.5}
    row = ("{:<22}" + "{:>11}" * 6).format
    print(
        "Seconds of the attn-opt process, medians of 5. Its start and the parsing are all of\n"
        "'input' and a part of the others; cpu is what it computed, were others running or not\n"
    )
    print(row("variant", *(f"{s}{c}" for s in stages for c in ("", " cpu"))))
    found, wrong = {}, []
    with tempfile.TemporaryDirectory() as folder:
        command = [args.build / "bin" / "attn-opt", "-", "--target=cpu", "-o", f"{folder}/out"]
        for variant, text in compile_variants().items():
            found[variant] = {}
            for stage, bound in stages.items():
                walls, cpus = zip(*(timed([*command, f"--emit={stage}"], text) for _ in range(5)))
                wall = found[variant][stage] = statistics.median(walls)
                found[variant][f"{stage} cpu"] = statistics.median(cpus)
                if bound and wall > bound:
                    wrong.append(f"{variant}: {stage} takes {wall:.2f} s, more than {bound}")
            print(row(variant, *(f"{t:.3f}" for t in found[variant].values())), flush=True)
    return {"seconds": found}, wrong


def timed(command, text):
    """Seconds that passed, and seconds that the process computed."""
    used = lambda: sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
    before, start = used(), time.perf_counter()
    subprocess.run(command, input=text, text=True, check=True)
    return time.perf_counter() - start, used() - before
