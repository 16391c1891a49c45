"""Compiles every rule of the op for every Vulkan and OpenCL profile and element type.

    every_rule.py [--all]

Without --all only f16 takes every rule, and other types those that decide about a mapping. Nothing is refused but f64 by a chip without 64-bit floats: what a chip lacks makes a kernel slower.
The functions of a profile and type are one module, to its SPIR-V operations.
"""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).parent.parent / "TiledToMMA"))
from assemble_grid import CLAUSES, OPERANDS, REGIONS, module, run  # noqa: E402

PROFILES = (
    "vulkan opencl vulkan-coopmat adreno mali apple intel amd npu npu:intel npu:xdna"
).split()
FEW = ("plain", "mask", "segments")
WITH_DOUBLE = {"vulkan-coopmat", "amd"}
NO_DOUBLE = "cannot multiply f64 into f64"
# Rules that read f32 whatever the elements are.
OF_SINGLE = {"sinks", "alibi"}
# Grouped heads, an odd dimension, another type of the output, layouts.
SHAPES = [
    (64, 64, "causal", "bhsd", 2),
    (59, 24, "causal"),
    (1, 1, "plain"),
    (64, 64, "plain", "bhsd", 8, False, "f32"),
    (64, 64, "causal", "bshd"),
    (64, 64, "causal", "strided"),
    (256, 256, "plain"),
]


def functions(element, takes_all):
    cases = [(64, 64, variant) for variant in (*CLAUSES, *OPERANDS, *REGIONS)] + SHAPES
    if element == "f64":
        cases = [c for c in cases if c[2] not in OF_SINGLE and c[-1] != "f32"]
    else:
        cases.append((64, 64, "causal", "bhsd", 8, True))
    if element != "f16" and not takes_all:
        cases = [c for c in cases if c[2] in FEW][: len(FEW)]
    return [
        module(element, *case).replace("@f(", f"@f{number}(") for number, case in enumerate(cases)
    ]


def main():
    wrong = count = 0
    for profile in PROFILES:
        for element in ("f16", "bf16", "f32", "f64"):
            texts = functions(element, "--all" in sys.argv)
            done = run(["attn-opt", "-", f"--attn-to-vulkan=target={profile}"], "\n".join(texts))
            if element == "f64" and profile not in WITH_DOUBLE:
                if NO_DOUBLE not in done.stderr:
                    wrong += 1
                    print(f"{profile} {element}: expected '{NO_DOUBLE}', got {done.stderr}")
                continue
            made = done.stdout.count("spirv.module @")
            count += made
            if done.returncode or made != len(texts):
                wrong += 1
                print(f"{profile} {element}: {made} of {len(texts)} modules: {done.stderr}")
    print(f"{count} kernels for {len(PROFILES)} profiles, {wrong} refusals")
    return wrong != 0


if __name__ == "__main__":
    sys.exit(main())
