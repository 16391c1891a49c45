#!/usr/bin/env python3
"""Prints the tiled form as the loop that it is, one line a role.

    attn-opt FILE --emit=tiled | scripts/outline.py

attn-tile names what each op is for (`attn.role`); index arithmetic has no role and
is left out. Sizes are those of the ops that are read.
"""

import re
import sys

ROLE = re.compile(r'attn\.role = "(\w+)"')
VECTOR = re.compile(r"vector<([^<>]+)>")


def last_vector(line):
    return VECTOR.findall(line)[-1]


def for_all(line):
    sizes = re.search(r"\bin \((.*?)\)", line).group(1)
    names = re.sub(r"%[\w#]+", "?", sizes)
    return f"in parallel for each (batch, head, query block) of ({names})"


def sweep(line):
    step = re.search(r"step (%\w+)", line).group(1).lstrip("%c")
    m, _, acc = VECTOR.findall(line[line.index("->") :])
    return f"for each block of {step} keys, carrying m <{m}>, l <{m}>, acc <{acc}>"


PHRASES = {
    "tasks": for_all,
    "query": lambda line: f"q   = read query <{last_vector(line)}>",
    "sweep": sweep,
    "reach": lambda line: "unless every key of the block is hidden",
    "scores": lambda line: f"s   = q · transposed(read key)  <{last_vector(line)}>",
    "masked": lambda line: (
        "s   = -inf where a key is hidden, in blocks on an edge only"
        if "scf.if" in line
        else "s   = -inf where a key is hidden"
    ),
    "row_max": lambda line: "m'  = max(m, row maximum of s)",
    "probabilities": lambda line: f"p   = exp2(c s - c m)  <{last_vector(line)}>",
    "rescale": lambda line: "if any row needs another reference",
    "correction": lambda line: (
        "a   = exp2(c m - c m');  m, l, acc = m', a l, a acc"
    ),
    "row_sum": lambda line: "l   = l + row sum of p",
    "accumulator": lambda line: f"acc = acc + p · (read value)  <{last_vector(line)}>",
    "output": lambda line: "write acc / l",
    "lse": lambda line: "write (c m + log2 l) ln 2",
}


def lines_by_role(text):
    """Yields (depth, role, line). A loop's role stands behind its brace."""
    found, open_lines = [], []
    for line in text.splitlines():
        role = ROLE.search(line)
        if line.lstrip().startswith("}"):
            start = open_lines.pop()
            if "else" in line:
                open_lines.append(start)
            elif role:
                found.append((start, role.group(1)))
        elif role:
            found.append(((len(found), line, len(open_lines)), role.group(1)))
        if line.rstrip().endswith("{") and not line.lstrip().startswith("}"):
            open_lines.append((len(found), line, len(open_lines)))
    # A loop is met at its end but printed at its start.
    order = sorted(range(len(found)), key=lambda i: (found[i][0][0], found[i][0][2]))
    for i in order:
        (_, line, depth), role = found[i]
        yield depth, role, line


def main():
    printed = {}
    for depth, role, line in lines_by_role(sys.stdin.read()):
        if role == "tasks":
            printed.clear()
        if role not in PHRASES or role in printed:
            continue
        level = {d for d in printed.values() if d < depth}
        printed[role] = depth
        print("  " * len(level) + PHRASES[role](line))
    if not printed:
        sys.exit("outline: no attn.role in the input; expected the tiled form")


if __name__ == "__main__":
    main()
