"""Comparing what a kernel wrote with what it should have written, on the device. Uses CuPy.

Pass: |out - ref| <= atol + rtol * |ref|, or both are the same infinity, or both NaN. Integers must be equal.
"""

from __future__ import annotations

import math
from typing import Any, Final

import cupy

CHUNK: Final = 1 << 24  # elements at a time: bounds the temporaries to a few hundred megabytes

_OFF = cupy.ElementwiseKernel(
    "float64 out, float64 ref, float64 rtol, float64 atol",
    "bool off",
    "off = !(out == ref || fabs(out - ref) <= atol + rtol * fabs(ref) || (isnan(out) && isnan(ref)))",
    "pretuned_off",
)
_RATIO = cupy.ElementwiseKernel(
    "float64 out, float64 ref, float64 rtol, float64 atol",
    "float64 ratio",
    "ratio = out == ref || (isnan(out) && isnan(ref)) ? 0.0 : fabs(out - ref) / (atol + rtol * fabs(ref))",
    "pretuned_ratio",
)


def widened(stored: Any, dtype: str) -> Any:  # noqa: ANN401 - CuPy ships no types
    """Return stored values as float64; bfloat16 comes as its bits in uint16."""
    if dtype == "bfloat16":
        return (stored.astype(cupy.uint32) << 16).view(cupy.float32).astype(cupy.float64)
    return stored.astype(cupy.float64)


def absolute_tolerance(reference: Any, rtol: float) -> float:  # noqa: ANN401 - CuPy ships no types
    """Return the default atol, rtol * rms(reference): what an element near zero may be off by in a sum of its peers."""
    finite = reference[cupy.isfinite(reference)] if reference.size else reference
    return rtol * float(cupy.sqrt(cupy.mean(cupy.square(finite)))) if finite.size else 0.0


def mismatch(stored: Any, dtype: str, reference: Any, rtol: float, atol: float) -> str | None:  # noqa: ANN401
    """Return what is wrong with `stored` against `reference`, or None. Arrays of one shape, on the device."""
    out, ref = stored.ravel(), reference.ravel()
    wrong, first = 0, -1
    for start in range(0, out.size, CHUNK):
        part, wanted = out[start : start + CHUNK], ref[start : start + CHUNK]
        off = _OFF(widened(part, dtype), wanted, rtol, atol) if wanted.dtype == cupy.float64 else part != wanted
        count = int(cupy.count_nonzero(off))
        if count and first < 0:
            first = start + int(cupy.argmax(off))
        wrong += count
    if not wrong:
        return None
    found = float(widened(out[first : first + 1], dtype)[0])
    place = _index(first, stored.shape)
    return f"{wrong} of {out.size} elements are off, first at {place}: {found:.8g} instead of {float(ref[first]):.8g}"


def worst_ratio(stored: Any, dtype: str, reference: Any, rtol: float, atol: float) -> float:  # noqa: ANN401
    """Return the largest error as a share of what is allowed: over 1 fails. 0 for exact types that are equal."""
    out, ref = stored.ravel(), reference.ravel()
    if ref.dtype != cupy.float64:
        return math.inf if bool((out != ref).any()) else 0.0
    worst = 0.0
    for start in range(0, out.size, CHUNK):
        part = widened(out[start : start + CHUNK], dtype)
        worst = max(worst, float(_RATIO(part, ref[start : start + CHUNK], rtol, max(atol, 5e-324)).max()))
    return worst


def _index(flat: int, shape: tuple[int, ...]) -> str:
    index = []
    for extent in reversed(shape):
        flat, position = divmod(flat, extent)
        index.append(position)
    return "[" + ", ".join(str(position) for position in reversed(index)) + "]"
