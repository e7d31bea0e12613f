"""The shapes and types of what a call makes, without a GPU, where sizes may be torch.compile's symbols.

They come from the expressions that calls evaluate, with the same messages. A symbol is never made a number, so that no
size is compiled for alone: `min` and `max` are PyTorch's, and what has to hold of sizes is noted by torch._check.
"""

from __future__ import annotations

from functools import reduce
from importlib import import_module
from types import FunctionType

from ..adapters import ArrayView
from ..arrays import collapse, leading_input
from ..checks import demand_dtypes, demand_ranks, follow, read_dim, read_types
from ..errors import ArgumentError, qualified
from ..lists import extents, surroundings
from ..problem import read_by
from ..table import ceil_div, sizeof

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ..table import Array, Foreign, Formula, Kernel

torch: Foreign = import_module("torch")


def _least(*sizes: Foreign) -> Foreign:
    return reduce(torch.sym_min, sizes)


def _most(*sizes: Foreign) -> Foreign:
    return reduce(torch.sym_max, sizes)


def _as_it_is(value: Foreign) -> Foreign:
    return value


# What expressions call where sizes may be symbols: not `Integer`, whose bound would ask for numbers.
_SYMBOLIC = {"min": _least, "max": _most, "ceil_div": ceil_div, "sizeof": sizeof, "Integer": _as_it_is}
_symbolic: dict[Formula, tuple[FunctionType, tuple[str, ...]]] = {}


def evaluate(formula: Formula, known: Mapping[str, Foreign]) -> Foreign:
    """Return the value of an expression of names whose values may be symbols."""
    found = _symbolic.get(formula)
    if found is None:
        made: Any = FunctionType(formula.__code__, _SYMBOLIC)
        found = _symbolic[formula] = made, read_by(formula)
    function, names = found
    return function(*[known[name] for name in names])


def missing(kernel: Kernel, arrays: Sequence[Foreign], words: Mapping[str, Foreign]) -> list[Foreign]:
    """Return new tensors, of fakes, for the outputs that a call leaves out; None in the place of every other array.

    Args:
        kernel: Whose call it is.
        arrays: Its tensors in launch order, each array of a list, None for what is left out.
        words: Its keywords by name: choices, sizes, and which optional arrays there are.

    Raises:
        PretunedError: As the call itself; torch._check raises where sizes that are symbols do not fit.
    """
    views = [
        one if one is None else _view(kernel, array, one) for array, one in zip(kernel.arrays, arrays, strict=True)
    ]
    leading, flat = collapse(kernel, views)
    given = {array.name: view for array, view in zip(kernel.arrays, flat, strict=True) if view is not None}
    known = _known(kernel, given, words)
    _demand(kernel, given, known)
    lead = arrays[leading_input(kernel.arrays)]
    made: list[Foreign] = []
    for array, tensor in zip(kernel.arrays, arrays, strict=True):
        around = surroundings(array, known) if tensor is None and array.role == "out" else None
        if around is None:  # given, or beyond the end of its list
            made.append(None)
            continue
        shape = [max(size, 0) for size in evaluate(array.shape, around)]
        whole = shape if array.trailing is None or leading is None else [*leading, *shape[1:]]
        made.append(lead.new_empty(whole, dtype=getattr(torch, str(known.get(array.dtype, array.dtype)))))
    return made


def _view(kernel: Kernel, array: Array, tensor: Foreign) -> ArrayView:
    """Return a tensor without memory as calls see arrays."""
    if not (array.strides or tensor.is_contiguous()):
        raise ArgumentError(
            f"{qualified(kernel.name)}: {array.name}: expected a C-contiguous array, found strides "
            f"{tuple(tensor.stride())} for shape {tuple(tensor.shape)}; copy it with {array.name}.contiguous()"
        )
    return ArrayView(0, str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape), 0, 0, tensor)


def _known(kernel: Kernel, given: Mapping[str, ArrayView], words: Mapping[str, Foreign]) -> dict[str, Any]:
    """Return types, dims, words and extents of lists by name, as expressions read them."""
    types = read_types(kernel, given)
    nowhere: Any = None  # the shape of an argument does not read the device
    demand_ranks(kernel, kernel.arrays, given, types, nowhere)
    dims = {name: read_dim(kernel, name, place, given) if place else words[name] for name, place in kernel.dims.items()}
    known: dict[str, Any] = {**types, **words, **dims}
    known |= follow(kernel, known)
    demand_dtypes(kernel, kernel.arrays, given, known)
    lists = [(name, place) for name, place in kernel.dims.items() if place and place[0].endswith("[]")]
    return known | {f"{name}[]": extents(place, given) for name, place in lists}


def _demand(kernel: Kernel, given: Mapping[str, ArrayView], known: Mapping[str, Any]) -> None:
    """Check shapes, and what the kernel requires of sizes."""
    for array in kernel.arrays:
        if (view := given.get(array.name)) is None:
            continue
        wanted, found = tuple(evaluate(array.shape, surroundings(array, dict(known)) or known)), view.shape
        text = f"{qualified(kernel.name)}: {array.name}: expected shape {array.text} = {wanted}, found {found}"
        for one, other in zip(wanted, found, strict=True):
            _check(one == other, text)
    for text, condition in kernel.requires:
        if all(name in known for name in read_by(condition)):  # strides and devices are for the call itself
            _check(evaluate(condition, known), f"{qualified(kernel.name)}: requires {text}")


def _check(holds: Foreign, text: str) -> None:
    """Raise ArgumentError for what does not hold; what is a symbol's has to hold from now on."""
    if isinstance(holds, torch.SymBool):
        torch._check(holds, lambda: text)  # noqa: SLF001 - documented so
    elif not holds:
        raise ArgumentError(text)
