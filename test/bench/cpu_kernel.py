"""Our side of the CPU benchmark: modules, and compiled kernels in this process."""

import ctypes
import pathlib
import platform
import subprocess
import tempfile

import numpy as np

HEADS, LENGTH = 8, 2048
TYPES = {"f32": "float32", "bf16": "bfloat16"}


def module(element, query, key, clauses="", operands="", value=None):
    """A module with one attention; sizes as they stand in a type, 1x8x2048x64."""
    q, k, v = (f"tensor<{s}x{element}>" for s in (query, key, value or key))
    return (
        f"func.func @kernel(%q: {q}, %k: {k}, %v: {v}{operands}) -> {q} {{\n"
        f"  %o = attn.attention %q, %k, %v {clauses} : {q}, {k}, {v} -> {q}\n"
        f"  return %o : {q}\n}}\n"
    )


def to_bits(array):
    """f32 to the nearest bf16, as uint16."""
    bits = array.view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bits(array):
    return (array.astype(np.uint32) << 16).view(np.float32)


def openmp():
    """LLVM's OpenMP runtime, of its newest version; the linker's own choice without one."""
    found = pathlib.Path("/usr/lib").glob("llvm-*/lib/libomp.so.5")
    return max(found, key=lambda p: int(p.parts[3].removeprefix("llvm-")), default="-lomp")


class Kernel:
    """A compiled module in this process, called by MLIR's C interface."""

    def __init__(self, build, text, target):
        # The folder may go: the code stays mapped.
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "kernel"
            subprocess.run(
                [build / "bin" / "attn-opt", "-", f"--target={target}", "--emit=obj", "-o", f"{path}.o"],
                input=text, text=True, check=True,
            )
            link = ["cc", "-shared", f"{path}.o", "-o", f"{path}.so", openmp(), "-lm"]
            subprocess.run(link, check=True)
            self.call = ctypes.CDLL(f"{path}.so")._mlir_ciface_kernel
        self.call.restype = None
        # AMX state has to be asked for; a chip without it answers with an error.
        if platform.machine() == "x86_64":
            ctypes.CDLL(None).syscall(158, 0x1023, 18)

    def bind(self, *arrays):
        """The call on these arrays, which it keeps."""
        descriptors = []
        for a in arrays:
            strides = [s // a.itemsize for s in a.strides]
            words = [a.ctypes.data, a.ctypes.data, 0, *a.shape, *strides]
            descriptors.append((ctypes.c_int64 * len(words))(*words))
        pointers = [ctypes.byref(d) for d in descriptors]

        def call(arrays=arrays):  # an argument, for it to hold them
            self.call(*pointers)

        return call


def ours(args, element, dim, causal, arrays, target):
    """As the peers do it: the call, and a call for the output that it left."""
    shape = f"1x{HEADS}x{LENGTH}x{dim}"
    text = module(element, shape, shape, "causal" if causal else "")
    kernel = Kernel(args.build, text, target)
    output = np.full_like(arrays[0], 0x7FC0 if element == "bf16" else np.nan)
    return kernel.bind(*arrays, output), lambda: output
