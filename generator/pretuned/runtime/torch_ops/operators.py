"""The operators of PyTorch: defined once a process, run by the kernels' functions on a GPU, by fakes without one."""

from __future__ import annotations

import threading
from importlib import import_module

from ..errors import ArgumentError, qualified
from ..table import KERNELS, PACKAGE, Array, PretunedError
from .fakes import missing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ..table import Foreign, Kernel

torch: Foreign = import_module("torch")
running = threading.local()  # its `operator` is true in a thread that an operator has called


class Operators:
    """The operators of this package in a namespace of `torch.ops`; those of an earlier import of it make way.

    They demand arguments that lie as they did when they were traced, since kernels take C-contiguous arrays.
    """

    def __init__(self, namespace: str) -> None:
        self._namespace, self._space = namespace, getattr(torch.ops, namespace)
        self._owners = self._space.__dict__.setdefault("_pretuned", {})  # packages may share a namespace
        if PACKAGE in self._owners:
            self._owners.pop(PACKAGE)._destroy()  # noqa: SLF001 - there is no other way to define them again
        self._owners[PACKAGE] = self._library = torch.library.Library(namespace, "FRAGMENT")
        exact = getattr(torch.Tag, "needs_exact_strides", torch.Tag.needs_fixed_stride_order)
        self._tags = (exact,)

    def define(self, function: Callable[..., Foreign], schema: str, overload: str = "") -> Foreign:
        """Define the operator of a kernel's function, and return it: with `overload` the one of that name."""
        name, kernel = function.__name__, KERNELS[function.__name__]
        full = f"{name}.{overload}" if overload else name
        try:
            self._library.define(f"{full}{schema}", tags=self._tags)
        except RuntimeError as error:
            raise PretunedError(self._refused(full, error)) from None
        found = getattr(getattr(self._space, name), overload or "default")
        names = [argument.name for argument in found._schema.arguments]  # noqa: SLF001 - its public way to be read
        self._library.impl(full, _run_by(kernel, function, names), "CUDA")
        torch.library.register_fake(f"{self._namespace}::{full}", _faked_by(kernel, names), lib=self._library)
        if not overload:
            refusal = _no_batches(kernel)
            torch.library.register_vmap(f"{self._namespace}::{full}", refusal, lib=self._library)
        return found

    def _refused(self, full: str, error: RuntimeError) -> str:
        operator = f"{self._namespace}::{full}"
        owners = [owner for owner, one in self._owners.items() if operator in one._op_defs and owner != PACKAGE]  # noqa: SLF001
        if not owners and "multiple times" not in str(error):
            return f"{PACKAGE}: PyTorch {torch.__version__} does not take the operator {operator}: {error}"
        by = f" by {owners[0]}" if owners else ""
        return (
            f"{PACKAGE}: the operator {operator} is defined{by} already; give one of the two packages another "
            f'namespace: write `torch = "..."` into its table and build it again'
        )


def _run_by(kernel: Kernel, function: Callable[..., Foreign], names: Sequence[str]) -> Callable[..., Foreign]:
    """Return what runs an operator of these arguments: the kernel's function, whose new outputs are its result."""
    written = [argument for argument in kernel.arguments if isinstance(argument, Array) and argument.role != "in"]
    new = [place for place, one in enumerate(written) if one.role == "out" and one.name not in names]
    whole = len(new) == len(written)

    def run(*arguments: Foreign, **keywords: Foreign) -> Foreign:
        before, running.operator = getattr(running, "operator", False), True
        try:
            named = {**dict(zip(names, arguments, strict=False)), **keywords}
            results = function(**(with_structs(kernel, named) if kernel.structs else named))
        finally:
            running.operator = before
        if whole:
            return results
        several = results if isinstance(results, tuple) else (results,)
        return _returned([several[place] for place in new])

    return run


def _faked_by(kernel: Kernel, names: Sequence[str]) -> Callable[..., Foreign]:
    """Return what gives the outputs of an operator without memory."""

    def fake(*arguments: Foreign, **keywords: Foreign) -> Foreign:
        named = {**dict(zip(names, arguments, strict=False)), **keywords}
        made = iter(missing(kernel, *_taken_apart(kernel, named)))
        new: list[Foreign] = []
        for argument in kernel.arguments:
            if not isinstance(argument, Array):
                continue
            several = [next(made) for _ in argument.members or (argument,)]
            if argument.role == "out" and argument.name not in names:
                new.append([one for one in several if one is not None] if argument.count else several[0])
        return _returned(new)

    return fake


def _returned(new: Sequence[Foreign]) -> Foreign:
    """Return outputs as an operator does: none, one, or a tuple."""
    return (new[0] if len(new) == 1 else tuple(new)) if new else None


def _taken_apart(kernel: Kernel, named: Mapping[str, Foreign]) -> tuple[list[Foreign], dict[str, Foreign]]:
    """Return the arrays of a call in launch order, those of lists one by one, and its keywords with what arrays say."""
    arrays: list[Foreign] = []
    words = {name: named[name] for name in kernel.keywords if name in named}
    for argument in kernel.arguments:
        if not isinstance(argument, Array):
            continue
        given, room = named.get(argument.name), len(argument.members)
        if argument.count and given is not None:
            words[argument.count] = len(given)
        words |= {f"has_{argument.name}": given is not None} if argument.optional else {}
        arrays += [*(given or ()), *(None,) * (room - len(given or ()))] if argument.count else [given]
    return arrays, words


def with_structs(kernel: Kernel, named: Mapping[str, Foreign]) -> dict[str, Foreign]:
    """Return arguments by name with each struct in the place of its fields, which an operator takes one by one."""
    found = dict(named)
    for scalar in kernel.scalars:
        if scalar.dtype in kernel.structs:
            fields = [name for name, _, _ in kernel.structs[scalar.dtype]]
            found[scalar.name] = {name: found.pop(f"{scalar.name}_{name}") for name in fields}
    return found


def _no_batches(kernel: Kernel) -> Callable[..., Foreign]:
    def refuse(_info: Foreign, _in_dims: Foreign, *_arguments: Foreign, **_keywords: Foreign) -> Foreign:
        raise ArgumentError(batched(kernel))

    return refuse


def batched(kernel: Kernel) -> str:
    """Return what to do instead of calling a kernel under vmap."""
    leading = any(array.trailing is not None for array in kernel.arrays)
    way = "it takes any leading dimensions: call it without vmap" if leading else "call it once for each of the batch"
    return f"{qualified(kernel.name)}: vmap does not go through this kernel; {way}"
