"""Calls of a package's functions with CuPy's arrays that begin anywhere, and what they leave behind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pretuned.measure import data
from pretuned.measure.data import HostArray, Stored
from pretuned.measure.functions import together
from pretuned.measure.launch import BoundBuffer, arrays
from pretuned.spec.model import KernelSpec
from pretuned.spec.scalars import passed_values
from pretuned.spec.space import Problem

BAND = 64  # elements around an array, which have to stay as they are
POISON = 0x5A  # every byte of a band, and of outputs before a call


class SpoiltError(Exception):
    """A call has written where it must not."""


class _View:
    """An array of a call, amid memory that is watched."""

    def __init__(self, cupy: Any, buffer: BoundBuffer, values: HostArray | None, shift: int) -> None:
        storage = data.storage(buffer.dtype)
        begin = BAND + shift
        whole = np.empty(begin + buffer.size + BAND, storage)
        whole.view(np.uint8)[...] = POISON
        if values is not None:
            whole[begin : begin + buffer.size] = values.ravel()
        self._buffer, self._begin, self._given = buffer, begin, whole
        self._memory = cupy.asarray(whole)
        self.array = self._memory[begin : begin + buffer.size].reshape(buffer.shape).view(_element(buffer.dtype))

    def read(self) -> HostArray:
        """Return what the array holds, as references do; raises SpoiltError where it must be unchanged and is not."""
        end, found = self._begin + self._buffer.size, self._memory.get()
        ranges = [slice(0, self._begin), slice(end, None)] + [slice(None)] * (self._buffer.role == "in")
        if any(found[one].tobytes() != self._given[one].tobytes() for one in ranges):
            place = "is changed" if self._buffer.role == "in" else "is written to beyond its ends"
            raise SpoiltError(f"'{self._buffer.name}' {place}")
        return data.decode(found[self._begin : end].reshape(self._buffer.shape), self._buffer.dtype)


def results(
    package: Any, spec: KernelSpec, problem: Problem, stored: Mapping[str, Stored], shifts: Mapping[str, int]
) -> dict[str, HostArray]:
    """Return what a call writes, by name; raises SpoiltError, and what the call raises."""
    import cupy  # noqa: PLC0415 - only on a GPU

    views = {
        buffer.name: _View(
            cupy, buffer, stored[buffer.name].full if buffer.name in stored else None, shifts.get(buffer.name, 0)
        )
        for buffer in arrays(spec, problem)
    }
    passed = together(spec, {name: view.array for name, view in views.items()})
    values = passed_values(spec, problem)
    by_position = [passed[one.name] for one in spec.whole(spec.required_inputs)] + [
        values[one.name] for one in spec.scalars
    ]
    getattr(package, spec.name)(*by_position, **_keywords(spec, problem, passed))
    found = {name: view.read() for name, view in views.items()}
    return {one.name: found[one.name] for one in spec.outputs if one.name in found}


def _keywords(spec: KernelSpec, problem: Problem, passed: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a call names: optional inputs, outputs, specialisations by value, dims that no array tells."""
    optional = [one for one in spec.inputs if one.optional]
    written = [one.name for one in spec.whole(spec.outputs) if one.role == "out"]
    told = {one.presence for one in optional}  # by the arrays that a call brings
    chosen = {name for name, one in spec.specialisations.items() if one.values is not None} - told
    keywords = {name: passed[name] for name in [*(one.name for one in optional), *written] if name in passed}
    keywords |= {name: value for name, value in problem.specialisation if name in chosen}
    return keywords | {name: value for name, value in problem.dims if spec.dims[name].keyword}


def _element(dtype: str) -> Any:
    try:
        return np.dtype(dtype)
    except TypeError:
        import ml_dtypes  # noqa: PLC0415 - only where a type is not NumPy's own

        return np.dtype(getattr(ml_dtypes, dtype))
