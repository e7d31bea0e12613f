"""What a call of adapter_calls.py asks for: views of buffers, what it has to give, and what it has to leave alone."""

from __future__ import annotations

import importlib.util
import inspect
import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from adapter_calls import AdapterCall
from kernel_folders import specs_in

KERNELS = Path(__file__).parents[1] / "data" / "arrays"
OF_INTERFACE = {"sealed", "swapped", "unnamed", "nowhere"}  # what only __cuda_array_interface__ can say
OF_TORCH = {"as_tensor", "recorded"}
COPIES = {  # what a message names where it has {copy:x} and {anew:x}
    "copy": {"cupy": "cupy.ascontiguousarray({})", "torch": "{}.contiguous()", "warp": "{}.contiguous()"},
    "anew": {"cupy": "{}.copy()", "torch": "{}.clone()", "warp": "warp.clone({})"},
}


@cache
def specs():
    return specs_in(KERNELS)


@cache
def references() -> ModuleType:
    made = importlib.util.spec_from_file_location("references_of_arrays", KERNELS / "reference.py")
    module = importlib.util.module_from_spec(made)
    made.loader.exec_module(module)
    return module


@dataclass(frozen=True, slots=True)
class Odd:
    """An array that is not as arrays of a library are: on the CPU, on the other device, read-only, and so on."""

    how: str
    array: np.ndarray


@dataclass(slots=True)
class AskedCall:
    """A call's buffers, as NumPy has them, and what it passes, which are views of them."""

    kernel: str
    buffers: list[np.ndarray]
    positional: tuple[Any, ...] = ()
    keywords: dict[str, Any] = field(default_factory=dict)

    def buffer_of(self, view: np.ndarray) -> tuple[int, int]:
        """Return which buffer a view is of, and at which byte it begins."""
        begin = view.__array_interface__["data"][0]
        for place, buffer in enumerate(self.buffers):
            offset = begin - buffer.__array_interface__["data"][0]
            if 0 <= offset <= buffer.nbytes:
                return place, offset
        raise AssertionError("a view of no buffer")

    def made_of(self, to: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return what is passed, with each array as `to` makes it."""

        def made(value: Any) -> Any:
            return to(value) if isinstance(value, (np.ndarray, Odd)) else value

        return tuple(map(made, self.positional)), {name: made(value) for name, value in self.keywords.items()}


def parsed(buffers: str) -> dict[str, np.ndarray]:
    """Return the buffers of a text such as "m 16x100, n float64 64", by name, filled by chance."""
    draw, found = np.random.default_rng(5), {}
    for one in filter(None, buffers.split(", ")):
        name, *dtype, extents = one.split()
        shape = tuple(map(int, extents.split("x")))
        found[name] = (8 * draw.standard_normal(shape)).astype(dtype[0] if dtype else "float32")
    return found


def asked(call: AdapterCall) -> AskedCall:
    """Return a call with fresh buffers."""
    buffers = parsed(call.buffers)
    found = AskedCall(call.kernel, list(buffers.values()))

    def take(*positional: Any, **keywords: Any) -> None:
        found.positional, found.keywords = positional, keywords

    def at(array: np.ndarray, nbytes: int) -> np.ndarray:
        """Return an array of one element less that begins so many bytes further."""
        size = array.dtype.itemsize
        return array.reshape(-1).view("u1")[nbytes : array.nbytes - size + nbytes].view(array.dtype)

    def laid(array: np.ndarray, shape: tuple[int, ...], strides: tuple[int, ...]) -> np.ndarray:
        """Return elements of an array at any strides, in elements."""
        in_bytes = tuple(array.dtype.itemsize * stride for stride in strides)
        return np.lib.stride_tricks.as_strided(array, shape, in_bytes)

    def halves(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        """Return rows that begin half an element beyond where they would."""
        size = array.dtype.itemsize
        return np.lib.stride_tricks.as_strided(array, shape, (size * shape[1] + size // 2, size))

    odd = {
        how: lambda array, how=how: Odd(how, array)
        for how in ("as_numpy", "as_tensor", "on_other", "sealed", "swapped", "unnamed", "recorded", "nowhere")
    }
    eval(
        call.text, {"__builtins__": {}}, {call.kernel: take, "at": at, "laid": laid, "halves": halves, **buffers, **odd}
    )
    return found


def wanted(call: AskedCall, function: Any) -> tuple[list[np.ndarray], list[np.ndarray | None]]:
    """Return a right call's results, and the arrays given for them; buffers then hold what they have to afterwards."""
    spec = specs()[call.kernel]
    given = inspect.signature(function).bind(*call.positional, **call.keywords).arguments
    given = {array.name: None for array in spec.arrays} | given
    inputs = {name: np.array(value, np.float64) for name, value in given.items() if isinstance(value, np.ndarray)}
    found = getattr(references(), {"planes": "add_sums", "double": "double_pairs"}.get(call.kernel, call.kernel))(
        **given | inputs
    )
    outputs = found if isinstance(found, dict) else {spec.outputs[0].name: found}
    theirs = [given[one.name] for one in spec.outputs]
    results = [outputs[one.name] for one in spec.outputs]
    for view, result in zip(theirs, results, strict=True):
        if view is not None:
            view[...] = result
    return results, theirs


@cache
def passed_views(call: AdapterCall) -> tuple[frozenset[str], list[tuple[np.ndarray, int]]]:
    """Return how arrays are odd that a call passes, and its views with the bytes from their buffers' beginnings."""
    passed = asked(call)
    values = [*passed.positional, *passed.keywords.values()]
    odd = frozenset(value.how for value in values if isinstance(value, Odd))
    arrays = [value.array if isinstance(value, Odd) else value for value in values]
    return odd, [(one, passed.buffer_of(one)[1]) for one in arrays if isinstance(one, np.ndarray)]


def expressible(library: str, call: AdapterCall) -> bool:
    """Return whether a library has such arrays."""
    odd, views = passed_views(call)
    arrays = [one for one, _ in views]
    if odd & OF_INTERFACE:
        return library == "interface"
    if odd & OF_TORCH and library != "torch":
        return False
    if library == "jax":  # whose arrays are contiguous, and never written
        written = call.kernel == "planes" or re.search(r"\b(y|out|sums)=", call.text)
        return not (odd or written) and all(one.flags.c_contiguous for one in arrays)
    if library == "warp":  # whose arrays have 1 to 4 dims, and so have sums that it allocates
        return all(1 <= one.ndim <= 4 for one in arrays) and not (call.kernel == "row_sums" and arrays[0].ndim == 1)
    if library in {"torch", "tvm_ffi", "dlpack"} and any(
        stride % one.itemsize for one in arrays for stride in one.strides
    ):
        return False
    return library != "torch" or all(stride >= 0 for one in arrays for stride in one.strides)


def message(library: str, call: AdapterCall) -> str:
    """Return the message of a wrong call of a library."""
    copies = {kind: ways.get(library, "its library") for kind, ways in COPIES.items()}
    return re.sub(r"{(copy|anew):(\w+)}", lambda found: copies[found[1]].format(found[2]), call.message)
