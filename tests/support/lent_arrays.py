"""A library of arrays that stands in for CuPy where there is no GPU, and a host device that lends it its memory.

Its arrays are NumPy's underneath, and refuse what CuPy's refuse: to be mixed with NumPy's own, and to be taken for one.
"""

from __future__ import annotations

import types

import numpy as np

from pretuned.measure.data import decode
from pretuned.measure.host.judge import view
from pretuned.measure.machine import OutOfMemory
from pretuned.measure.server import server
from pretuned.runtime.types import DTYPES
from unsealed import Unsealing


class LentArray(np.ndarray):
    """An array of the library."""

    __cuda_array_interface__ = {}  # noqa: RUF012 - that there is one is all that is asked

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        for one in inputs:
            if isinstance(one, np.ndarray) and one.ndim and not isinstance(one, LentArray):
                raise TypeError(f"Unsupported type {type(one)}")
        inner = [np.asarray(one.view(np.ndarray)) if isinstance(one, LentArray) else one for one in inputs]
        out = tuple(one.view(np.ndarray) for one in kwargs.pop("out", ()))
        found = getattr(ufunc, method)(*inner, **({"out": out} if out else {}), **kwargs)
        return np.asarray(found).view(LentArray)


def _lent(function):
    def called(*arguments, **keywords):
        found = function(*arguments, **keywords)
        return found.view(LentArray) if isinstance(found, np.ndarray | np.generic) else found

    return called


class Library(types.ModuleType):
    """NumPy's functions, of which each returns arrays of the library."""

    def __init__(self):
        super().__init__("lent")

    def __getattr__(self, name):
        found = getattr(np, name)
        return _lent(found) if callable(found) and not isinstance(found, type) else found

    def asarray(self, value):
        return np.asarray(value).view(LentArray)

    def ascontiguousarray(self, array, dtype=None):
        return np.ascontiguousarray(array, dtype).view(LentArray)


class Lent:
    """The library over a machine's memory; `room` elements fit into it at once."""

    namespace = Library()

    def __init__(self, machine, room):
        self.machine, self.room, self.released = machine, room, 0

    def widened(self, address, dtype, shape):
        if np.prod(shape) > self.room:
            raise OutOfMemory("out of memory allocating much")
        stored = view(address, np.dtype(DTYPES[dtype].storage), int(np.prod(shape)))
        return np.array(decode(stored, dtype)).reshape(shape).view(LentArray)

    def put(self, array, address):
        assert isinstance(array, LentArray)
        self.machine.write(address, array)

    def release(self):
        self.released += 1


def serve():
    """Answer requests in a child with such a host device."""
    return server(lambda _index: Lending())


class Lending(Unsealing):
    """A host device with such a library, and memory that stays writable, as a GPU's does."""

    def __init__(self, room=1 << 22):
        super().__init__()
        self.arrays = Lent(self, room)
