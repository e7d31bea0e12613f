"""What a generated package declares its kernels with, and all that importing it loads.

This folder is copied unchanged into every generated package as `_runtime`. Its rules:

- Standard library only, and the driver through ctypes (`driver`). CuPy or PyTorch are met as what callers pass; nothing
  of the library that wrote the package is here.
- Importing the package runs this module and `expressions`, unless CuPy or PyTorch are there already: no dataclasses,
  logging, typing, json, pathlib, re here.
- `calls` is the path of a call: `arrays` (the one door for arrays) -> `checks` (the problem) -> `lookup` (which
  configuration) -> `plans` (grids, parameter blocks, `modules`) -> launch. `explain` takes the same path up to
  `lookup`. A problem that was seen before goes by a lane (`lanes`): the same checks, written out for the kernel.
- State is one per process and package: the overrides (read once), loaded modules, plans. All of it may be used by
  several threads at once, with the GIL or without it.
"""

from __future__ import annotations

import sys

from .expressions import Integer as Integer
from .expressions import ceil_div as ceil_div

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any, ParamSpec, Protocol, TypeVar

    from .explanation import Explanation
    from .overrides import Using

    Foreign = Any  # arrays and streams of any library
    GpuArray = Any  # of CuPy or PyTorch, or with __cuda_array_interface__ or __dlpack__
    Stream = Any  # of CuPy or PyTorch, with __cuda_stream__, or a handle
    Value = int | bool | str
    Values = dict[str, Value]
    Run = Callable[..., Foreign]  # arrays in launch order, numbers, keywords, the stream, all by place
    Formula = Callable[..., Any]  # an expression of the spec, as a function of the names it reads
    Pairs = tuple[tuple[str, Value], ...]

    # implementation, configuration, time in us, interval of its ratio to the default's time, where beyond the sizes it
    # has also beaten the default, and "recompiled" where what ships is not what was measured, or the library that is
    # called
    Choice = tuple[str, Values, float, tuple[float, float], tuple[str, ...], str]
    # specialisation, lower bounds of the bucket, sizes measured, choices, (date, driver, compiler)
    Row = tuple[Values, dict[str, int], dict[str, int], tuple[Choice, ...], tuple[str, str, str]]
    Table = dict[str, dict[str, tuple[Row, ...]]]  # by kernel and device
    Devices = dict[str, dict[str, int]]
    # specialisation, implementation, configuration, module, bytes of alignment by argument
    Shipped = tuple[Values, str, Values, str, dict[str, int]]
    # architecture, compiler, (registers a thread, static shared bytes a block) by entry point
    Image = tuple[str, str, dict[str, tuple[int, int]]]
    # entry points' compile options, whether for one architecture only, images
    Modules = dict[str, tuple[tuple[str, ...], bool, tuple[Image, ...]]]

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


PACKAGE = __name__.rpartition(".")[0]


class PretunedError(Exception):
    """Base of every error that a generated package raises."""


def sizeof(dtype: str) -> int:
    """Return the bytes of one element of `dtype`."""
    from .types import DTYPES  # noqa: PLC0415 - importing the package must stay cheap

    return DTYPES[dtype].size_bytes


class Array:
    """An array argument. `role` is in, out or inout; `shape` a function of the dims; `init` fills it with zeros."""

    __slots__ = ("dtype", "init", "name", "role", "shape", "text")

    def __init__(self, name: str, role: str, dtype: str, text: str, shape: Formula, *, init: bool = False) -> None:
        self.name, self.role, self.dtype, self.text, self.shape, self.init = name, role, dtype, text, shape, init


class Scalar:
    """A value passed to the kernel: a dim, a specialisation, or a number that the call brings."""

    __slots__ = ("dtype", "name")

    def __init__(self, name: str, dtype: str) -> None:
        self.name, self.dtype = name, dtype


class Buffer:
    """Scratch memory for one call."""

    __slots__ = ("dtype", "init", "name", "shape")

    def __init__(self, name: str, dtype: str, shape: Formula, *, init: bool = False) -> None:
        self.name, self.dtype, self.shape, self.init = name, dtype, shape, init


class Launch:
    """One launch: the entry point, grid and block as (x, y, z), bytes of dynamic shared memory, names of arguments."""

    __slots__ = ("arguments", "block", "function", "grid", "shared")

    def __init__(
        self, function: str, *, grid: Formula, block: Formula, shared: Formula, arguments: tuple[str, ...]
    ) -> None:
        self.function, self.grid, self.block, self.shared, self.arguments = function, grid, block, shared, arguments


class Implementation:
    """One implementation: its launches, the conditions on a call or device, its scratch; `init` it fills with zeros.

    `call` is a library's function in place of launches: module, function, the inputs that it takes, and "keyword" where
    it writes to `out=`, or "copy".
    """

    __slots__ = ("call", "init", "launches", "scratch", "where")

    def __init__(
        self,
        launches: tuple[Launch, ...],
        where: tuple[tuple[str, Formula], ...] = (),
        scratch: tuple[Buffer, ...] = (),
        init: tuple[str, ...] = (),
        call: tuple[str, str, tuple[str, ...], str] | None = None,
    ) -> None:
        self.launches, self.where, self.scratch, self.init, self.call = launches, where, scratch, init, call


class Kernel:
    """A kernel as the spec describes it, with its rows and what ships. `run` is what the generated function calls.

    `dims` says which argument and axis give each dim; `sizes` which were measured and `edges` where their buckets meet;
    `follows` a type by the type of another specialisation; `keywords` the values that a keyword may have. `shipped`
    begins, for each specialisation, with the default.
    """

    __slots__ = (
        "arguments",
        "devices",
        "dims",
        "edges",
        "follows",
        "implementations",
        "keywords",
        "modules",
        "name",
        "requires",
        "rows",
        "run",
        "shipped",
        "sizes",
        "types",
    )

    def __init__(  # noqa: PLR0913 - a declaration, all by keyword
        self,
        name: str,
        *,
        arguments: tuple[Array | Scalar, ...],
        implementations: dict[str, Implementation],
        shipped: tuple[Shipped, ...],
        rows: dict[str, tuple[Row, ...]],
        devices: Devices,
        modules: Modules,
        dims: dict[str, tuple[str, int]] | None = None,
        sizes: dict[str, tuple[int, ...]] | None = None,
        edges: dict[str, tuple[int, ...]] | None = None,
        types: tuple[str, ...] = (),
        follows: dict[str, tuple[str, dict[str, str]]] | None = None,
        keywords: dict[str, tuple[Value, ...]] | None = None,
        requires: tuple[tuple[str, Formula], ...] = (),
    ) -> None:
        self.name, self.arguments, self.implementations, self.requires = name, arguments, implementations, requires
        self.shipped, self.rows, self.devices, self.modules = shipped, rows, devices, modules
        self.dims, self.sizes, self.edges = dims or {}, sizes or {}, edges or {}
        self.types, self.follows, self.keywords = types, follows or {}, keywords or {}
        self.run: Run = self._first
        KERNELS[name] = self

    def _first(self, *call: Foreign) -> Foreign:
        """Load what a call needs, and call; later calls go straight there."""
        from .calls import caller  # noqa: PLC0415 - importing the package must stay cheap

        return caller(self).dispatch(*call)


KERNELS: dict[str, Kernel] = {}


class Binding:
    """What `bind` passes as a call's stream: the call is to be bound, on the stream that it holds."""

    __slots__ = ("stream",)

    def __init__(self, stream: Foreign) -> None:
        self.stream = stream


def launcher(function: Callable[P, R_co]) -> Launcher[P, R_co]:
    """Give a kernel's function its `bind` and `prepare`."""

    def bind(*arguments: Foreign, stream: Foreign = None, **keywords: Foreign) -> Foreign:
        """Check and pack a call, and return what launches it, without arguments, and returns its outputs.

        The arguments are those of the call. The stream is fixed too: the one given, or the one that is current now. A
        bound call may be launched from any thread, and while a graph is captured.
        """
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
        table: A lock file whose rows are used in place of the package's.
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
    """Tell which configuration would run a problem, and on which evidence.

    Args:
        kernel: A function of the package, or its name.
        device: Name of a device in `DEVICES`; the current GPU if None.
        problem: Every dim and specialisation by name, as in `n=4096, T="float32"`.

    Returns:
        An object with the configuration, the row, times and reasons; `str()` of it is for people.

    Raises:
        PretunedError: The kernel, device or problem is not known here.
    """
    from .explanation import explain as tell  # noqa: PLC0415 - importing the package must stay cheap

    return tell(kernel, device, problem)


if "cupy" in sys.modules or "torch" in sys.modules:
    # Who has arrays will call: what a call needs is loaded now, when all that it imports is there already.
    from . import calls as calls
