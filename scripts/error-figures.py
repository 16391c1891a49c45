#!/usr/bin/env python3
"""Sums up files that ATTN_TEST_FIGURES wrote: errors against the straightforward ones.

    error-figures.py FILE...
"""

import math
import sys

UNIT = {"f64": 2.0**-53, "f32": 2.0**-24, "bf16": 2.0**-8, "f16": 2.0**-11}


def report(name, lines):
    """`lines` of (unit, accumulator's unit, rows, straightforward error, error)."""
    ratios = sorted(error / usual for _, _, _, usual, error in lines if usual > 0)
    if not ratios:
        return
    at = lambda share: ratios[min(int(share * len(ratios)), len(ratios) - 1)]
    print(f"{name:<14}{len(lines):>6}  ratio {at(0.5):.2f} (median) {at(0.9):.2f} (90%) "
          f"{at(0.99):.2f} (99%) {ratios[-1]:.2f} (most)")
    beyond = []
    for unit, accumulator, rows, usual, error in lines:
        excess = error - 1.5 * usual - accumulator
        if excess > 0:
            beyond.append(excess / unit * math.sqrt(max(rows, 1)))
    print(f"{'':<14}{len(beyond):>6}  above 1.5 and a unit, by at most {max(beyond, default=0):.2f} "
          "units / sqrt(rows)")


def main():
    outputs, lses = {}, []
    for path in sys.argv[1:]:
        for line in open(path):
            element, output, *numbers = line.split()
            rows, usual, error, lse_rows, usual_lse, lse = map(float, numbers)
            accumulator = UNIT["f64" if element == "f64" else "f32"]
            outputs.setdefault(f"{element} to {output}", []).append(
                (UNIT[element], accumulator, rows, usual, error)
            )
            if lse_rows:
                lses.append((accumulator, accumulator, lse_rows, usual_lse, lse))
    for name, lines in sorted(outputs.items()):
        report(name, lines)
    report("lse", lses)


if __name__ == "__main__":
    main()
