"""Transpose random matrices on this GPU, compare with NumPy, and tell which row ran: `python -m flipped`."""

import sys

import cupy
import numpy as np

from flipped import tuned


def main() -> int:
    """Print which configuration runs some shapes; return 1 if a result is not exact."""
    if not cupy.cuda.is_available():
        sys.exit("python -m flipped needs an NVIDIA GPU")
    rng = np.random.default_rng(0)
    failed = False
    for dtype in ("float32", "float16"):
        for rows, cols in ((1, 1), (7, 333), (8192, 8192)):
            x = rng.standard_normal((rows, cols)).astype(dtype)
            exact = np.array_equal(cupy.asnumpy(tuned.transpose(cupy.asarray(x))), x.T)
            failed |= not exact
            print(f"{dtype} {rows} x {cols}: {'exact' if exact else 'WRONG'}")
        print(tuned.explain("transpose", rows=8192, cols=8192, T=dtype))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
