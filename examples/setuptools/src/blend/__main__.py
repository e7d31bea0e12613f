"""Run the tuned kernel on random arrays and compare it with NumPy: `python -m blend`."""

import sys

import cupy
import numpy as np

from blend import tuned

A, B = 1.5, -0.75
TOLERANCE = {"float32": 1e-6, "float16": 1e-3}  # as in the spec


def main() -> int:
    """Print the largest error for a few lengths and two types; return 1 if one is too large."""
    if not cupy.cuda.is_available():
        sys.exit("python -m blend needs an NVIDIA GPU")
    rng = np.random.default_rng(0)
    failed = False
    for dtype, tolerance in TOLERANCE.items():
        for n in (1, 333, 1 << 20):
            x, y = (rng.standard_normal(n).astype(dtype) for _ in range(2))
            result = cupy.asnumpy(tuned.axpby(cupy.asarray(x), cupy.asarray(y), a=A, b=B)).astype(np.float64)
            right = A * x.astype(np.float64) + B * y.astype(np.float64)
            error = float((np.abs(result - right) / (1 + np.abs(right))).max())
            failed |= not error <= tolerance
            print(f"{dtype} {n}: largest error {error:.1e}")
    print(tuned.explain("axpby", n=1 << 20, T="float32"))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
