"""Calls of adapter_calls.py through arrays of any library, executed on the host.

A *world* is the kernels, baked, over a driver that executes them in the host's memory, where the arrays of every
library lie too: fakes of CuPy, PyTorch and JAX, and those of `libraries`, which a test adds. Each of these has
`make(address, shape, dtype, strides, device)` (strides in bytes, None for a contiguous one), and `values(array)`, which
is what an array of it holds, or None for another's.
"""

from __future__ import annotations

import ctypes
import importlib
import re
import sys

import numpy as np
import pytest

import adapter_calls
import fake_cuda
import fake_torch
import sample
from asked_calls import Odd, asked, expressible, message, specs, wanted
from capsules import capsule
from fake_cupy import FakeCupy, external
from fake_jax import ArrayImpl, FakeJax
from host_launches import HostDriver, HostMemory, at
from pretuned.bake.package import files
from pretuned.bake.plan import plan

SIGNATURES = {
    "planes": "QQQqiQii",
    "add_scaled": "QQQfq",
    "double_pairs": "QQq",
    "double_as": "QQq",
    "shift": "QQQii",
    "row_sums": "QQQQii",
    "apart": "QQfqqi",
    "add_rows": "QQQQqqqi",
}


class OfDlpack:
    """An array that has DLPack alone."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, *, stream=None):
        array = self.array
        strides = None if array.flags.c_contiguous else array.strides
        return capsule(array.data.ptr, array.shape, array.dtype, strides, array.data.device_id)

    def __dlpack_device__(self):
        return 2, self.array.data.device_id


class OfJax:
    """Arrays of JAX, which are never outputs."""

    @staticmethod
    def make(address, shape, dtype, strides, device):
        assert strides is None
        return ArrayImpl(shape, dtype, address, devices=(device,))

    @staticmethod
    def values(array):
        assert not isinstance(array, ArrayImpl)


class World:
    """The kernels, baked, over a driver that executes them on the host, with a CuPy and a PyTorch over its memory."""

    def __init__(self, patch, folder):
        choices = [
            sample.choice(2.0, ratio=(0.4, 0.5), vec=4, wrong="nothing"),
            sample.choice(4.0, vec=1, wrong="nothing"),
        ]
        row = sample.row("apart", sample.H100, {"T": "float32"}, {"rows": 16, "cols": 64}, *choices)
        made = plan(specs(), [row], {sample.H100.name: sample.H100})
        sample.write({"__init__.py": b""}, folder / "pkg")
        sample.write(files(made, sample.binaries(made), version="0.0.0"), folder / "pkg" / "tuned")
        self.memory, self.driver = HostMemory(), HostDriver(source for source, _ in made.jobs)
        self.cupy, self.torch = FakeCupy(self.driver), fake_torch.FakeTorch()
        self.cupy._addresses = self.memory
        self.cupy.from_dlpack = lambda value: value.array
        patch.setattr(fake_torch, "_addresses", self.memory)
        patch.setattr(ctypes, "CDLL", lambda _name: self.driver)
        patch.setenv("PRETUNED_WARN", "0")
        for name, codes in SIGNATURES.items():
            patch.setitem(fake_cuda.SIGNATURES, name, codes)
        modules = {"cupy": self.cupy, "cupy.cuda": self.cupy.cuda, "torch": self.torch, "cuda.pathfinder": None}
        modules["jax"] = FakeJax()
        self.libraries = {"jax": OfJax}
        for name, module in modules.items():
            patch.setitem(sys.modules, name, module)
        for name in [name for name in sys.modules if name.partition(".")[0] == "pkg"]:
            patch.delitem(sys.modules, name)
        patch.syspath_prepend(str(folder))
        importlib.invalidate_caches()
        self.tuned = importlib.import_module("pkg.tuned")


class Passed:
    """A call as a library passes it: its buffers in memory, and the arrays of the library that are views of them."""

    def __init__(self, world, library, call):
        self.world, self.library, self.asked = world, library, asked(call)
        world.memory.clear()
        world.driver.addresses.clear()
        self.addresses = [next(world.memory) for _ in self.asked.buffers]
        for address, buffer in zip(self.addresses, self.asked.buffers, strict=True):
            at(address, buffer.shape, buffer.dtype)[...] = buffer
        self.made = {}
        self.positional, self.keywords = self.asked.made_of(self.array)

    def array(self, view):
        """Return the library's array for a view; one for each, since a call may name one twice."""
        how, view = (view.how, view.array) if isinstance(view, Odd) else ("", view)
        place, offset = self.asked.buffer_of(view)
        address = self.addresses[place] + offset
        key = address, view.shape, view.strides, view.dtype, how
        if key not in self.made:
            self.made[key] = self._array(address, view, how, self.library)
        return self.made[key]

    def _array(self, address, view, how, library):
        strides = None if view.flags.c_contiguous else view.strides
        shape, dtype, device = view.shape, view.dtype.name, 1 if how == "on_other" else 0
        if how == "as_numpy":
            return view
        if how == "as_tensor":
            return self.world.torch.Tensor(shape, dtype, device="cpu")
        if library == "each another":
            library = ("torch", "interface", "dlpack", "cupy")[len(self.made) % 4]
        self.world.driver.addresses[address] = device
        if library == "torch":
            elements = strides and tuple(stride // view.itemsize for stride in strides)
            grown = how == "recorded"
            tensor = self.world.torch.Tensor
            return tensor(shape, dtype, address=address, strides=elements, device=device, requires_grad=grown)
        if library in {"cupy", "dlpack"}:
            array = self.world.cupy.ndarray(shape, view.dtype, address=address, strides=strides, device=device)
            return OfDlpack(array) if library == "dlpack" else array
        if library in self.world.libraries:
            return self.world.libraries[library].make(address, shape, dtype, strides, device)
        typestr = {"swapped": ">", "unnamed": ""}.get(how, "<") + view.dtype.str[1:]
        address = 16 if how == "nowhere" else address
        data = address, how == "sealed"
        return external({"shape": shape, "typestr": typestr, "data": data, "strides": view.strides, "version": 3})

    def values(self, array):
        """Return what an array of any library holds."""
        for library in self.world.libraries.values():
            if (found := library.values(array)) is not None:
                return found
        array = getattr(array, "array", array)
        if isinstance(array, self.world.torch.Tensor):
            dtype = array.dtype.name
            strides = None if array.is_contiguous() else tuple(np.dtype(dtype).itemsize * one for one in array.stride())
            return at(array.data_ptr(), array.shape, dtype, strides)
        if isinstance(array, self.world.cupy.ndarray):
            return at(array.data.ptr, array.shape, array.dtype, None if array.flags.c_contiguous else array.strides)
        facts = array.__cuda_array_interface__
        return at(facts["data"][0], facts["shape"], facts["typestr"], facts["strides"])

    def buffers(self):
        return [
            at(one, buffer.shape, buffer.dtype) for one, buffer in zip(self.addresses, self.asked.buffers, strict=True)
        ]


def cases(calls, libraries):
    return [
        pytest.param(library, call, id=f"{call.name}, {library}")
        for call in calls
        for library in libraries
        if expressible(library, call)
    ]


def same(found, wanted):
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def calls_rightly(world, library, call):
    """Assert that a call gives what the reference says, and writes nothing but its outputs.

    From the beginning, by the fast path, packed, and bound.
    """
    kernel = getattr(world.tuned, call.kernel)
    for bound in (False, False, False, False, True):
        passed = Passed(world, library, call)
        if bound:
            found = kernel.bind(*passed.positional, **passed.keywords)()
        else:
            found = kernel(*passed.positional, **passed.keywords)
        found = found if isinstance(found, tuple) else (found,)
        results, given = wanted(passed.asked, kernel)
        for one, result, theirs in zip(found, results, given, strict=True):
            same(passed.values(one), result)
            assert theirs is None or one is passed.array(theirs)
        for one, buffer in zip(passed.buffers(), passed.asked.buffers, strict=True):
            same(one, buffer)


def refuses(world, library, call):
    """Assert that a call is refused in its words, before and after right ones, and launches and writes nothing."""
    kernel = getattr(world.tuned, call.kernel)
    right = next(one for one in adapter_calls.RIGHT if one.kernel == call.kernel)
    right_library = library if expressible(library, right) else "cupy"
    for turn in range(4):
        passed = Passed(world, library, call)
        before = len(world.driver.launches)
        with pytest.raises(call.kind) as caught:
            (kernel if turn < 3 else kernel.bind)(*passed.positional, **passed.keywords)
        found = re.sub(r"\(\d{9,}, ", "(ADDRESS, ", str(caught.value))
        assert found == f"pkg.tuned.{call.kernel}: {message(library, call)}"
        assert isinstance(caught.value, world.tuned.PretunedError)
        assert len(world.driver.launches) == before
        for one, buffer in zip(passed.buffers(), passed.asked.buffers, strict=True):
            assert one.tobytes() == buffer.tobytes()
        again = Passed(world, right_library, right)
        kernel(*again.positional, **again.keywords)
