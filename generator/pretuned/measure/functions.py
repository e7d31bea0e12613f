"""The functions that [verify] names: called with what they ask for, and what is wrong with one in words.

A function is passed what its parameters name, as the fixtures of pytest are; with `**_` it is passed all that costs
nothing to make. Every error says where the function stands, and with what it was called.
"""

from __future__ import annotations

import importlib.util
import inspect
import math
import sys
import traceback
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pretuned.measure.launch import BoundBuffer
from pretuned.remedies import INDICES, reads_indices
from pretuned.runtime.text import closest, shown
from pretuned.runtime.types import DTYPES
from pretuned.spec.check.verification import not_passed
from pretuned.spec.lists import count_of
from pretuned.spec.model import KernelSpec
from pretuned.spec.space import Problem, environment

HostArray = npt.NDArray[Any]
Function = Callable[..., Any]
EMPTY: Final = "calls may have 0 elements: return what is right then, or refuse them by `requires` in [constraints]"
_NOTHING: Final[Mapping[str, Callable[[], object]]] = {}


class FunctionError(Exception):
    """A function named in [verify] failed, or returned something else than asked."""


def call(
    spec: KernelSpec,
    target: str,
    problem: Problem,
    given: Mapping[str, Any],
    made: Mapping[str, Callable[[], object]] = _NOTHING,
) -> Any:  # noqa: ANN401 - a user's function
    """Return what the function `target` returns for `given`, and dims and specialisations, by name.

    What is in `made` is made only for a function that names it. Raises FunctionError.
    """
    function = _function(spec, target)
    arguments = _asked_for(function, target, {**given, **dict(problem.dims), **environment(spec, problem)}, made)
    try:
        with np.errstate(all="ignore"):
            return function(**arguments)
    except (Exception, SystemExit) as error:
        told = ", ".join(f"{name} = {_described(arguments[name])}" for name in given if name in arguments)
        hint = f"; {INDICES}" if isinstance(error, IndexError) and reads_indices(spec) else ""
        if not hint and any(_is_array(value) and not value.size for value in arguments.values()):
            hint = f"; {EMPTY}"
        raise FunctionError(
            f"{_raised(spec, function, target, error)}{f'; called with {told}' if told else ''}{hint}"
        ) from error


def place(spec: KernelSpec, target: str) -> str:
    """Return how messages about a function begin: `reference.py:3: axpy`."""
    return _place(_function(spec, target), target)


def _place(function: Function, target: str) -> str:
    file, _, name = target.partition(":")
    code = getattr(inspect.unwrap(function), "__code__", None)
    return f"{file}:{code.co_firstlineno}: {name}" if code is not None else f"{file}: {name}"


def _asked_for(
    function: Function, target: str, values: Mapping[str, Any], made: Mapping[str, Callable[[], object]]
) -> dict[str, Any]:
    """Return the arguments that the function's parameters name; raises FunctionError for one that there is not."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # of C, say
        return dict(values)
    named = [one for one in parameters if one.kind in {one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY}]
    for one in parameters:
        if one.kind is one.POSITIONAL_ONLY:
            raise FunctionError(f"{_place(function, target)} takes '{one.name}' by position; remove the '/'")
    for one in named:
        if one.default is one.empty and one.name not in {*values, *made}:
            raise FunctionError(f"{_place(function, target)} {not_passed(one.name, [*values, *made])}")
    names = {one.name for one in named}
    everything = any(one.kind is one.VAR_KEYWORD for one in parameters)
    return {name: value for name, value in values.items() if everything or name in names} | {
        name: make() for name, make in made.items() if name in names
    }


def _raised(spec: KernelSpec, function: Function, target: str, error: BaseException) -> str:
    """Return the error with the line of the author's that raised it, or that called what did."""
    folder = spec.folder.resolve()
    lines = [frame for frame in traceback.extract_tb(error.__traceback__) if folder in Path(frame.filename).parents]
    what = f"raised {type(error).__name__}: {error}"
    if not lines:
        return f"{_place(function, target)} {what}"
    last = lines[-1]
    file = Path(last.filename).relative_to(folder).as_posix()
    return f"{file}:{last.lineno}: {target.partition(':')[2]} {what}, in `{last.line}`"


def _described(value: object) -> str:
    """Return an argument in words: an array by its type and shape."""
    if _is_array(value):
        return f"{value.dtype} {value.shape}"  # type: ignore[attr-defined]
    return type(value).__name__ if isinstance(value, np.random.Generator) else shown(value)


def _is_array(value: object) -> bool:
    """Whether a value is an array of NumPy, or of a library on a GPU."""
    return isinstance(value, np.ndarray) or hasattr(type(value), "__cuda_array_interface__")


def array_for(
    where: str,
    buffer: BoundBuffer,
    value: object,
    held: str,
    xp: Any = np,  # noqa: ANN401 - a module with NumPy's functions
) -> Any:  # noqa: ANN401 - an array of it
    """Return what a function returned for a buffer as an array of `xp` of dtype `held`; raises FunctionError.

    The shape must be the buffer's; one element may be a number. What would change by the conversion to a type without
    rounding is refused: it would be compared with, or passed, as another number.
    """
    if value is None:
        raise FunctionError(f"{where} returns None for '{buffer.name}'; return the array")
    try:
        array = xp.asarray(value)
    except (TypeError, ValueError) as error:
        library = "NumPy" if xp is np else xp.__name__
        raise FunctionError(f"{where} returns for '{buffer.name}' what {library} takes for no array: {error}") from None
    if array.shape != buffer.shape and not (array.size == 1 == math.prod(buffer.shape)):
        raise FunctionError(f"{where} returns shape {array.shape} for '{buffer.name}'; expected {buffer.shape}")
    if array.dtype.kind not in ("biufVc" if DTYPES[buffer.dtype].parts > 1 else "biufV"):  # V: types of ml_dtypes
        raise FunctionError(f"{where} returns {array.dtype} for '{buffer.name}', which is {buffer.dtype}")
    if not DTYPES[buffer.dtype].floating:
        _demand_held(where, buffer, array, xp)
    return xp.ascontiguousarray(array.reshape(buffer.shape), held)


def rounded(where: str, buffer: BoundBuffer, value: object) -> str:
    """Return what to know of a reference that is rounded as coarsely as what it judges; empty where it is not.

    Types without rounding are exact, and so is what has the most bits that there are.
    """
    own, found = DTYPES[buffer.dtype], DTYPES.get(str(getattr(value, "dtype", "")))
    if found is None or not (own.floating and found.floating) or own.wide == own.name:
        return ""
    if found.fraction_bits > own.fraction_bits:
        return ""
    return (
        f"{where} returns {found.name} for '{buffer.name}', which is {own.name}: it is rounded as the kernel's results "
        f"are, so that errors of that size are not seen; compute in {own.wide}, as inputs come, and return {own.wide}"
    )


def nowhere_finite(where: str, buffer: BoundBuffer, array: HostArray) -> str:
    """Return what to know of a reference that has no finite number, which tells right from wrong nowhere."""
    if not (DTYPES[buffer.dtype].floating and array.size) or np.isfinite(array.flat[:1000]).any():
        return ""
    if np.isfinite(array).any():
        return ""
    return (
        f"{where} returns no finite number for '{buffer.name}', so that whatever is NaN or infinite is right; mend "
        "it, or give `inputs` of which it makes numbers"
    )


def _demand_held(where: str, buffer: BoundBuffer, array: Any, xp: Any) -> None:  # noqa: ANN401 - as above
    """Refuse a value that the buffer's type does not hold, with the first such place."""
    low, high = DTYPES[buffer.dtype].range or (0, 1)
    if array.dtype.kind == "b" or not array.size:
        return
    if array.dtype.kind == "f":  # high + 1 is a power of two, and so a float; the comparison is false for NaN
        wrong = ~((array >= float(low)) & (array < float(high + 1)) & (array == xp.rint(array)))
    elif low <= int(array.min()) and int(array.max()) <= high:
        return
    else:
        wrong = (array == array.min()) if int(array.min()) < low else (array == array.max())
    if wrong.any():
        first = int(xp.argmax(wrong))
        spot = ", ".join(str(position) for position in np.unravel_index(first, array.shape))
        raise FunctionError(
            f"{where} returns {array.ravel()[first]} for '{buffer.name}' at [{spot}], which {buffer.dtype} does not "
            "hold; round it, clip it, or let it wrap around with .astype, as the kernel does"
        )


def arrays_of(where: str, result: object, names: list[str], *, all_of_them: bool) -> Mapping[str, object]:
    """Return what a function returned as a mapping from array names; raises FunctionError.

    One array alone may come without a dict where all are wanted.
    """
    if not isinstance(result, Mapping):
        if all_of_them and len(names) == 1:
            return {names[0]: result}
        raise FunctionError(f"{where} returns {_kind(result)}; return a dict of arrays with {', '.join(names)}")
    for name in names if all_of_them else ():
        if name not in result:
            raise FunctionError(
                f"{where} returns nothing for '{name}'{closest(name, map(str, result))}; return a dict of arrays with "
                f"{', '.join(names)}"
            )
    for name in result if not all_of_them else ():
        if name not in names:
            raise FunctionError(f"{where} returns '{name}', and the inputs are {', '.join(names)}")
    return result


def together(spec: KernelSpec, arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Return values by name with the arrays of each list as a list of the spec's name."""
    found = {name: value for name, value in arrays.items() if "[" not in name}
    for argument in spec.lists:
        members = [arrays[one.name] for one in argument.members if one.name in arrays]
        if members:
            found[argument.name] = members
        else:
            found.pop(argument.name, None)  # of an output: what is passed for it is no business of a function
    return found


def apart(spec: KernelSpec, problem: Problem, where: str, given: Mapping[str, object]) -> dict[str, object]:
    """Return what a function returned with the arrays of each list by their own names; raises FunctionError."""
    found, values = dict(given), environment(spec, problem)
    for argument in spec.lists:
        if argument.name in found:
            several, count = found.pop(argument.name), count_of(argument, values)
            if not isinstance(several, list | tuple) or len(several) != count:
                many = f"{len(several)} arrays" if isinstance(several, list | tuple) else _kind(several)
                raise FunctionError(f"{where} returns {many} for '{argument.name}'; return a list of {count} arrays")
            found |= {one.name: array for one, array in zip(argument.members, several, strict=False)}
    return found


def _kind(result: object) -> str:
    """Return in words what a function returned in place of a dict; arrays without their elements."""
    if _is_array(result):
        return "an array"
    if isinstance(result, tuple | list) and any(map(_is_array, result)):
        return f"a {type(result).__name__} of arrays"
    return "None" if result is None else shown(result)


def _function(spec: KernelSpec, target: str) -> Function:
    file, _, name = target.partition(":")
    found = getattr(_imported((spec.folder / file).resolve()), name, None)
    if not callable(found):
        raise FunctionError(f"{file}: '{name}' is not a function")
    function: Function = found
    return function


@cache
def _imported(file: Path) -> ModuleType:
    """Import a file by its path, its folder first on the path, so that it can import its neighbours."""
    name = f"_pretuned_{file.stem}_{abs(hash(str(file)))}"
    module_spec = importlib.util.spec_from_file_location(name, file)
    assert module_spec is not None  # it ends in .py
    assert module_spec.loader is not None
    module = importlib.util.module_from_spec(module_spec)
    sys.modules[name] = module
    sys.path.insert(0, str(file.parent))
    try:
        module_spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise FunctionError(f"{_importing(file, error)}: {type(error).__name__}: {error}") from error
    finally:
        sys.path.remove(str(file.parent))
    return module


def _importing(file: Path, error: BaseException) -> str:
    """Return how a message about an import begins: with the line of the file that failed, if one did."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
    return f"{file.name}{f':{lines[-1]}' if lines else ''} cannot be imported"
