"""Answers to checks on the host, in NumPy: what judge.cu does on a GPU."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

import numpy as np

from pretuned.measure.data import HostArray, decode, storage
from pretuned.measure.machine import Check, CheckResult, Digest, Off, Unequal, Unlike
from pretuned.runtime.types import DTYPES

PART: Final = 1 << 18  # elements that are compared at once: their float64 values stay in cache
_RIGHT: Final = CheckResult(first=None, count=0, worst=0.0)


def view(address: int, dtype: np.dtype[Any], size: int) -> HostArray:
    """Return memory as an array, without a copy."""
    if not size:
        return np.empty(0, dtype)
    return np.ctypeslib.as_array((ctypes.c_uint8 * (size * dtype.itemsize)).from_address(address)).view(dtype)


def answer(check: Check) -> CheckResult:
    """Return the answer to a check."""
    match check:
        case Unlike():
            return _found(view(check.address, np.dtype(np.uint8), check.nbytes) != check.value)
        case Unequal():
            if ctypes.string_at(check.address, check.nbytes) == ctypes.string_at(check.other, check.nbytes):
                return _RIGHT
            one = view(check.address, np.dtype(np.uint8), check.nbytes)
            return _found(one != view(check.other, np.dtype(np.uint8), check.nbytes))
        case Digest():
            content = hashlib.blake2b(view(check.address, np.dtype(np.uint8), check.nbytes).data, digest_size=8)
            return replace(_RIGHT, count=int.from_bytes(content.digest(), "little"))
        case Off():
            out = view(check.address, storage(check.dtype), check.size)
            record = DTYPES[check.dtype]
            judge = _off if record.floating else _off_integers
            reference = view(check.reference, np.dtype(record.wide), check.size)
            parts = range(0, check.size, PART)
            return _joined(judge(check, out[i : i + PART], reference[i : i + PART]) for i in parts)


def _off(check: Off, stored: HostArray, reference: HostArray) -> CheckResult:
    out = decode(stored, check.dtype)
    with np.errstate(all="ignore"):
        error = np.abs(out - reference)
        allowed = check.atol + check.rtol * np.abs(reference)
        right = error <= allowed
        if right.all() and np.isfinite(allowed).all():
            return CheckResult(
                first=None, count=0, worst=float((error[error > 0] / allowed[error > 0]).max(initial=0.0))
            )
        same = _same(out, reference)
        share = np.where(same, 0.0, error / allowed)
    right = same | (right & np.isfinite(reference))
    return replace(
        _found(~right),
        worst=float(share[right & np.isfinite(share)].max(initial=0.0)),
        largest=float(error[~right & np.isfinite(error)].max(initial=0.0)),
    )


def _same(out: HostArray, reference: HostArray) -> HostArray:
    """Return where elements are equal, or both NaN; of complex ones each part."""
    if out.dtype.kind == "c":
        both: HostArray = _same(out.real, reference.real) & _same(out.imag, reference.imag)
        return both
    same: HostArray = (out == reference) | (np.isnan(out) & np.isnan(reference))
    return same


def _off_integers(check: Off, out: HostArray, reference: HostArray) -> CheckResult:
    if np.array_equal(out, reference):
        return _RIGHT
    # Unsigned subtraction is modulo the range, so it gives the distance of any two.
    unsigned = np.dtype(f"u{out.itemsize}")
    error = np.maximum(out, reference).view(unsigned) - np.minimum(out, reference).view(unsigned)
    size = np.where(reference < 0, np.negative(reference.view(unsigned)), reference.view(unsigned))
    allowed = check.atol + check.rtol * size.astype(np.float64)
    anything = allowed >= 2.0**64  # what no difference reaches
    right = anything | (error.astype(np.uint64) <= np.where(anything, 0, allowed).astype(np.uint64))
    within = right & (error > 0)
    return replace(
        _found(~right),
        worst=float((error[within] / allowed[within]).max(initial=0.0)),
        largest=int(error[~right].max(initial=0)),
    )


def _found(wrong: HostArray) -> CheckResult:
    count = int(np.count_nonzero(wrong))
    return CheckResult(first=int(np.argmax(wrong)), count=count, worst=0.0) if count else _RIGHT


def _joined(parts: Iterable[CheckResult]) -> CheckResult:
    """Return the finding over all parts, in their order."""
    first, count, worst = None, 0, 0.0
    largest: float = 0
    for number, part in enumerate(parts):
        if part.first is not None and first is None:
            first = number * PART + part.first
        count, worst, largest = count + part.count, max(worst, part.worst), max(largest, part.largest)
    return CheckResult(first=first, count=count, worst=worst, largest=largest)


def rms(address: int, size: int) -> float:
    """Return the root of the mean of the squares of the finite ones of `size` float64; 0 if there are none."""
    values = view(address, np.dtype(np.float64), size)
    finite = values[np.isfinite(values)]
    return float(np.sqrt(np.mean(finite**2))) if finite.size else 0.0
