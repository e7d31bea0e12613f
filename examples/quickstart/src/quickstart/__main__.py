"""Run the tuned kernel on random rows and compare it with NumPy: `python -m quickstart`."""

import sys

import cupy
import numpy as np

from quickstart import tuned

EPS = 1e-5
TOLERANCE = {"float32": 1e-5, "float16": 2e-3}  # as in the spec; the RMS of the result is about 1


def expected(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the RMS norm of every row of x in float64."""
    x, weight = x.astype(np.float64), weight.astype(np.float64)
    return x / np.sqrt(np.mean(x * x, axis=1, keepdims=True) + EPS) * weight


def main() -> int:
    """Print the largest error for a few shapes and both types; return 1 if one is too large."""
    if not cupy.cuda.is_available():
        sys.exit("python -m quickstart needs an NVIDIA GPU")
    rng = np.random.default_rng(0)
    failed = False
    for dtype, tolerance in TOLERANCE.items():
        for rows, cols in ((1, 1), (7, 333), (4096, 4096)):
            x = rng.standard_normal((rows, cols)).astype(dtype)
            weight = rng.standard_normal(cols).astype(dtype)
            result = tuned.rms_norm(cupy.asarray(x), cupy.asarray(weight), eps=EPS)
            right = expected(x, weight)
            error = float((np.abs(cupy.asnumpy(result).astype(np.float64) - right) / (1 + np.abs(right))).max())
            failed |= not error <= tolerance
            print(f"{dtype} {rows} x {cols}: largest error {error:.1e}")
    print(tuned.explain("rms_norm", rows=4096, cols=4096, T="float32"))
    print("pretuned is loaded" if "pretuned" in sys.modules else "pretuned is not loaded: the package stands alone")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
