"""The dispatcher of a generated package, and all that importing the package loads.

This folder is copied unchanged into every generated package as `_runtime`. Its rules:

- Standard library only, and the driver through ctypes (`driver`). Array libraries are met as what callers pass
  (`adapters`). Nothing of the library that wrote the package is here.
- Importing the package runs this module and `table`: no dataclasses, logging, typing, json, pathlib, re.
  Where an array library is imported already, `calls` is loaded too.
- No module imports this one, and no two import each other.
- `calls` is the path of a call: `adapters` (read the arrays) -> `checks` (the problem) -> `lookup` (which
  configuration) -> `plans` (grids, parameter blocks, `binaries`) -> launch. `explain` takes the same path up to
  `lookup`. A problem that was seen before goes by the fast path (`fastpath`): the same checks, written out for the
  kernel.
- State is one per process and package: the overrides (read once), loaded binaries, plans. All of it may be used by
  several threads at once, with the GIL or without it.
"""

from __future__ import annotations

import sys

from .table import (
    KERNELS,
    Array,
    Buffer,
    Implementation,
    Kernel,
    Launch,
    LibraryFunction,
    PretunedError,
    Scalar,
    TensorMap,
    ceil_div,
    sizeof,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import ParamSpec, Protocol, TypeVar

    from .explanation import Explanation
    from .expressions import Integer as Integer
    from .gradients import Backward as Backward
    from .lists import ArrayList as ArrayList
    from .lists import listed as listed
    from .overrides import Using
    from .records import Value
    from .table import Binaries as Binaries
    from .table import Devices as Devices
    from .table import Foreign
    from .table import GpuArray as GpuArray
    from .table import Selections as Selections
    from .table import Shipped as Shipped
    from .table import Stream as Stream
    from .table import Table as Table

    P = ParamSpec("P")
    R_co = TypeVar("R_co", covariant=True)

    class Launcher(Protocol[P, R_co]):
        """A kernel's function."""

        __name__: str

        def __call__(self, *arguments: P.args, **keywords: P.kwargs) -> R_co:
            """Run the kernel."""

        def bind(self, *arguments: P.args, **keywords: P.kwargs) -> Callable[[], R_co]:
            """Return what launches this call, checked and packed."""

        def prepare(self, device: int | None = None) -> None:
            """Load what a device needs."""


__all__ = [
    "KERNELS",
    "Array",
    "Buffer",
    "Implementation",
    "Kernel",
    "Launch",
    "LibraryFunction",
    "PretunedError",
    "Scalar",
    "TensorMap",
    "ceil_div",
    "explain",
    "launcher",
    "prepare",
    "sizeof",
    "use",
    "using",
]


def __getattr__(name: str) -> Foreign:
    """Return what few packages name, and importing the others need not load."""
    if name == "Integer":
        from .expressions import Integer  # noqa: PLC0415 - see above

        return Integer
    if name == "Backward":
        from .gradients import Backward  # noqa: PLC0415 - see above

        return Backward
    if name in {"ArrayList", "listed"}:
        from . import lists  # noqa: PLC0415 - see above

        return getattr(lists, name)
    raise AttributeError(name)


def _begin(kernel: Kernel, *call: Foreign) -> Foreign:
    """Load what a kernel's calls need, and make the first of them; later calls go straight there."""
    from .calls import caller  # noqa: PLC0415 - importing the package must stay cheap

    return caller(kernel).dispatch(*call)


Kernel.begin = _begin


def launcher(function: Callable[P, R_co]) -> Launcher[P, R_co]:
    """Give a kernel's function its `bind` and `prepare`."""

    def bind(*arguments: Foreign, stream: Foreign = None, **keywords: Foreign) -> Foreign:
        """Check and pack a call, and return what launches it, without arguments, and returns its outputs.

        The arguments are those of the call. The stream is fixed too: the one given, or the one that is current now. A
        bound call may be launched from any thread, and while a graph is captured.
        """
        from .bound import Binding  # noqa: PLC0415 - importing the package must stay cheap

        return function(*arguments, stream=Binding(stream), **keywords)  # type: ignore[arg-type]

    def prepare(device: int | None = None) -> None:
        """Load what a device, by its ordinal, needs for this kernel, ahead of the first call; the current one if None.

        After it calls with outputs given allocate nothing on the device and never wait for it, unless the kernel has
        scratch memory; they may be captured into a graph.
        """
        from .bound import prepare as load  # noqa: PLC0415 - importing the package must stay cheap

        load(KERNELS[function.__name__], device)

    made: Foreign = function
    made.bind, made.prepare = bind, prepare
    result: Launcher[P, R_co] = made
    return result


def prepare(device: int | None = None) -> None:
    """Load what a device, by its ordinal, needs for every kernel, ahead of the first call; the current one if None."""
    from .bound import prepare as load  # noqa: PLC0415 - importing the package must stay cheap

    for kernel in KERNELS.values():
        load(kernel, device)


def using(
    *,
    device: str | None = None,
    defaults: bool | Iterable[str] | None = None,
    table: str | None = None,
    strict: bool | None = None,
    **configurations: Mapping[str, Value],
) -> Using:
    """Override what runs for a block of code, in its thread or task.

    As in `with using(row_softmax={"block": 512}): ...`.

    Args:
        device: Whose rows to use, by a name in `DEVICES`.
        defaults: Run defaults only, of all kernels or of those named.
        table: A lock file whose rows and selections are used in place of the package's.
        strict: A call for which nothing was measured is an error.
        configurations: By kernel, a configuration that ships; `implementation` is a key where there are several.

    Raises:
        PretunedError: Something is not in this package.
    """
    from .overrides import using as override  # noqa: PLC0415 - importing the package must stay cheap

    return override(device=device, defaults=defaults, table=table, strict=strict, configurations=configurations)


def use(
    *,
    device: str | None = None,
    defaults: bool | Iterable[str] | None = None,
    table: str | None = None,
    strict: bool | None = None,
    **configurations: Mapping[str, Value],
) -> None:
    """Override what runs, for the process, over the environment; without arguments, the environment alone counts again.

    The arguments are those of `using`. Raises PretunedError for what is not in this package.
    """
    from .overrides import use as override  # noqa: PLC0415 - importing the package must stay cheap

    override(device=device, defaults=defaults, table=table, strict=strict, configurations=configurations)


def explain(kernel: object, /, *, device: str | None = None, **problem: Value) -> Explanation:
    """Return which configuration would run a problem, and on which evidence.

    Args:
        kernel: A function of the package, or its name.
        device: Name of a device in `DEVICES`; the current GPU if None.
        problem: Every dim and specialisation by name, as in `n=4096, T="float32"`.

    Returns:
        An object with the configuration, the row, times and reasons; `str()` of it is for people.

    Raises:
        PretunedError: The kernel, device or problem is not known here.
    """
    from .explanation import explain as explained  # noqa: PLC0415 - importing the package must stay cheap

    return explained(kernel, device, problem)


if "cupy" in sys.modules or "torch" in sys.modules:
    # A process that has arrays will call: load what a call needs now, when all that it imports is there already.
    from . import calls as calls
