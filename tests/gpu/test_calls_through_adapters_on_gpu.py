"""Calls through every adapter on a GPU: the same table as tests/runtime/test_calls_through_adapters.py has."""

from __future__ import annotations

import importlib
import re
import shutil
from types import SimpleNamespace

import numpy as np
import pytest

import adapter_calls
from asked_calls import KERNELS, Odd, asked, expressible, message, passed_views, wanted
from pretuned.cli import main

cupy = pytest.importorskip("cupy")

pytestmark = pytest.mark.gpu
LIBRARIES = ("cupy", "torch", "interface", "dlpack", "numba", "tvm_ffi", "warp")
MODULES = {"each another": "torch", "numba": "numba.cuda", "interface": "cupy", "dlpack": "cupy"}
PACKAGE = "adapters_on_gpu"
SPARE = 8  # elements behind each buffer, which has to have an address


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    """The kernels with their defaults, without a tuning."""
    folder = tmp_path_factory.mktemp("adapters")
    table = f'[tool.hatch.build.hooks.pretuned]\nmodule = "{PACKAGE}/tuned"\n'
    (folder / "pyproject.toml").write_text(table)
    shutil.copytree(KERNELS, folder / "kernels", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / PACKAGE).mkdir()
    (folder / PACKAGE / "__init__.py").write_text("")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("PRETUNED_CACHE_DIR", str(folder / "cache"))
        patch.setenv("PRETUNED_MODE", "off")
        patch.setenv("PRETUNED_WARN", "0")
        with pytest.raises(SystemExit) as ended:
            main(["bake"])
        assert ended.value.code == 0
        patch.syspath_prepend(str(folder))
        yield importlib.import_module(f"{PACKAGE}.tuned")


class OfDlpack:
    """An array that has DLPack alone."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def of_numba(array):
    cuda = importlib.import_module("numba.cuda")
    with cuda.gpus[array.device.id]:
        return cuda.as_cuda_array(array, sync=False)


def of_tvm_ffi(array):
    return importlib.import_module("tvm_ffi").from_dlpack(array)


def of_warp(array):
    warp = importlib.import_module("warp")
    dtype, device = getattr(warp, array.dtype.name), f"cuda:{array.device.id}"
    made = warp.array(ptr=array.data.ptr, shape=array.shape, strides=array.strides, dtype=dtype, device=device)
    made.kept = array
    return made


# A library's array over the memory of one of CuPy's.
MADE = {"cupy": lambda array: array, "dlpack": OfDlpack, "numba": of_numba, "tvm_ffi": of_tvm_ffi, "warp": of_warp}


class Passed:
    """A call as a library passes it: its buffers in the GPU's memory, and the library's arrays, which are views."""

    def __init__(self, library, call):
        self.library, self.asked, self.made = library, asked(call), {}
        self.memory = []
        for buffer in self.asked.buffers:
            room = cupy.zeros(buffer.size + SPARE, buffer.dtype)
            room[: buffer.size] = cupy.asarray(buffer.ravel())
            self.memory.append(room)
        self.positional, self.keywords = self.asked.made_of(self.array)

    def array(self, view):
        """Return the library's array for a view; one for each, since a call may name one twice."""
        how, view = (view.how, view.array) if isinstance(view, Odd) else ("", view)
        place, offset = self.asked.buffer_of(view)
        key = place, offset, view.shape, view.strides, how
        if key not in self.made:
            self.made[key] = self._array(self.memory[place], offset, view, how)
        return self.made[key]

    def _array(self, room, offset, view, how):
        library = self.library
        if how == "as_numpy":
            return view
        if how == "as_tensor":
            return importlib.import_module("torch").from_numpy(view)
        if how == "on_other":
            with cupy.cuda.Device(1):
                room, offset = cupy.asarray(np.ascontiguousarray(view)), 0
        if library == "each another":
            library = ("torch", "interface", "dlpack", "cupy")[len(self.made) % 4]
        if library == "torch":
            return tensor(room, offset, view, recorded=how == "recorded")
        device = room.device.id
        with cupy.cuda.Device(device):
            array = cupy.ndarray(view.shape, view.dtype, room.data + offset, view.strides)
        assert array.data.ptr == room.data.ptr + offset
        if library in MADE:
            return MADE[library](array)
        typestr = {"swapped": ">", "unnamed": ""}.get(how, "<") + view.dtype.str[1:]
        address = 16 if how == "nowhere" else array.data.ptr
        facts = {"shape": view.shape, "typestr": typestr, "data": (address, how == "sealed")}
        facts |= {"strides": view.strides, "version": 3}
        return SimpleNamespace(__cuda_array_interface__=facts, kept=array)

    def buffers(self):
        """Return what the buffers hold now."""
        pairs = zip(self.memory, self.asked.buffers, strict=True)
        return [cupy.asnumpy(room)[: buffer.size].reshape(buffer.shape) for room, buffer in pairs]


def tensor(room, offset, view, *, recorded):
    """Return a tensor over memory of CuPy's, as NumPy has the view."""
    torch = importlib.import_module("torch")
    flat = torch.as_tensor(room, device=f"cuda:{room.device.id}")
    assert flat.data_ptr() == room.data.ptr
    strides = [stride // view.itemsize for stride in view.strides]
    found = flat.as_strided(view.shape, strides, offset // view.itemsize)
    return found.requires_grad_() if recorded else found


def values(array):
    """Return what an array of any library holds, once its own stream has ended."""
    cupy.cuda.Device().synchronize()
    if hasattr(array, "__cuda_array_interface__"):
        return cupy.asnumpy(cupy.asarray(array))
    return cupy.asnumpy(cupy.from_dlpack(array))


def has(library, call):
    """Return whether a library has such arrays on a GPU: tensors, and those of DLPack, lie at whole elements."""
    _, views = passed_views(call)
    if library in {"torch", "each another"} and any(begin % one.itemsize for one, begin in views):
        return False
    if library in {"numba", "tvm_ffi"} and any(stride < 0 for one, _ in views for stride in one.strides):
        return False
    if library in {"dlpack", "tvm_ffi"} and any(stride % one.itemsize for one, _ in views for stride in one.strides):
        return False
    return expressible("torch" if library == "each another" else library, call)


def cases(calls, libraries):
    return [
        pytest.param(library, call, id=f"{call.name}, {library}")
        for call in calls
        for library in libraries
        if has(library, call)
    ]


def same(found, reference):
    np.testing.assert_allclose(found, reference, rtol=1e-5, atol=1e-5)


@pytest.fixture
def library(request):
    """The library that arrays are of; skipped where PyTorch is not installed, or a second GPU is not there."""
    pytest.importorskip(MODULES.get(request.param, request.param))
    call = request.node.callspec.params["call"]
    if "on_other" in call.text and cupy.cuda.runtime.getDeviceCount() == 1:
        pytest.skip("one GPU here")
    return request.param


@pytest.mark.parametrize(
    ("library", "call"), cases(adapter_calls.RIGHT, (*LIBRARIES, "each another")), indirect=["library"]
)
def test_a_right_call_gives_what_the_reference_says(tuned, library, call):
    """From the beginning, by the fast path, packed, and bound; it writes nothing but its outputs."""
    kernel = getattr(tuned, call.kernel)
    for bound in (False, False, False, False, True):
        passed = Passed(library, call)
        if bound:
            found = kernel.bind(*passed.positional, **passed.keywords)()
        else:
            found = kernel(*passed.positional, **passed.keywords)
        found = found if isinstance(found, tuple) else (found,)
        results, given = wanted(passed.asked, kernel)
        for one, result, theirs in zip(found, results, given, strict=True):
            if theirs is None:
                same(values(one), result)
            else:
                assert one is passed.array(theirs)
        for one, buffer in zip(passed.buffers(), passed.asked.buffers, strict=True):
            same(one, buffer)


@pytest.mark.parametrize(("library", "call"), cases(adapter_calls.WRONG, LIBRARIES), indirect=["library"])
def test_a_wrong_call_is_refused_in_clear_words(tuned, library, call):
    """Before and after right ones; it writes nothing."""
    kernel = getattr(tuned, call.kernel)
    right = next(one for one in adapter_calls.RIGHT if one.kernel == call.kernel)
    for turn in range(4):
        passed = Passed(library, call)
        with pytest.raises(call.kind) as caught:
            (kernel if turn < 3 else kernel.bind)(*passed.positional, **passed.keywords)
        assert isinstance(caught.value, tuned.PretunedError)
        found = re.sub(r"\(\d{9,}, ", "(ADDRESS, ", str(caught.value))
        found = re.sub(r"\(cuPointerGetAttribute: \w+\)", "(cuPointerGetAttribute: CUresult 1)", found)
        assert found == f"{PACKAGE}.tuned.{call.kernel}: {message(library, call)}"
        for one, buffer in zip(passed.buffers(), passed.asked.buffers, strict=True):
            assert one.tobytes() == buffer.tobytes()
        again = Passed(library, right)
        kernel(*again.positional, **again.keywords)


def of_jax(call):
    """Return whether a call's arrays can be of JAX: contiguous and not written."""
    _, views = passed_views(call)
    reads = call.kernel != "planes" and not re.search(r"\b(y|out|sums)=", call.text)
    return reads and "float64" not in call.buffers and all(one.flags.c_contiguous for one, _ in views)


@pytest.mark.parametrize("by", ["dlpack", "whatever it has"])
@pytest.mark.parametrize("call", [pytest.param(call, id=call.name) for call in adapter_calls.RIGHT if of_jax(call)])
def test_a_right_call_with_arrays_of_jax_gives_what_the_reference_says(tuned, call, by, monkeypatch):
    """Its arrays are contiguous and never written, so outputs come from CuPy."""
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    jax = pytest.importorskip("jax")
    try:
        device = jax.devices("gpu")[0]
    except RuntimeError:
        pytest.skip("JAX has no GPU here")

    def made(view):
        array = jax.device_put(np.ascontiguousarray(view), device).block_until_ready()
        return OfDlpack(array) if by == "dlpack" else array

    kernel, passed = getattr(tuned, call.kernel), asked(call)
    positional, keywords = passed.made_of(made)
    results, _ = wanted(passed, kernel)
    for _ in range(3):
        found = kernel(*positional, **keywords)
        for one, result in zip(found if isinstance(found, tuple) else (found,), results, strict=True):
            assert isinstance(one, cupy.ndarray)
            same(cupy.asnumpy(one), result)
