"""Transpose a matrix and compare with NumPy: `python -m app`."""

import sys

import cupy
import numpy as np
from matrices import tuned


def main() -> int:
    """Print whether the result is right, and which row ran; return 1 if it is wrong."""
    if not cupy.cuda.is_available():
        sys.exit("python -m app needs an NVIDIA GPU")
    x = np.random.default_rng(0).standard_normal((2048, 333)).astype(np.float32)
    right = bool((cupy.asnumpy(tuned.transpose(cupy.asarray(x))) == x.T).all())
    print("right" if right else "wrong")
    print(tuned.explain("transpose", rows=2048, cols=333, T="float32"))
    return int(not right)


if __name__ == "__main__":
    sys.exit(main())
