"""The other side of the CPU benchmark: attentions of other libraries, matrix products.

Each peer is a function (args, element, dim, causal, arrays) to (the call to time, a
call for its output [1, heads, length, dim]). bf16 arrays are uint16, as the bits lie.
One that does not take a case raises whatever its library raises.
"""

import numpy as np

from cpu_kernel import HEADS, LENGTH, TYPES
from cpu_product import product_of


def torch_sdpa(args, element, dim, causal, arrays):
    import torch

    torch.set_num_threads(args.threads)
    q, k, v = (torch.from_numpy(a).view(getattr(torch, TYPES[element])) for a in arrays)

    def run():
        with torch.no_grad():
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    bits = torch.uint16 if element == "bf16" else torch.float32
    return run, lambda: run().view(bits).numpy()


def onnxruntime_attention(args, element, dim, causal, arrays, operator):
    import onnx
    import onnxruntime
    from onnx import helper

    grouped = operator == "GroupQueryAttention"
    if grouped and not causal:
        raise RuntimeError("always causal")
    kind = {"f32": onnx.TensorProto.FLOAT, "bf16": onnx.TensorProto.BFLOAT16}[element]
    width = [1, LENGTH, HEADS * dim]
    info = lambda name, shape: helper.make_tensor_value_info(name, kind, shape)
    inputs, outputs, fixed = [info(n, width) for n in "qkv"], [info("o", width)], []
    if grouped:
        node = helper.make_node(
            operator, [*"qkv", "", "", "last", "total"], ["o", "pk", "pv"],
            domain="com.microsoft", num_heads=HEADS, kv_num_heads=HEADS,
        )
        number = lambda name, n: helper.make_tensor(name, onnx.TensorProto.INT32, [1], [n])
        fixed = [number("last", LENGTH - 1), number("total", LENGTH)]
        outputs += [info(n, [1, HEADS, LENGTH, dim]) for n in ("pk", "pv")]
    else:
        node = helper.make_node(
            operator, [*"qkv"], ["o"],
            domain="com.microsoft", num_heads=HEADS, unidirectional=int(causal),
        )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph([node], "attention", inputs, outputs, fixed)
    model = helper.make_model(graph, opset_imports=opsets)
    model.ir_version = 9
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = args.threads
    options.add_session_config_entry("session.force_spinning_stop", "1")
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    # Heads beside each other, as the operator wants them: not its time.
    by_row = lambda a: np.ascontiguousarray(a.transpose(0, 2, 1, 3)).reshape(width)
    feeds = {name: by_row(a) for name, a in zip("qkv", arrays)}
    run = lambda: session.run(None, feeds)[0]
    return run, lambda: run().reshape(1, LENGTH, HEADS, dim).transpose(0, 2, 1, 3)


def openvino_sdpa(args, element, dim, causal, arrays):
    import openvino
    import openvino.opset13 as ops

    kind = getattr(openvino.Type, element)
    parameters = [ops.parameter(list(a.shape), kind) for a in arrays]
    result = ops.scaled_dot_product_attention(*parameters, causal=causal)
    settings = {
        "INFERENCE_PRECISION_HINT": element,
        "INFERENCE_NUM_THREADS": args.threads,
        "PERFORMANCE_HINT": "LATENCY",
        "ENABLE_HYPER_THREADING": True,
    }
    model = openvino.Model([result], parameters)
    request = openvino.Core().compile_model(model, "CPU", settings).create_infer_request()
    for index, a in enumerate(arrays):
        request.set_input_tensor(index, openvino.Tensor(a, openvino.Shape(a.shape), kind))
    data = lambda: request.get_output_tensor(0).data
    return request.infer, lambda: (request.infer(), data().view(arrays[0].dtype))[1]


def matrix_products(args, n=3072):
    """The machine's limits: name, call, operations. For AVX2 code, of the AVX2 kernels."""
    if args.avx2:
        return {"f32": ("AVX2 sgemm", product_of("Haswell", n), 2 * n**3)}
    import torch

    a, b = (np.random.default_rng(i).standard_normal((n, n), dtype=np.float32) for i in (1, 2))
    x, y = (torch.from_numpy(m).bfloat16() for m in (a, b))
    return {
        "f32": ("sgemm", lambda: a @ b, 2 * n**3),
        "bf16": ("bf16 product", lambda: x @ y, 2 * n**3),
    }
