"""Validates planned kernels for Vulkan and OpenCL, and reads what their modules ask of a device.

    spirv_grid.py [--gradients] TARGET...

Every combination below has to compile in less than a second, spirv-val has to take it for the
environment that its description names, it has to take the shared memory that the planner
counted and no more than the target has, and to need no capability beyond Shader,
which implies Matrix, or those that every OpenCL device has.
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time

sys.path.append(str(pathlib.Path(__file__).parent.parent / "TiledToMMA"))
from assemble_grid import CLAUSES, OPERANDS, REGIONS, module, run  # noqa: E402

MOST_SECONDS = 5  # on a machine with other work; alone it is well below one


def cases():
    for element in ("f32", "f16", "bf16"):
        for d in (64, 128):
            for variant in ("plain", "causal"):
                yield (element, d, d, variant)
    for d, dv in ((1, 1), (40, 40), (59, 59), (80, 80), (96, 64), (192, 128), (64, 160)):
        yield ("f16", d, dv, "causal")
    for variant in ["window", "softcap", *OPERANDS, *REGIONS]:
        yield ("f32", 64, 64, variant)
    for layout in ("bshd", "strided"):
        yield ("f16", 64, 64, "causal", layout)
    yield ("bf16", 64, 64, "causal", "bhsd", 2, True)
    yield ("bf16", 64, 64, "plain", "bhsd", 8, False, "f32")


def gradient_cases():
    for element in ("f32", "f16", "bf16"):
        for d, dv in ((64, 64), (128, 128), (96, 64)):
            yield (element, d, dv, "causal")
    for d, dv in ((1, 1), (59, 40), (80, 160), (256, 256), (512, 512)):
        yield ("f16", d, dv, "plain")
    for variant in ("window", "softcap", *OPERANDS, *REGIONS):
        yield ("f32", 64, 64, variant)


# Name: the request, and the type of its gradient.
REQUESTS = {
    "bias": ("bias", "memref<8x?x?xf32>"),
    "sinks": ("sinks", "memref<8xf32>"),
    "alibi": ("captures[0]", "memref<8xf32>"),
}


def gradient_module(element, d, dv, variant):
    def memref(heads, width):
        return f"memref<2x{heads}x?x{width}x{element}>"

    q, k, v, o = memref(8, d), memref(2, d), memref(2, dv), memref(8, dv)
    lse = "memref<2x8x?xf32>"
    extra, clause = OPERANDS.get(variant, ("", CLAUSES.get(variant, "")))
    region = ""
    if variant in REGIONS:
        extra, region = REGIONS[variant]
    names, types = ["%dq", "%dk", "%dv"], [q, k, v]
    requests = ""
    if variant in REQUESTS:
        request, kind = REQUESTS[variant]
        names.append("%dx")
        types.append(kind)
        requests = f"gradients({request})"
    inputs = [q, k, v, o, lse, o]
    given = ["%q", "%k", "%v", "%o", "%l", "%do"]
    arguments = [f"{n}: {t}" for n, t in zip(given + names, inputs + types)]
    arguments += [extra] if extra else []
    return (
        f"func.func @f({', '.join(arguments)}) {{\n"
        f"  attn.attention_backward {', '.join(given)}\n"
        f"    outs({', '.join(names)} : {', '.join(types)}) {requests} {clause} {region}\n"
        f"    : {', '.join(inputs)}\n  return\n}}\n"
    )


BYTES = {"float": 4, "v2float": 8, "v4float": 16, "v2uint": 8, "v4uint": 16}
BYTES |= {"uint": 4, "int": 4}
OPENCL = {"Kernel", "Addresses", "Int64"}


def declared_bytes(assembly):
    """Bytes of the variables in workgroup memory, from the text of the module."""
    types, constants, total = {}, {}, 0
    for line in assembly.splitlines():
        if found := re.match(r"\s*(%\w+) = OpConstant %\w+ (\d+)", line):
            constants[found[1]] = int(found[2])
        elif found := re.match(r"\s*(%\w+) = OpTypeArray %(\w+) (%\w+)", line):
            types[found[1]] = BYTES[found[2]] * constants[found[3]]
        elif found := re.match(r"\s*(%\w+) = OpTypePointer Workgroup (%\w+)", line):
            types[found[1]] = types.get(found[2], 0)
        elif found := re.match(r"\s*%\w+ = OpVariable (%\w+) Workgroup", line):
            total += types[found[1]]
    return total


def check(folder, target, text):
    """What is wrong."""
    explained = run(["attn-opt", "-", f"--target={target}", "--explain=json"], text)
    if explained.returncode:
        return explained.stderr.strip()
    path = folder / "f.spv"
    begin = time.monotonic()
    done = run(["attn-opt", "-", f"--target={target}", "--emit=spv", "-o", path], text)
    seconds = time.monotonic() - begin
    if done.returncode:
        return done.stderr.strip()
    launch = json.loads(pathlib.Path(f"{path}.json").read_text())
    valid = run(["spirv-val", "--target-env", launch["environment"], path], "")
    if valid.returncode:
        return valid.stdout + valid.stderr
    if seconds > MOST_SECONDS:
        return f"took {seconds:.1f} s to compile"
    assembly = run(["spirv-dis", path], "").stdout
    needed = set(re.findall(r"OpCapability (\w+)", assembly))
    needed -= OPENCL if launch["abi"] == "opencl-arguments" else {"Shader", "Matrix"}
    if set(launch["features"].split(",")) - {""} - OPENCL or needed:
        return f"needs {launch['features']} {needed}"
    plan = json.loads(explained.stdout)[0]["chosen"]
    budget = next(b for b in plan["budgets"] if b["memory"] == "shared memory")
    given, declared = int(launch["shared_memory_bytes"]), declared_bytes(assembly)
    if not given == declared == budget["used"] <= budget["limit"]:
        return f"shared memory {given}, declared {declared}, counted {budget}"
    # Kernels of a module share its memory.
    others = {int(kernel["shared_memory_bytes"]) for kernel in launch.get("then", [])}
    return f"shared memory {given}, and {others}" if others - {given} else ""


def main():
    gradients = sys.argv[1] == "--gradients"
    targets = sys.argv[2:] if gradients else sys.argv[1:]
    write, all_cases = (gradient_module, gradient_cases) if gradients else (module, cases)
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for target in targets:
            count = 0
            for case in all_cases():
                problem = check(pathlib.Path(folder), target, write(*case))
                count += 1
                if problem:
                    wrong += 1
                    print(f"{target} {case}: {problem}")
            what = "gradients on lanes" if gradients else "kernels of lanes"
            print(f"{target}: {count} {what}")
    return wrong != 0


if __name__ == "__main__":
    sys.exit(main())
