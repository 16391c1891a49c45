"""A compiled GPU kernel as a function of torch tensors.

Needs the artifact (kernel.ptx or kernel.cubin, with kernel.ptx.json beside it), torch
and the driver: all that is known of the kernel is its launch description, which
docs/Artifact.md explains.
"""

import ctypes
import functools
import json
import pathlib
import re

import torch

TYPES = {
    "f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64,
    "i1": torch.bool, "i8": torch.int8, "i32": torch.int32, "i64": torch.int64,
}
# CUtensorMapDataType, CUtensorMapSwizzle and the rest of cuda.h that is used here.
MAP_TYPES = {"i1": 0, "i8": 0, "i32": 3, "i64": 5, "f16": 6, "f32": 7, "f64": 8, "bf16": 9}
SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
L2_PROMOTION_256 = 3
MAX_DYNAMIC_SHARED_SIZE = 8
JIT_ERROR_LOG_BUFFER, JIT_ERROR_LOG_BUFFER_SIZE = 5, 6
MAP_BYTES, MAP_ALIGNMENT = 128, 64


class CudaError(RuntimeError):
    pass


@functools.cache
def driver():
    return ctypes.CDLL("libcuda.so.1")


def check(status, what):
    if status:
        name, text = ctypes.c_char_p(), ctypes.c_char_p()
        driver().cuGetErrorName(status, ctypes.byref(name))
        driver().cuGetErrorString(status, ctypes.byref(text))
        raise CudaError(f"{what}: {(name.value or b'?').decode()}: {(text.value or b'?').decode()}")


def clamped_sum(n, first, limit):
    """The sum of clamp(first + i, 0, limit) over 0 <= i < n."""
    n, limit = max(n, 0), max(limit, 0)
    low = min(max(-first, 0), n)
    high = min(max(limit - first, low), n)
    rising = (high - low) * first + (high * (high - 1) - low * (low - 1)) // 2
    return rising + (n - high) * limit


FUNCTIONS = {"min": min, "max": max, "ceildiv": lambda a, b: -(-a // b), "clamped_sum": clamped_sum}


def evaluate(expression, sizes):
    """A size expression, as include/attn/Artifact/SizeExpression.h defines them."""
    if not re.fullmatch(r"[\w\s,+\-*/%()]+", expression):
        raise ValueError(f"no size expression: {expression!r}")
    text = expression.replace("/", "//")
    return eval(text, {"__builtins__": {}}, {**FUNCTIONS, **sizes})  # noqa: S307: checked above


class CudaKernel:
    def __init__(self, path):
        path = pathlib.Path(path)
        self.description = json.loads(pathlib.Path(f"{path}.json").read_text())
        d = self.description
        if d["version"] != 1 or d["abi"] != "memref-parameters":
            raise ValueError(f"{path}.json: expected version 1 with abi memref-parameters")
        torch.empty(1, device="cuda")  # makes torch's context this thread's
        self.module = ctypes.c_void_p()
        self.load(path.read_bytes() + b"\0", path)
        # The kernels in order: the first, and those that follow it; and what stands in for them.
        self.kernels = [(k, self.find(k["entry"], path)) for k in [d, *d.get("then", [])]]
        self.otherwise = [(k, self.find(k["entry"], path)) for k in d.get("otherwise", [])]
        self.launches = {}

    def find(self, entry, path):
        function = ctypes.c_void_p()
        found = driver().cuModuleGetFunction(ctypes.byref(function), self.module, entry.encode())
        check(found, f"{path}: entry {entry}")
        return function

    def load(self, image, path):
        log = ctypes.create_string_buffer(8192)
        options = (ctypes.c_int * 2)(JIT_ERROR_LOG_BUFFER, JIT_ERROR_LOG_BUFFER_SIZE)
        values = (ctypes.c_void_p * 2)(ctypes.addressof(log), len(log))
        loaded = driver().cuModuleLoadDataEx(ctypes.byref(self.module), image, 2, options, values)
        check(loaded, f"{path}: {log.value.decode(errors='replace').strip()}")

    def __call__(self, *tensors):
        """Launches on torch's current stream, on inputs and outputs in the order of the description."""
        key = tuple((t.data_ptr(), t.shape, t.stride()) for t in tensors)
        launch = self.launches.get(key)
        if launch is None:
            if len(self.launches) > 64:
                self.launches.clear()
            launch = self.launches[key] = self.prepare(tensors)
        steps, _ = launch
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        for function, grid, block, shared, parameters, _ in steps:
            if 0 in grid:
                continue
            check(
                driver().cuLaunchKernel(function, *grid, *block, shared, stream, parameters, None),
                f"launch of {self.description['name']} on {grid} blocks",
            )

    def flops(self, *tensors):
        return evaluate(self.description["flops"], self.bind_sizes(tensors))

    def bind_sizes(self, tensors):
        arguments = self.description["arguments"]
        if len(tensors) != len(arguments):
            raise ValueError(f"expected {len(arguments)} tensors, got {len(tensors)}")
        sizes = {}
        for argument, tensor in zip(arguments, tensors):
            name, shape = argument["name"], argument["shape"]
            if tensor.dtype != TYPES[argument["type"]] or not tensor.is_cuda:
                raise ValueError(f"{name}: expected {argument['type']} on the GPU")
            fits = tensor.dim() == len(shape) and all(
                given == (sizes.setdefault(size, given) if isinstance(size, str) else size)
                for size, given in zip(shape, tensor.shape)
            )
            if not fits:
                raise ValueError(f"{name}: expected {shape} with {sizes}, got {list(tensor.shape)}")
            check_strides(argument, tensor)
        return sizes

    def prepare(self, tensors):
        d = self.description
        sizes = self.bind_sizes(tensors)
        values = []
        for argument, t in zip(d["arguments"], tensors):
            offset = argument.get("offset", 0)
            address = t.data_ptr() - offset * t.element_size()
            words = [address, address, offset, *t.shape, *t.stride()]
            values += [ctypes.c_int64(word) for word in words]
        workspace = None
        if d["workspace_bytes"] != "0":
            # Whatever it holds will do; NaN shows where it reaches a result.
            count = evaluate(d["workspace_bytes"], sizes) // 4
            workspace = torch.full((max(count, 4),), float("nan"), device="cuda")
            address = workspace.data_ptr()
            values += [ctypes.c_int64(word) for word in (address, address, 0, count, 1)]
        steps = [self.prepare_step(*step, sizes, values) for step in self.choose_steps(tensors)]
        return steps, workspace

    def choose_steps(self, tensors):
        """Kernels with their tensor maps: of `otherwise`, where one cannot be made."""

        def encode(kernel):
            arguments = self.description["arguments"]
            numbers = [(m, m["argument"]) for m in kernel.get("tensor_maps", [])]
            return [encode_map(m, arguments[n], tensors[n]) for m, n in numbers]

        try:
            return [(kernel, function, encode(kernel)) for kernel, function in self.kernels]
        except (ValueError, CudaError):
            if not self.otherwise:
                raise
            return [(kernel, function, encode(kernel)) for kernel, function in self.otherwise]

    def prepare_step(self, kernel, function, maps, sizes, values):
        grid = [max(evaluate(g, sizes), 0) for g in kernel["grid"]]
        block = [evaluate(w, sizes) for w in kernel["workgroup"]]
        shared = evaluate(kernel["shared_memory_bytes"], sizes)
        if shared > 48 << 10:
            set_to = driver().cuFuncSetAttribute(function, MAX_DYNAMIC_SHARED_SIZE, shared)
            check(set_to, f"{shared} bytes of shared memory")
        values = values + maps
        addresses = (ctypes.c_void_p * len(values))(*(ctypes.addressof(v) for v in values))
        return function, grid, block, shared, addresses, values


def check_strides(argument, tensor):
    """Strides of dimensions of one element do not matter."""
    expected = argument.get("strides")
    packed = 1
    for d in reversed(range(tensor.dim())):
        wanted = expected[d] if expected else packed
        packed *= tensor.shape[d]
        if wanted != "any" and tensor.shape[d] > 1 and tensor.stride(d) != wanted and tensor.numel():
            raise ValueError(
                f"{argument['name']}: expected strides {expected or 'of a contiguous tensor'}, "
                f"got {tensor.stride()}"
            )


def encode_map(tensor_map, argument, tensor):
    """A CUtensorMap; cuda.h counts dimensions from the innermost one on."""
    rank, width = tensor.dim(), tensor.element_size()
    strides, packed = [], width
    for size, stride in zip(reversed(tensor.shape), reversed(tensor.stride())):
        # The encoder minds even strides that no address depends on.
        strides.append(stride * width if size > 1 else -(-packed // 16) * 16)
        packed = max(packed, strides[-1] * max(size, 1))
    if tensor.data_ptr() % 16 or any(s % 16 for s in strides[1:]):
        raise ValueError(
            f"{argument['name']}: TMA needs an address and strides that are multiples of 16 bytes, "
            f"got {tensor.data_ptr():#x} and {strides[1:]}; copy the tensor, or compile without TMA"
        )
    storage = (ctypes.c_uint8 * (MAP_BYTES + MAP_ALIGNMENT))()
    shift = -ctypes.addressof(storage) % MAP_ALIGNMENT
    encoded = (ctypes.c_uint8 * MAP_BYTES).from_buffer(storage, shift)
    status = driver().cuTensorMapEncodeTiled(
        encoded,
        MAP_TYPES[argument["type"]],
        ctypes.c_uint32(rank),
        ctypes.c_void_p(tensor.data_ptr()),
        (ctypes.c_uint64 * rank)(*(max(s, 1) for s in reversed(tensor.shape))),
        (ctypes.c_uint64 * (rank - 1))(*strides[1:]),
        (ctypes.c_uint32 * rank)(*reversed(tensor_map["box"])),
        (ctypes.c_uint32 * rank)(*[1] * rank),
        0,
        SWIZZLES[tensor_map["swizzle"]],
        L2_PROMOTION_256,
        0,
    )
    check(status, f"tensor map of {argument['name']} with box {tensor_map['box']}")
    return encoded
