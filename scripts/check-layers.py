#!/usr/bin/env python3
"""Fails where a layer includes one above it.

CMake keeps libraries from linking upwards, but a header of any layer can be
included from anywhere. Artifact and Runtime go to machines without a compiler, so
they know no MLIR at all.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Each layer with those that it may include.
LAYERS = {
    "IR": [],
    "Reference": ["IR"],
    "Target": ["IR"],
    "Transforms": ["Target", "IR"],
    "Conversion": ["Transforms", "Target", "IR"],
    "Pipelines": ["Conversion", "Transforms", "Target", "IR"],
    "Artifact": [],
    "Runtime": ["Artifact"],
    "Compiler": ["Artifact", "Pipelines", "Conversion", "Transforms", "Target", "IR"],
    "Plugin": ["Pipelines"],
}
WITHOUT_MLIR = {"Artifact", "Runtime"}
INCLUDE = re.compile(r'^#include ["<](attn|mlir)(?:-c)?/(\w+)', re.M)


def offences(path, layer):
    for project, folder in INCLUDE.findall(path.read_text()):
        if project == "mlir" and layer in WITHOUT_MLIR:
            yield f"{layer} knows no MLIR, but includes mlir/{folder}"
        if project == "attn" and folder not in [layer, *LAYERS[layer]]:
            yield f"{layer} includes attn/{folder}, which is above or beside it"


def main():
    failed = False
    for parent in (ROOT / "lib", ROOT / "include" / "attn"):
        for folder in sorted(p for p in parent.iterdir() if p.is_dir()):
            if folder.name not in LAYERS:
                print(f"{folder.relative_to(ROOT)}: a layer that scripts/check-layers.py does not know")
                failed = True
                continue
            for path in sorted(folder.rglob("*.[ch]*")):
                for offence in offences(path, folder.name):
                    print(f"{path.relative_to(ROOT)}: {offence}")
                    failed = True
    return failed


if __name__ == "__main__":
    sys.exit(main())
