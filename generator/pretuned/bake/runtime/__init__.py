"""What a generated package declares its kernels with, and all that importing it loads.

This folder is copied unchanged into every generated package as `_runtime`. Its rules:

- Standard library only, and CuPy from the first call on. Nothing of the library that wrote the package.
- Importing the package runs this module and no other: no dataclasses, logging, typing, json, pathlib, re here.
- `calls` is the path of a call: `arrays` (the one door for arrays) -> `checks` (the problem) -> `lookup` (which
  configuration) -> `prepare` (grids, parameters, `modules`) -> launch. `explain` takes the same path up to `lookup`.
- State is one per process and package: the overrides (read once), loaded modules, prepared calls. All of it may be
  used by several threads at once.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .explanation import Explanation

    Foreign = Any  # CuPy ships no types
    Value = int | bool | str
    Values = dict[str, Value]
    Run = Callable[[tuple[Foreign, ...], tuple[Foreign, ...], tuple[Value, ...], Foreign], Foreign]
    Formula = Callable[..., Any]  # an expression of the spec, as a function of the names it reads
    Pairs = tuple[tuple[str, Value], ...]

    # implementation, configuration, time in us, interval of its ratio to the default's time, where beyond the sizes it
    # has also beaten the default, and "recompiled" where what ships is not what was measured
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

PACKAGE = __name__.rpartition(".")[0]
MAX_EXPONENT = 64  # the bounds of the spec's expressions
MAX_BITS = 256
SIZES = {
    "float64": 8,
    "float32": 4,
    "float16": 2,
    "bfloat16": 2,
    "int64": 8,
    "int32": 4,
    "int16": 2,
    "int8": 1,
    "uint64": 8,
    "uint32": 4,
    "uint16": 2,
    "uint8": 1,
    "bool": 1,
}


class PretunedError(Exception):
    """Base of every error that a generated package raises."""


def ceil_div(a: int, b: int) -> int:
    """Return a / b rounded up to an integer."""
    return -(-a // b)


def sizeof(dtype: str) -> int:
    """Return the bytes of one element of `dtype`."""
    return SIZES[dtype]


def power(a: int, b: int) -> int:
    """Return a ** b, within the bounds of the spec's expressions."""
    if not (0 <= b <= MAX_EXPONENT and abs(a).bit_length() * b <= MAX_BITS):
        raise PretunedError(f"{a} ** {b} is out of bounds: exponents go from 0 to {MAX_EXPONENT}")
    result: int = a**b
    return result


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


class Way:
    """One implementation: its launches, the conditions on a call or device, its scratch; `init` it fills with zeros."""

    __slots__ = ("init", "launches", "scratch", "where")

    def __init__(
        self,
        launches: tuple[Launch, ...],
        where: tuple[tuple[str, Formula], ...] = (),
        scratch: tuple[Buffer, ...] = (),
        init: tuple[str, ...] = (),
    ) -> None:
        self.launches, self.where, self.scratch, self.init = launches, where, scratch, init


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
        "keywords",
        "modules",
        "name",
        "requires",
        "rows",
        "run",
        "shipped",
        "sizes",
        "types",
        "ways",
    )

    def __init__(  # noqa: PLR0913 - a declaration, all by keyword
        self,
        name: str,
        *,
        arguments: tuple[Array | Scalar, ...],
        ways: dict[str, Way],
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
        self.name, self.arguments, self.ways, self.requires = name, arguments, ways, requires
        self.shipped, self.rows, self.devices, self.modules = shipped, rows, devices, modules
        self.dims, self.sizes, self.edges = dims or {}, sizes or {}, edges or {}
        self.types, self.follows, self.keywords = types, follows or {}, keywords or {}
        self.run: Run = self._first
        KERNELS[name] = self

    def _first(
        self, arrays: tuple[Foreign, ...], scalars: tuple[Foreign, ...], keywords: tuple[Value, ...], stream: Foreign
    ) -> Foreign:
        """Load what a call needs, and call; later calls go straight there."""
        from .calls import bind  # noqa: PLC0415 - importing the package must stay cheap

        self.run = run = bind(self)
        return run(arrays, scalars, keywords, stream)


KERNELS: dict[str, Kernel] = {}


def explain(kernel: object, device: str | None, problem: Values) -> Explanation:
    """Tell which row would run; see `explanation`."""
    from .explanation import explain as tell  # noqa: PLC0415 - importing the package must stay cheap

    return tell(kernel, device, problem)
