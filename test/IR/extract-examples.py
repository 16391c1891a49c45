"""Writes the ```mlir examples of the definitions as one module file.

    extract-examples.py DEFINITIONS.td...

A whole example (one that holds a func.func) stands as it is. An attribute becomes
the attribute of a function, an `attn.yield` the end of a score_mod. Any other
form is an error, so that no example is left out unseen. Examples are separated
for -split-input-file.
"""

import pathlib
import re
import sys
import textwrap

EXAMPLE = re.compile(r"```mlir\n(.*?)```", re.S)

SCORE_MOD = """func.func @yield(%q: tensor<1x1x4x4xf32>) -> tensor<1x1x4x4xf32> {{
  %o = attn.attention %q, %q, %q score_mod(%score, %b, %h, %i, %j) {{
    {example}
  }} : tensor<1x1x4x4xf32>, tensor<1x1x4x4xf32>, tensor<1x1x4x4xf32> -> tensor<1x1x4x4xf32>
  return %o : tensor<1x1x4x4xf32>
}}"""


def as_module(example):
    if "func.func" in example:
        return example
    if example.startswith("#attn."):
        return f"func.func private @attribute() attributes {{example = {example}}}"
    if example.startswith("attn.yield"):
        return SCORE_MOD.format(example=example)
    sys.exit(f"extract-examples: do not know how to place this example:\n{example}")


def main(paths):
    modules = []
    for path in paths:
        text = pathlib.Path(path).read_text()
        found = [textwrap.dedent(m).strip() for m in EXAMPLE.findall(text)]
        modules += [f"// {pathlib.Path(path).name}\n{as_module(e)}" for e in found]
    if not modules:
        sys.exit("extract-examples: no example found")
    print("\n// -----\n".join(modules))


if __name__ == "__main__":
    main(sys.argv[1:])
