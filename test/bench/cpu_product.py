"""A matrix product in a process of its own, whose OpenBLAS runs another chip's kernels.

    OPENBLAS_CORETYPE=Haswell cpu_product.py N

prints the name of the kernels that OpenBLAS took, then does a product of N x N matrices
for each line that it reads and answers with a line. OpenBLAS chooses once, as it loads.
"""

import os
import subprocess
import sys

import numpy as np


def product_of(core, n):
    """The call that does one product by the kernels of `core`."""
    child = subprocess.Popen(
        [sys.executable, __file__, str(n)],
        env=os.environ | {"OPENBLAS_CORETYPE": core},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
    )
    took = child.stdout.readline().strip()
    if took != core:
        raise SystemExit(f"bench: asked OpenBLAS for the kernels of {core}, got {took or 'no answer'}")

    def call():
        child.stdin.write("\n")
        child.stdout.readline()

    return call


def main():
    import threadpoolctl

    n = int(sys.argv[1])
    a, b = (np.random.default_rng(i).standard_normal((n, n), dtype=np.float32) for i in (1, 2))
    pools = threadpoolctl.threadpool_info()
    print(next((p["architecture"] for p in pools if p["internal_api"] == "openblas"), "no OpenBLAS"), flush=True)
    for _ in sys.stdin:
        a @ b
        print(flush=True)


if __name__ == "__main__":
    main()
