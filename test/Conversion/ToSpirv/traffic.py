"""Compares the bytes that kernels read and write with those that the planner predicts.

    traffic.py

A thread of each task of the mapped kernel is followed through its integers: loops and branches
are taken as they are, and a branch that depends on data, where it may be taken. What it moves
between main memory and registers, times the threads, is what the kernel moves; beside it stands
the traffic of `--explain`. Sizes are stated, so every bound is a number or follows from the task.
"""

import json
import re
import sys

sys.path.append(__file__.rsplit("/", 2)[0] + "/TiledToMMA")
from assemble_grid import run  # noqa: E402

MOST = 0.1
KEYS, HEADS, GROUPS = 1024, 2, 1
CASES = [
    (target, element, dim, words)
    for target, element, dim in (
        ("vulkan", "f32", 64), ("vulkan", "f16", 128), ("vulkan-coopmat", "f16", 128),
        ("vulkan-coopmat", "bf16", 64), ("vulkan-coopmat", "f32", 64), ("vulkan-coopmat", "f32", 128),
    )
    for words in ("", "causal", "causal window(300, -1)")
]

WIDTHS = {"f32": 4, "i32": 4, "f16": 2, "bf16": 2, "f64": 8, "i64": 8, "i1": 1, "i8": 1}


def bytes_of(kind):
    """Of a number or a vector of numbers."""
    found = re.fullmatch(r"vector<(?:(\d+)x)?(\w+)>", kind)
    return int(found[1] or 1) * WIDTHS[found[2]] if found else WIDTHS[kind]


def moved(line):
    """Bytes of main memory that an operation moves."""
    if "workgroup" in line or "Workgroup" in line:
        return 0
    if found := re.search(r'spirv\.Load "StorageBuffer".* : (\S+)$', line):
        return bytes_of(found[1])
    if found := re.search(r'spirv\.Store "StorageBuffer".* : (\S+)$', line):
        return bytes_of(found[1])
    if found := re.search(r"vector\.(?:load|store) .*, (vector<\w+>)$", line):
        return bytes_of(found[1])
    if found := re.search(r"memref\.(?:load|store) .* : memref<(?:.*x)?(\w+)(?:,.*)?>$", line):
        return bytes_of(found[1])
    return 0


INTEGERS = {
    "addi": lambda a, b: a + b, "subi": lambda a, b: a - b, "muli": lambda a, b: a * b,
    "divui": lambda a, b: a // b, "divsi": lambda a, b: a // b, "remui": lambda a, b: a % b,
    "minsi": min, "maxsi": max, "minui": min, "maxui": max,
    "andi": lambda a, b: a & b, "ori": lambda a, b: a | b, "xori": lambda a, b: a ^ b,
    "ceildivsi": lambda a, b: -(-a // b), "ceildivui": lambda a, b: -(-a // b),
    "shli": lambda a, b: a << b, "shrui": lambda a, b: a >> b,
}
COMPARISONS = {
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b,
    "slt": lambda a, b: a < b, "sle": lambda a, b: a <= b, "sgt": lambda a, b: a > b,
    "sge": lambda a, b: a >= b, "ult": lambda a, b: a < b, "ule": lambda a, b: a <= b,
    "ugt": lambda a, b: a > b, "uge": lambda a, b: a >= b,
}
NAMES = re.compile(r"%[\w#-]+")


def parse(lines, at=0):
    """Operations of a region that matter, and the line behind it."""
    ops = []
    while at < len(lines):
        line = lines[at].strip()
        at += 1
        if line.startswith("}"):
            return ops, at, line
        result = re.match(r"(%[\w-]+)(?::\d+)? = ", line)
        name = result[1] if result else None
        if " = scf.while" in line or line.startswith("scf.while"):
            inits = re.search(r"while \((.*?)\) :", line)[1]
            before, at, _ = parse(lines, at)
            after, at, _ = parse(lines, at)
            pairs = [p.split(" = ") for p in inits.split(", ")]
            ops.append(("while", name, pairs, before, after))
        elif "scf.for" in line:
            head = re.search(r"for (?:unsigned )?(%\w+) = (%[\w#-]+) to (%[\w#-]+) step (%[\w#-]+)", line)
            inits = re.search(r"iter_args\((.*?)\) ->", line)
            pairs = [p.split(" = ") for p in inits[1].split(", ")] if inits else []
            body, at, _ = parse(lines, at)
            ops.append(("for", name, head.groups(), pairs, body))
        elif "scf.if" in line:
            condition = re.search(r"scf\.if (%[\w#-]+)", line)[1]
            then, at, end = parse(lines, at)
            other = []
            if "else" in end:
                other, at, _ = parse(lines, at)
            ops.append(("if", name, condition, then, other))
        elif line.endswith("{"):
            inner, at, _ = parse(lines, at)
            ops.append(("block", inner))
        elif line.startswith("^bb0("):
            ops.append(("arguments", NAMES.findall(line)))
        elif line.startswith(("scf.yield", "scf.condition")):
            ops.append(("yield", NAMES.findall(line.split(" : ")[0])))
        elif size := moved(line):
            ops.append(("move", size))
        elif found := re.search(r"= arith\.constant (-?\d+|true|false)(?: :|$)", line):
            ops.append(("constant", name, {"true": 1, "false": 0}.get(found[1]) or
                        (0 if found[1] == "false" else 1 if found[1] == "true" else int(found[1]))))
        elif found := re.search(r"= arith\.cmpi (\w+), (%[\w#-]+), (%[\w#-]+)", line):
            ops.append(("apply", name, COMPARISONS[found[1]], found[2], found[3]))
        elif found := re.search(r"= arith\.(\w+) (%[\w#-]+), (%[\w#-]+) :.* (?:i\d+|index)$", line):
            if found[1] in INTEGERS:
                ops.append(("apply", name, INTEGERS[found[1]], found[2], found[3]))
        elif found := re.search(r"= arith\.(?:index_cast|extui|trunci|extsi) (%[\w#-]+)", line):
            ops.append(("copy", name, found[1]))
        elif found := re.search(r"= arith\.select (%[\w#-]+), (%[\w#-]+), (%[\w#-]+)", line):
            ops.append(("select", name, *found.groups()))
        elif found := re.search(r"= gpu\.(block_id  [xyz]|thread_id  x|lane_id|subgroup_id)", line):
            ops.append(("id", name, found[1].replace("  ", " ")))
    return ops, at, ""


class Thread:
    def __init__(self, task):
        self.values, self.moved, self.task = {}, 0, task

    def set(self, name, results):
        if name and len(results) == 1:
            self.values[name] = results[0]
        for i, value in enumerate(results if name else []):
            self.values[f"{name}#{i}"] = value

    def get(self, names):
        return [self.values.get(n) for n in names]

    def run(self, ops, arguments=()):
        """The values that the region yields; None for what is not known."""
        for op in ops:
            kind = op[0]
            if kind == "apply":
                x, y = self.values.get(op[3]), self.values.get(op[4])
                self.values[op[1]] = None if x is None or y is None else op[2](x, y)
            elif kind == "constant":
                self.values[op[1]] = op[2]
            elif kind == "move":
                self.moved += op[1]
            elif kind == "copy":
                self.values[op[1]] = self.values.get(op[2])
            elif kind == "select":
                condition, x, y = self.get(op[2:])
                self.values[op[1]] = None if condition is None else x if condition else y
            elif kind == "id":
                self.values[op[1]] = self.task if op[2] == "block_id x" else 0
            elif kind == "yield":
                return self.get(op[1])
            elif kind == "arguments":
                self.values.update(zip(op[1], arguments))
            elif kind == "block":
                self.run(op[1])
            elif kind == "if":
                condition = self.values.get(op[2])
                taken = op[3] if condition is None or condition else op[4]
                self.set(op[1], self.run(taken) or [])
            elif kind == "for":
                variable, lower, upper, step = op[2]
                carried = self.get([init for _, init in op[3]])
                for position in range(*self.get((lower, upper, step))):
                    self.values[variable] = position
                    self.values.update(zip((n for n, _ in op[3]), carried))
                    carried = self.run(op[4]) or []
                self.set(op[1], carried)
            elif kind == "while":
                carried = self.get([init for _, init in op[2]])
                while True:
                    self.values.update(zip((n for n, _ in op[2]), carried))
                    goes, *carried = self.run(op[3])
                    if goes is None:
                        raise ValueError("a loop that depends on data")
                    if not goes:
                        break
                    carried = self.run(op[4], carried)
                self.set(op[1], carried)
        return None


def check(case):
    target, element, dim, words = case
    q = f"tensor<1x{HEADS}x{KEYS}x{dim}x{element}>"
    k = f"tensor<1x{GROUPS}x{KEYS}x{dim}x{element}>"
    text = f"""func.func @f(%q: {q}, %k: {k}, %v: {k}) -> {q} {{
  %o = attn.attention %q, %k, %v {words} : {q}, {k}, {k} -> {q}
  return %o : {q}
}}
"""
    mapped = run(["attn-opt", "-", f"--target={target}", "--emit=mapped"], text)
    explained = run(["attn-opt", "-", f"--target={target}", "--explain=json"], text)
    if mapped.returncode or explained.returncode:
        return mapped.stderr + explained.stderr
    lines = mapped.stdout.splitlines()
    start = next(i for i, line in enumerate(lines) if "gpu.func @f(" in line)
    threads = int(re.search(r"workgroup = (\d+)", lines[start])[1])
    body, _, _ = parse(lines, start + 1)
    plan = json.loads(explained.stdout)[0]["chosen"]
    tasks = HEADS * -(-KEYS // plan["tiling"]["block_query"])
    counted = 0
    for task in range(tasks):
        thread = Thread(task)
        thread.run(body)
        counted += thread.moved * threads
    predicted = plan["traffic_bytes"]["tiled"]
    off = counted / predicted - 1
    print(f"{case}: {counted} bytes counted, {predicted:.0f} predicted, {100 * off:+.1f} %")
    return "" if abs(off) <= MOST else "too far off"


def main():
    wrong = 0
    for case in CASES:
        if problem := check(case):
            wrong += 1
            print(f"{case}: {problem}")
    print(f"{len(CASES) - wrong} of {len(CASES)} kernels move what was predicted")
    return wrong != 0


if __name__ == "__main__":
    sys.exit(main())
