"""Gradients of a list of problems on a GPU against float64.

    check_gradients.py compile FOLDER --build build     # anywhere; names what spills
    check_gradients.py check FOLDER                      # where the GPU is; torch and the driver

`--target=sm_80` compiles for warps; `--arch=sm_90a` assembles that for another GPU than the
target's.

An error may be 1.5 times that of the straightforward implementation at the same precision:
f32 arithmetic, P and dS rounded for their products, results rounded. Gradients and workspace
hold NaN before; keys and values behind a length hold NaN.
"""

import argparse
import dataclasses
import math
import pathlib
import subprocess
import sys

ALIBI = """captures(%x : tensor<{h}xf32>) score_mod(%s, %b, %h, %i, %j, %c) {{
    %slope = tensor.extract %c[%h] : tensor<{h}xf32>
    %ji = arith.subi %j, %i : index
    %d = arith.index_cast %ji : index to i32
    %f = arith.sitofp %d : i32 to f32
    %bias = arith.mulf %slope, %f : f32
    %r = arith.addf %s, %bias : f32
    attn.yield %r : f32
  }}"""


@dataclasses.dataclass
class Case:
    name: str
    shape: tuple  # B, Hq, Hkv, Sq, Skv, D, Dv
    element: str = "bf16"
    clauses: str = ""
    extra: str = ""  # "lengths", "slopes"
    bshd: bool = False
    deterministic: bool = False


def square(length, dim, batch=1, heads=2):
    return (batch, heads, heads, length, length, dim, dim)


CASES = [
    Case("d128-full", square(256, 128)),
    Case("d64-full", square(384, 64)),
    Case("d128-causal", square(512, 128), clauses="causal"),
    Case("d64-causal", square(512, 64), clauses="causal"),
    Case("d128-f16", square(256, 128), element="f16", clauses="causal"),
    Case("d64-f16", square(256, 64), element="f16"),
    Case("tails-128", (2, 3, 3, 333, 217, 128, 128)),
    Case("tails-64-causal", (1, 2, 2, 217, 333, 64, 64), clauses="causal"),
    Case("one", (1, 1, 1, 1, 1, 128, 128)),
    Case("one-key", (1, 2, 2, 100, 1, 64, 64)),
    Case("grouped", (2, 6, 2, 200, 300, 128, 128), clauses="causal"),
    Case("grouped-64", (1, 8, 1, 130, 260, 64, 64)),
    Case("bottom-right", (1, 2, 2, 150, 400, 128, 128), clauses="causal bottom_right"),
    Case("bottom-right-long", (1, 2, 2, 400, 150, 128, 128), clauses="causal bottom_right"),
    Case("window", square(700, 128), clauses="causal window(100, 0)"),
    Case("window-both", square(500, 64), clauses="window(70, 33)"),
    Case("window-behind", (1, 2, 2, 100, 500, 128, 128), clauses="causal bottom_right window(90, 0)"),
    Case("lengths", (3, 2, 2, 200, 300, 128, 128), clauses="kv_lengths(%x : tensor<3xi32>)", extra="lengths"),
    Case("lengths-causal", (3, 2, 2, 300, 300, 64, 64), clauses="causal kv_lengths(%x : tensor<3xi32>)", extra="lengths"),
    Case("softcap", square(300, 128), clauses="causal softcap(5.0)"),
    Case("softcap-64", square(300, 64), clauses="softcap(5.0)"),
    Case("alibi", square(300, 128, heads=4), clauses="causal " + ALIBI.format(h=4), extra="slopes"),
    Case("alibi-64", square(300, 64, heads=4), clauses=ALIBI.format(h=4), extra="slopes"),
    Case("scale", square(200, 128), clauses="scale(-0.2)"),
    Case("bshd", (2, 4, 2, 200, 260, 128, 128), clauses="causal", bshd=True),
    Case("wide-values", (1, 2, 2, 200, 260, 64, 128), clauses="causal"),
    Case("narrow-values", (1, 2, 2, 200, 260, 128, 64)),
    Case("d256-full", square(200, 256)),
    Case("d256-causal", square(333, 256), clauses="causal"),
    Case("d256-f16", (1, 4, 2, 200, 260, 256, 256), element="f16", clauses="causal"),
    Case("d256-window", square(500, 256), clauses="causal window(100, 0)"),
    Case("d256-lengths", (3, 2, 2, 200, 300, 256, 256), clauses="kv_lengths(%x : tensor<3xi32>)", extra="lengths"),
    Case("d192-128", (1, 2, 1, 200, 260, 192, 128), clauses="causal"),
    Case("deterministic-128", square(400, 128), deterministic=True),
    Case("deterministic-128-causal", (2, 4, 2, 333, 400, 128, 128), clauses="causal bottom_right", deterministic=True),
    Case("deterministic-64", square(300, 64), clauses="causal", deterministic=True),
    Case("deterministic-lengths", (3, 2, 2, 200, 300, 64, 64), clauses="kv_lengths(%x : tensor<3xi32>)", extra="lengths", deterministic=True),
    Case("deterministic-window", (1, 2, 2, 100, 500, 128, 128), clauses="causal bottom_right window(90, 0)", deterministic=True),
    Case("deterministic-softcap", square(300, 128), clauses="softcap(5.0)", deterministic=True),
    Case("deterministic-256", square(300, 256), clauses="causal", deterministic=True),
    Case("sinks", (2, 4, 2, 200, 260, 128, 128), clauses="causal sinks(%x : tensor<4xf32>) gradients(sinks)", extra="sinks"),
    Case("sinks-64", (3, 2, 2, 500, 260, 64, 64), clauses="sinks(%x : tensor<2xf32>) gradients(sinks)", extra="sinks"),
    Case("sinks-256", (1, 2, 2, 100, 260, 256, 256), clauses="sinks(%x : tensor<2xf32>) gradients(sinks)", extra="sinks"),
    Case("d40", square(200, 40), clauses="causal"),
    Case("d72", square(200, 72)),
    Case("d96", square(200, 96), clauses="causal"),
]


# ---------------------------------------------------------------------------
# Compiling
# ---------------------------------------------------------------------------


def module(case):
    b, hq, hkv, sq, skv, d, dv = case.shape

    def tensor(heads, length, width):
        shape = f"{b}x{length}x{heads}x{width}" if case.bshd else f"{b}x{heads}x{length}x{width}"
        return f"tensor<{shape}x{case.element}>"

    q, k, v, o = tensor(hq, sq, d), tensor(hkv, skv, d), tensor(hkv, skv, dv), tensor(hq, sq, dv)
    rows = f"tensor<{b}x{hq}x{sq}xf32>"
    per_head = f", %x: tensor<{hq}xf32>"
    operand = {"lengths": f", %x: tensor<{b}xi32>", "slopes": per_head, "sinks": per_head}.get(case.extra, "")
    clauses = case.clauses
    flags = ("deterministic " if case.deterministic else "") + ("layout(bshd) " if case.bshd else "")
    results = [q, k, v] + ([f"tensor<{hq}xf32>"] if case.extra == "sinks" else [])
    types, names = ", ".join(results), ", ".join(f"%g#{n}" for n in range(len(results)))
    return (
        f"func.func @gradients(%q: {q}, %k: {k}, %v: {v}, %o: {o}, %l: {rows}, %do: {o}{operand}) -> ({types}) {{\n"
        f"  %g:{len(results)} = attn.attention_backward %q, %k, %v, %o, %l, %do {flags}{clauses}\n"
        f"    : {q}, {k}, {v}, {o}, {rows}, {o} -> {types}\n"
        f"  return {names} : {types}\n}}\n"
    )


def compile_case(args, case):
    base, stage = args.folder / case.name, "ptx" if args.arch else "cubin"
    command = [
        args.attn_opt or args.build / "bin" / "attn-opt", "-", f"--target={args.target}", f"--emit={stage}",
        "-o", f"{base}.{stage}",
    ]
    done = subprocess.run(command, input=module(case), text=True, capture_output=True)
    if done.returncode or not args.arch:
        return done, "" if done.returncode else pathlib.Path(f"{base}.cubin.log").read_text()
    command = ["ptxas", "-v", f"-arch={args.arch}", f"{base}.ptx", "-o", f"{base}.cubin"]
    done = subprocess.run(command, text=True, capture_output=True)
    pathlib.Path(f"{base}.ptx.json").replace(f"{base}.cubin.json")
    pathlib.Path(f"{base}.ptx").unlink()
    return done, done.stderr


def compile_cases(args):
    args.folder.mkdir(parents=True, exist_ok=True)
    failures = 0
    for case in selected(args):
        done, log = compile_case(args, case)
        spills = [l.strip() for l in log.splitlines() if "spill" in l and "0 bytes spill stores" not in l or "C75" in l]
        for line in (done.stderr.splitlines()[:3] if done.returncode else []) + spills:
            print(f"{case.name}: {line}")
        failures += bool(done.returncode or spills)
    print(f"{len(selected(args))} compiled, {failures} with problems")
    return failures


# ---------------------------------------------------------------------------
# Checking
# ---------------------------------------------------------------------------


def numbers_after(text, word):
    if word not in text:
        return None
    return [float(n) for n in text.split(word + "(", 1)[1].split(")", 1)[0].split(",")]


def visibility(torch, case, lengths):
    """[B, Sq, Skv], by the rules of the op."""
    b, _, _, sq, skv, _, _ = case.shape
    i = torch.arange(sq, device="cuda")[:, None]
    j = torch.arange(skv, device="cuda")[None, :]
    diagonal = i + (skv - sq if "bottom_right" in case.clauses else 0)
    seen = torch.ones(b, sq, skv, dtype=torch.bool, device="cuda")
    if "causal" in case.clauses:
        seen &= j <= diagonal
    if window := numbers_after(case.clauses, "window"):
        left, right = window
        seen &= (j >= diagonal - left) & (j <= diagonal + right)
    if lengths is not None:
        seen &= j[None] < lengths[:, None, None]
    return seen


def gradients_by(torch, case, tensors, extra, seen, kind, rounded):
    """Output, lse and the three gradients, all arithmetic in `kind`."""
    b, hq, hkv, sq, skv, d, dv = case.shape
    q, k, v, gradient = (t.to(kind) for t in tensors)
    k, v = (t.repeat_interleave(hq // hkv, 1) for t in (k, v))
    round_to = (lambda t: t.to(tensors[0].dtype).to(kind)) if rounded else (lambda t: t)
    scale = (numbers_after(case.clauses, "scale") or [1 / math.sqrt(d)])[0]
    raw = q @ k.transpose(-1, -2) * scale
    scores, slope = raw, 1
    if cap := numbers_after(case.clauses, "softcap"):
        tanh = torch.tanh(raw / cap[0])
        scores, slope = tanh * cap[0], 1 - tanh * tanh
    if case.extra == "slopes":
        distance = torch.arange(skv, device="cuda")[None, :] - torch.arange(sq, device="cuda")[:, None]
        scores = scores + extra.to(kind)[None, :, None, None] * distance.to(kind)
    scores = scores.masked_fill(~seen[:, None], -math.inf)
    lse = torch.logsumexp(scores, -1)
    if case.extra == "sinks":
        lse = torch.logaddexp(lse, extra.to(kind)[None, :, None])
    p = torch.exp(scores - torch.where(torch.isinf(lse), torch.zeros_like(lse), lse)[..., None])
    output = round_to(p) @ v
    dp = gradient @ v.transpose(-1, -2)
    delta = (gradient * round_to(output)).sum(-1, keepdim=True)
    dx = p * (dp - delta) * slope
    dq = round_to(dx) @ k * scale
    dk = round_to(dx).transpose(-1, -2) @ q * scale
    dv_ = round_to(p).transpose(-1, -2) @ gradient
    dk, dv_ = (t.reshape(b, hkv, hq // hkv, skv, -1).sum(2) for t in (dk, dv_))
    gradients = [dq, dk, dv_]
    if case.extra == "sinks":
        gradients.append(-(torch.exp(extra.to(kind)[None, :, None] - lse) * delta[..., 0]).sum((0, 2)))
    return output, lse, gradients


def draw(torch, case):
    b, hq, hkv, sq, skv, d, dv = case.shape
    kind = {"bf16": torch.bfloat16, "f16": torch.float16}[case.element]
    shapes = [(b, hq, sq, d), (b, hkv, skv, d), (b, hkv, skv, dv), (b, hq, sq, dv)]
    tensors = [torch.randn(shape, device="cuda").to(kind) for shape in shapes]
    extra = lengths = None
    if case.extra == "lengths":
        extra = lengths = torch.tensor([skv, skv // 2, 0][:b], dtype=torch.int32, device="cuda")
    elif case.extra == "sinks":
        extra = torch.randn(hq, device="cuda")
    elif case.extra == "slopes":
        extra = -(2.0 ** -torch.arange(1, hq + 1, device="cuda", dtype=torch.float32))
    return tensors, extra, lengths


def check_case(torch, kernel, case):
    tensors, extra, lengths = draw(torch, case)
    seen = visibility(torch, case, lengths)
    output, lse, exact = gradients_by(torch, case, tensors, extra, seen, torch.float64, False)
    straight = gradients_by(torch, case, tensors, extra, seen, torch.float32, True)[2]
    given = list(tensors)
    if lengths is not None:
        given[1], given[2] = given[1].clone(), given[2].clone()
        for batch, length in enumerate(lengths.tolist()):
            given[1][batch, :, length:] = math.nan
            given[2][batch, :, length:] = math.nan
    place = (lambda t: t.transpose(1, 2).contiguous()) if case.bshd else (lambda t: t.contiguous())
    q, k, v, gradient = map(place, given)
    inputs = [q, k, v, place(output.to(q.dtype)), lse.float(), gradient] + ([extra] if extra is not None else [])
    runs = []
    for _ in range(2):
        outs = [torch.full_like(t, math.nan) for t in (q, k, v)] + ([torch.full_like(extra, math.nan)] if case.extra == "sinks" else [])
        kernel(*inputs, *outs)
        torch.cuda.synchronize()
        runs.append(outs)
    if case.deterministic and not all(torch.equal(a, b) for a, b in zip(*runs)):
        return "two runs differ"
    report = []
    for name, got, want, plain in zip("qkvs", runs[1], exact, straight):
        got = (got.transpose(1, 2) if case.bshd and got.dim() == 4 else got).double()
        if bad := int(torch.isnan(got).sum()):
            return f"{bad} elements of d{name} are NaN"
        norm = want.norm().item()
        error = (got - want).norm().item() / (norm or 1)
        bound = 1.5 * ((plain.to(q.dtype).double() - want).norm().item() / (norm or 1)) + 1e-4
        report.append(f"d{name} {error:.1e}/{bound:.1e}")
        if not error <= bound:
            return "error " + ", ".join(report)
    return ""


def check_cases(args):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
    import torch
    from cuda_kernel import CudaKernel

    torch.backends.cuda.matmul.allow_tf32 = False
    failures = 0
    for case in selected(args):
        path = args.folder / f"{case.name}.cubin"
        if not path.exists():
            print(f"{case.name}: not compiled")
            continue
        try:
            problem = check_case(torch, CudaKernel(path), case)
        except Exception as error:  # noqa: BLE001: the others are still of interest
            problem = f"{type(error).__name__}: {error}"
        failures += bool(problem)
        print(f"{case.name}: {problem or 'ok'}", flush=True)
        if "illegal" in problem or "CUDA error" in problem:
            break
    print(f"{failures} failures")
    return failures


def selected(args):
    return [c for c in CASES if not args.only or c.name in args.only.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["compile", "check"])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    parser.add_argument("--attn-opt", type=pathlib.Path, help="in place of that of --build")
    parser.add_argument("--target", default="h200")
    parser.add_argument("--arch", help="what ptxas of PATH assembles for; without, the target's")
    parser.add_argument("--only", help="names of cases, with commas")
    args = parser.parse_args()
    return 1 if (compile_cases if args.action == "compile" else check_cases)(args) else 0


if __name__ == "__main__":
    sys.exit(main())
