"""Answers to checks on the host, in NumPy: what judge.cu does on a GPU."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from pretuned.measure.data import decode, storage
from pretuned.measure.machine import Array, Check, Finding, Off, Unequal, Unlike


def view(address: int, dtype: np.dtype[Any], size: int) -> Array:
    """Return memory as an array, without a copy."""
    if not size:
        return np.empty(0, dtype)
    return np.ctypeslib.as_array((ctypes.c_uint8 * (size * dtype.itemsize)).from_address(address)).view(dtype)


def answer(check: Check) -> Finding:
    """Return the answer to a check."""
    match check:
        case Unlike():
            wrong = view(check.address, np.dtype(np.uint8), check.nbytes) != check.value
            return _found(wrong, 0.0)
        case Unequal():
            one = view(check.address, np.dtype(np.uint8), check.nbytes)
            return _found(one != view(check.other, np.dtype(np.uint8), check.nbytes), 0.0)
        case Off():
            return _off(check)


def _off(check: Off) -> Finding:
    out = decode(view(check.address, storage(check.dtype), check.size), check.dtype)
    reference = view(check.reference, np.dtype(np.float64), check.size)
    with np.errstate(all="ignore"):
        allowed = check.atol + check.rtol * np.abs(reference)
        error = np.abs(out - reference)
        same = (out == reference) | (np.isnan(out) & np.isnan(reference))
        right = same | (np.isfinite(reference) & (error <= allowed))
        share = np.where(same, 0.0, error / allowed)
    shares = share[np.isfinite(share)]
    return _found(~right, float(shares.max()) if shares.size else 0.0)


def _found(wrong: Array, worst: float) -> Finding:
    count = int(np.count_nonzero(wrong))
    return (
        Finding(first=int(np.argmax(wrong)), count=count, worst=worst)
        if count
        else Finding(first=None, count=0, worst=worst)
    )


def rms(address: int, size: int) -> float:
    """Return the root of the mean of the squares of the finite ones of `size` float64; 0 if there are none."""
    values = view(address, np.dtype(np.float64), size)
    finite = values[np.isfinite(values)]
    return float(np.sqrt(np.mean(finite**2))) if finite.size else 0.0
