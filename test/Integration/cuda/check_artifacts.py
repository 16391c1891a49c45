"""Runs saved problems on a GPU and compares them with the oracle's answers.

    check_artifacts.py FOLDER

FOLDER is what AttnCudaKernelTests wrote with ATTN_TEST_SAVE. Needs torch, numpy and the
driver; no part of the compiler. Every kernel runs twice on poisoned outputs and must give the
same bits, gradients where they are deterministic; operands lie in memory with the strides and
offsets of the problem, with NaN between. N.cubin is taken in the place of N.ptx where it is there.
"""

import json
import pathlib
import sys

import numpy as np
import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
from cuda_kernel import TYPES, CudaKernel  # noqa: E402

POISON = {2: 0x7FA5, 4: 0x7FA5A5A5, 8: 0x7FF5A5A5A5A5A5A5}
WORDS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def bits(tensor):
    return tensor.view(WORDS[tensor.element_size()])


def place(argument, values=None):
    """A strided tensor on the GPU amid poison, and the buffer that it is a view of."""
    kind, shape = TYPES[argument["element"]], argument["shape"]
    strides, offset = argument["strides"], argument["offset"]
    last = sum((n - 1) * s for n, s in zip(shape, strides)) if 0 not in shape else -1
    buffer = torch.zeros(offset + last + 1 + 8, dtype=kind, device="cuda")
    if kind.is_floating_point:
        bits(buffer).fill_(POISON[buffer.element_size()])
    tensor = buffer.as_strided(shape, strides, offset)
    if values is not None:
        bits(tensor).copy_(torch.from_numpy(values.copy()).view(WORDS[buffer.element_size()]))
    return tensor, buffer


def load(path):
    array = np.load(path)
    return array.view({1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}[array.dtype.itemsize])


def relative_error(got, expected, least=0.0):
    """As relativeError of include/attn/Reference/Array.h."""
    finite = np.isfinite(got) & np.isfinite(expected)
    agree = (got == expected) | (np.isnan(got) & np.isnan(expected))
    if not np.all(finite | agree):
        return np.inf
    difference = np.linalg.norm((got - expected)[finite])
    norm = np.linalg.norm(np.maximum(np.abs(expected[finite]), least))
    return 0.0 if difference == 0 else np.inf if norm == 0 else difference / norm


def compare(case, base, outputs):
    compared = np.load(f"{base}.compared.npy")
    got = outputs[0].double().cpu().numpy()
    rows = compared.swapaxes(1, 2) if case["bshd"] else compared
    expected = np.load(f"{base}.expected.npy")
    got = np.where(rows[..., None], got, 0)
    error = relative_error(got, expected)
    if not error <= case["output_bound"]:
        return f"output error {error:.3g}, bound {case['output_bound']:.3g}"
    if case["lse"]:
        got = np.where(compared, outputs[-1].double().cpu().numpy(), -np.inf)
        error = relative_error(got, np.load(f"{base}.lse.npy"), least=1)
        if not error <= case["lse_bound"]:
            return f"lse error {error:.3g}, bound {case['lse_bound']:.3g}"
    return ""


def compare_gradients(case, base, outputs):
    for gradient, tensor in zip(case["gradients"], outputs):
        got = tensor.double().cpu().numpy()
        expected = np.load(f"{base}.{gradient['name']}.expected.npy")
        finite = np.isfinite(expected)
        agree = (got == expected) | (np.isnan(got) & np.isnan(expected))
        difference = np.linalg.norm((got - expected)[finite])
        error = 0.0 if difference == 0 else difference / max(gradient["magnitude"], 1e-300)
        if not np.all(finite | agree) or not error <= gradient["bound"]:
            return f"{gradient['name']} error {error:.3g}, bound {gradient['bound']:.3g}"
    return ""


def check(base):
    case = json.loads(pathlib.Path(f"{base}.case.json").read_text())
    cubin = pathlib.Path(f"{base}.cubin")
    if cubin.exists():
        pathlib.Path(f"{cubin}.json").write_text(pathlib.Path(f"{base}.ptx.json").read_text())
    kernel = CudaKernel(cubin if cubin.exists() else f"{base}.ptx")
    placed = [
        place(a, None if a["output"] else load(f"{base}.{a['name']}.npy")) for a in case["arguments"]
    ]
    # Where a type leaves the distances open, they are the caller's.
    for described, argument in zip(kernel.description["arguments"], case["arguments"]):
        described["strides"] = argument["strides"]
        described.setdefault("offset", argument["offset"])
    tensors = [tensor for tensor, _ in placed]
    is_output = [a["output"] for a in case["arguments"]]
    inputs = [bits(buffer).clone() for (_, buffer), out in zip(placed, is_output) if not out]
    outputs = [tensor for tensor, out in zip(tensors, is_output) if out]
    runs = []
    for _ in range(2):
        for (_, buffer), out in zip(placed, is_output):
            if out:
                bits(buffer).fill_(POISON[buffer.element_size()])
        kernel(*tensors)
        torch.cuda.synchronize()
        for tensor in outputs:
            if int((bits(tensor) == POISON[tensor.element_size()]).sum()):
                return "elements were not written"
        buffers = [bits(buffer).clone() for (_, buffer), out in zip(placed, is_output) if out]
        for tensor, (_, buffer) in zip(outputs, [p for p, out in zip(placed, is_output) if out]):
            between = bits(buffer).clone()
            between.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset()).fill_(
                POISON[tensor.element_size()]
            )
            if not bool((between == POISON[tensor.element_size()]).all()):
                return "wrote between the elements of its output"
        runs.append(buffers)
    if case.get("deterministic", True) and not all(torch.equal(a, b) for a, b in zip(*runs)):
        return "differs between runs"
    after = [bits(buffer) for (_, buffer), out in zip(placed, is_output) if not out]
    if not all(torch.equal(a, b) for a, b in zip(inputs, after)):
        return "changed an input"
    return (compare_gradients if "gradients" in case else compare)(case, base, outputs)


def main():
    folder = pathlib.Path(sys.argv[1])
    failures = count = 0
    for path in sorted(folder.glob("*.case.json")):
        count += 1
        base = str(path)[: -len(".case.json")]
        try:
            problem = check(base)
        except Exception as error:  # a lost context fails every problem behind it
            problem = f"{type(error).__name__}: {error}"
        if problem:
            failures += 1
            print(f"{path.stem.split('.')[0]}: {problem}", flush=True)
    print(f"{count - failures} of {count} right")
    return failures != 0


if __name__ == "__main__":
    sys.exit(main())
