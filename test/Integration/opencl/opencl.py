"""The part of OpenCL that launches a kernel, through the loader that is opened here.

A device takes SPIR-V modules where it says so, and else the LLVM bitcode that
SPIR-V is translated to by Khronos' llvm-spirv.
"""

import ctypes
import shutil
import subprocess

import numpy as np

# CL/cl.h
DEVICE_TYPE_ALL, DEVICE_NAME, DEVICE_IL_VERSION = 0xFFFFFFFF, 0x102B, 0x105B
PROGRAM_BUILD_LOG = 0x1183
MEM_READ_WRITE, MEM_COPY_HOST_PTR = 1, 1 << 5
TRUE, MAX_DIMENSIONS = 1, 3
LOADER, TRANSLATORS = "libOpenCL.so.1", ("llvm-spirv", "llvm-spirv-15", "llvm-spirv-14")

Handle, Size = ctypes.c_void_p, ctypes.c_size_t


class Device:
    """The first device of any platform, or an OSError that says what is missing."""

    def __init__(self):
        self.cl = ctypes.CDLL(LOADER)
        for name in ("Context", "CommandQueue", "ProgramWithIL", "ProgramWithBinary"):
            getattr(self.cl, f"clCreate{name}").restype = Handle
        self.cl.clCreateKernel.restype = self.cl.clCreateBuffer.restype = Handle
        platforms = (Handle * 8)()
        count = ctypes.c_uint()
        self.cl.clGetPlatformIDs(8, platforms, ctypes.byref(count))
        self.device = Handle()
        for platform in platforms[: count.value]:
            found = self.cl.clGetDeviceIDs(
                Handle(platform), ctypes.c_ulong(DEVICE_TYPE_ALL), 1,
                ctypes.byref(self.device), None)
            if found == 0:
                break
        else:
            raise OSError("no OpenCL device")
        self.name, self.takes = self.info(DEVICE_NAME), self.info(DEVICE_IL_VERSION)
        self.translator = next(filter(shutil.which, TRANSLATORS), None)
        if "SPIR-V" not in self.takes and not self.translator:
            raise OSError(f"{self.name} takes no SPIR-V, and there is no llvm-spirv")
        self.context = self.create("Context", None, 1, ctypes.byref(self.device), None, None)
        self.queue = self.create("CommandQueue", self.context, self.device, ctypes.c_ulong(0))

    def info(self, what):
        text = ctypes.create_string_buffer(1024)
        self.cl.clGetDeviceInfo(self.device, what, len(text), text, None)
        return text.value.decode()

    def create(self, what, *arguments):
        error = ctypes.c_int()
        made = getattr(self.cl, f"clCreate{what}")(*arguments, ctypes.byref(error))
        if error.value:
            raise OSError(f"clCreate{what}: error {error.value}")
        return Handle(made)

    def call(self, name, *arguments):
        error = getattr(self.cl, name)(*arguments)
        if error:
            raise OSError(f"{name}: error {error}")

    def program(self, path):
        """The program of a SPIR-V file, built."""
        if "SPIR-V" in self.takes:
            code = path.read_bytes()
            program = self.create("ProgramWithIL", self.context, code, Size(len(code)))
        else:
            bitcode = path.with_suffix(".bc")
            subprocess.run([self.translator, "-r", path, "-o", bitcode], check=True)
            code = bitcode.read_bytes()
            program = self.create(
                "ProgramWithBinary", self.context, 1, ctypes.byref(self.device),
                ctypes.byref(Size(len(code))), ctypes.byref(ctypes.c_char_p(code)), None)
        error = self.cl.clBuildProgram(program, 1, ctypes.byref(self.device), None, None, None)
        if error:
            log = ctypes.create_string_buffer(1 << 16)
            self.cl.clGetProgramBuildInfo(
                program, self.device, PROGRAM_BUILD_LOG, Size(len(log)), log, None)
            raise OSError(f"clBuildProgram: error {error}: {log.value.decode()[:2000]}")
        return program

    def launch(self, path, launch, arrays, scalars):
        """Runs the kernel on `arrays`, which hold what it left there afterwards."""
        kernel = self.create("Kernel", self.program(path), launch["entry"].encode())
        buffers = []
        for number, array in enumerate(arrays):
            # In whole words.
            padded = np.zeros(-(-array.nbytes // 4) * 4, np.uint8)
            padded[: array.nbytes] = array.view(np.uint8).reshape(-1)
            buffers.append(self.create(
                "Buffer", self.context, ctypes.c_ulong(MEM_READ_WRITE | MEM_COPY_HOST_PTR),
                Size(padded.nbytes), padded.ctypes.data_as(Handle)))
            self.call("clSetKernelArg", kernel, number, Size(8), ctypes.byref(buffers[-1]))
        for number, scalar in enumerate(scalars, len(arrays)):
            self.call("clSetKernelArg", kernel, number, Size(4), ctypes.byref(ctypes.c_int(scalar)))
        local = [int(n) for n in launch["workgroup"]]
        total = [n * extent for n, extent in zip(local, launch["grid_sizes"])]
        sizes = Size * MAX_DIMENSIONS
        self.call("clEnqueueNDRangeKernel", self.queue, kernel, MAX_DIMENSIONS, None,
                  sizes(*total), sizes(*local), 0, None, None)
        for buffer, array in zip(buffers, arrays):
            self.call("clEnqueueReadBuffer", self.queue, buffer, TRUE, Size(0),
                      Size(array.nbytes), array.ctypes.data_as(Handle), 0, None, None)
