"""What a generated package declares: its kernels, their arguments, launches and table.

Importing a package runs this module, so it defines these, the two functions that expressions call, and nothing else.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, ClassVar

    from .gradients import Backward
    from .records import Shipment, ShippedConfiguration, SourceBinaries, TableRow, Value
    from .structs import Field, Struct

    Foreign = Any  # arrays and streams of any library
    GpuArray = Any  # of CuPy or PyTorch, or with __cuda_array_interface__ or __dlpack__
    Stream = Any  # of CuPy or PyTorch, with __cuda_stream__, or a handle
    Run = Callable[..., Foreign]  # arrays in launch order, numbers, keywords, the stream, all by position
    Formula = Callable[..., Any]  # an expression of the spec, as a function of the names that it reads
    Conditional = tuple[tuple[Formula | None, Value], ...]  # a value by conditions, the last without one
    Devices = dict[str, dict[str, int]]  # facts by device
    # Literals, which become the records of `records`.
    RowLiterals = dict[str, tuple[tuple[Any, ...], ...]]  # by device
    Table = dict[str, RowLiterals]  # by kernel
    SelectionLiterals = dict[str, tuple[tuple[Any, ...], ...]]  # by device
    Selections = dict[str, SelectionLiterals]  # by kernel
    Shipped = tuple[tuple[Any, ...], ...]
    Binaries = dict[str, tuple[Any, ...]]  # by source

PACKAGE = __name__.rsplit(".", 2)[0]


class PretunedError(Exception):
    """Base of every error that a generated package raises."""


def ceil_div(a: int, b: int) -> int:
    """Return a / b rounded up to an integer."""
    return -(-a // b)


def sizeof(dtype: str) -> int:
    """Return the bytes of one element of `dtype`."""
    from .types import DTYPES  # noqa: PLC0415 - importing a generated package must stay cheap

    return DTYPES[dtype].size_bytes


class Array:
    """An array argument. `role` is in, out or inout; `shape` a function of the dims; `init` fills it with zeros.

    `in_place` names the inputs that an output may be; an `optional` input may be None; `trailing` is how
    many of its dimensions stand behind those whose product is the first of the shape, None where the shape is as it
    stands; `strides` names those of its first dimensions where rows may lie apart; `rank` is the number of its
    dimensions, once the shape was worked out.
    """

    __slots__ = (
        *("dtype", "in_place", "init", "name", "optional", "rank"),
        *("role", "shape", "strides", "text", "trailing"),
    )

    def __init__(  # noqa: PLR0913 - a declaration
        self,
        name: str,
        role: str,
        dtype: str,
        text: str,
        shape: Formula,
        *,
        init: bool = False,
        in_place: tuple[str, ...] = (),
        optional: bool = False,
        trailing: int | None = None,
        strides: tuple[str, ...] = (),
    ) -> None:
        self.name, self.role, self.dtype, self.text, self.shape, self.init = name, role, dtype, text, shape, init
        self.in_place, self.optional, self.trailing, self.strides = in_place, optional, trailing, strides
        self.rank: int | None = None

    # Of a list of arrays alone (see `lists`): the dim that is their number, and of one of them its place and the list.
    count = whole = ""
    place = 0
    members: tuple[Array, ...] = ()


class Scalar:
    """A value passed to the kernel: a dim, a specialisation, a number that the call brings; or else `value`'s.

    With `each` it is `most` numbers: the extents of that dim that the arrays of lists have, then zeros.
    """

    __slots__ = ("dtype", "each", "most", "name", "value")

    def __init__(self, name: str, dtype: str, value: Formula | None = None, each: str = "", most: int = 0) -> None:
        self.name, self.dtype, self.value, self.each, self.most = name, dtype, value, each, most


class Buffer:
    """Scratch memory for one call."""

    __slots__ = ("dtype", "init", "name", "shape")

    def __init__(self, name: str, dtype: str, shape: Formula, *, init: bool = False) -> None:
        self.name, self.dtype, self.shape, self.init = name, dtype, shape, init


class TensorMap:
    """A map of an array for TMA (see `tensor_maps`); `box` has an entry for each of its dims, outermost first."""

    __slots__ = ("array", "box", "fill", "l2", "name", "swizzle")

    def __init__(
        self, name: str, array: str, box: Formula, *, swizzle: str = "none", l2: str = "none", fill: str = "zeros"
    ) -> None:
        self.name, self.array, self.box, self.swizzle, self.l2, self.fill = name, array, box, swizzle, l2, fill


class Launch:
    """One launch: the entry point, grid and block as (x, y, z), bytes of dynamic shared memory, names of arguments.

    `cluster` are the blocks of a cluster as (x, y, z). A `cooperative` launch has all its blocks on the device at once.
    One with `overlap` may begin before what runs ahead of it on the stream has ended.
    """

    __slots__ = ("arguments", "block", "cluster", "cooperative", "function", "grid", "overlap", "shared")

    def __init__(  # noqa: PLR0913 - a declaration, all by keyword
        self,
        function: str,
        *,
        grid: Formula,
        block: Formula,
        shared: Formula,
        arguments: tuple[str, ...],
        cluster: Formula | None = None,
        cooperative: bool = False,
        overlap: bool = False,
    ) -> None:
        self.function, self.grid, self.block, self.shared, self.arguments = function, grid, block, shared, arguments
        self.cluster, self.cooperative, self.overlap = cluster, cooperative, overlap

    @property
    def attributed(self) -> bool:
        """Whether it may need attributes, which only cuLaunchKernelEx takes."""
        return self.cluster is not None or self.cooperative or self.overlap


class LibraryFunction:
    """A library's function: its module and name, the arrays that it takes, and how it writes its result.

    `out` is "keyword" where the function writes to its `out=`, and "copy" where its result is copied.
    """

    __slots__ = ("arguments", "function", "module", "out")

    def __init__(self, module: str, function: str, arguments: tuple[str, ...], out: str) -> None:
        self.module, self.function, self.arguments, self.out = module, function, arguments, out


class Implementation:
    """One implementation: its launches, the conditions on a call or device, its scratch; `init` it fills with zeros.

    `tensor_maps` are passed to launches by their names. `call` is a library's function in place of launches.
    """

    __slots__ = ("call", "init", "launches", "scratch", "tensor_maps", "where")

    def __init__(
        self,
        launches: tuple[Launch, ...],
        where: tuple[tuple[str, Formula], ...] = (),
        scratch: tuple[Buffer, ...] = (),
        init: tuple[str, ...] = (),
        call: LibraryFunction | None = None,
        tensor_maps: tuple[TensorMap, ...] = (),
    ) -> None:
        self.launches, self.where, self.scratch, self.init, self.call = launches, where, scratch, init, call
        self.tensor_maps = tensor_maps


class Kernel:
    """A kernel as the spec describes it, with its rows, selections and what ships.

    `run` is what the generated function calls. `dims` gives the argument and axis that each dim is read from; factor,
    offset and text of the extent there, where it is not the dim alone; and nothing where a keyword gives the dim. An
    argument `a[]` is a list, over whose arrays the dim is the sum.
    `alike` gives by each type that a call may have the one of its size that was tuned and ships, for all of them.
    `follows` gives a type by the type of another specialisation; `keywords` the values that a keyword may have, and
    none for a dim; `addresses` the bytes that the address of an array has to be a multiple of. `shipped` begins, for
    each specialisation, with the default, or all that it may be; then `default` gives, by parameter, conditions on the
    problem with values.

    What is named in `_MADE` is made of the package's literals when one of it is first read.
    """

    __slots__ = (
        "addresses",
        "alike",
        "arguments",
        "arrays",
        "backward",
        "binaries",
        "default",
        "derived",
        "devices",
        "dims",
        "follows",
        "free_dims",
        "implementations",
        "keywords",
        "layouts",
        "limits",
        "lists",
        "literals",
        "name",
        "requires",
        "rows",
        "run",
        "scalars",
        "shipments",
        "shipped",
        "specialisation_names",
        "strides",
        "structs",
        "typed",
        "types",
    )
    begin: ClassVar[Callable[..., Foreign]]  # loads what calls need, and makes the first call of a kernel
    arrays: tuple[Array, ...]  # the arguments that are arrays, in launch order
    scalars: tuple[Scalar, ...]  # the numbers that a call brings: neither dims nor specialisations
    derived: tuple[tuple[Scalar, Formula], ...]  # those that follow from what a call decides, with how
    limits: tuple[tuple[Scalar, int, int], ...]  # the dims and strides that are passed as integers, and what these hold
    lists: tuple[Array, ...]  # the arguments that are lists of arrays
    layouts: dict[str, Struct]  # the structs that are passed by value, by their names
    shipped: tuple[ShippedConfiguration, ...]
    shipments: dict[tuple[Value, ...], Shipment]  # what ships, by the values of a specialisation
    specialisation_names: tuple[str, ...]  # of what a call specialises, dims that are constant included
    free_dims: tuple[str, ...]  # the others
    strides: tuple[str, ...]  # that a call's arrays have, by name
    typed: tuple[tuple[str, str, tuple[str, ...]], ...]  # a type, the input that gives it, what it may be
    rows: dict[str, tuple[TableRow, ...]]
    binaries: dict[str, SourceBinaries]

    def __init__(  # noqa: PLR0913 - a declaration, all by keyword
        self,
        name: str,
        *,
        arguments: tuple[Array | Scalar, ...],
        implementations: dict[str, Implementation],
        shipped: Shipped,
        rows: RowLiterals,
        devices: Devices,
        binaries: Binaries,
        selections: SelectionLiterals | None = None,
        dims: dict[str, tuple[Any, ...]] | None = None,
        types: tuple[str, ...] = (),
        alike: dict[str, dict[str, str]] | None = None,
        follows: dict[str, tuple[str, dict[str, str]]] | None = None,
        keywords: dict[str, tuple[Value, ...]] | None = None,
        requires: tuple[tuple[str, Formula], ...] = (),
        addresses: tuple[tuple[str, str, Formula], ...] = (),
        structs: dict[str, tuple[Field, ...]] | None = None,
        default: dict[str, Conditional] | None = None,
        backward: Backward | None = None,
    ) -> None:
        self.name, self.arguments, self.implementations, self.requires = name, arguments, implementations, requires
        self.addresses, self.structs, self.default, self.backward = addresses, structs or {}, default or {}, backward
        self.literals, self.devices = (shipped, rows, selections or {}, binaries), devices
        self.dims, self.types, self.follows, self.keywords = dims or {}, types, follows or {}, keywords or {}
        self.alike = alike or {}
        self.run: Run = self._first
        KERNELS[name] = self

    def _first(self, *call: Foreign) -> Foreign:
        return Kernel.begin(self, *call)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - a slot that is not filled yet
        if name not in _MADE:
            raise AttributeError(name)
        from .records import Shipment, binaries_of, rows_of, shipped_of  # noqa: PLC0415 - importing must stay cheap
        from .types import DTYPES  # noqa: PLC0415 - as above

        shipped, rows, _, binaries = self.literals
        if name == "layouts":
            self.layouts = self._structs()
            return self.layouts
        if name == "rows":  # which calls have no need of
            self.rows = rows_of(rows)
            return self.rows
        self.shipped = shipped_of(shipped, self.alike)
        self.binaries = binaries_of(binaries, {one.source for one in self.shipped if one.source})
        names = self.specialisation_names = tuple(self.shipped[0].specialisation)
        self.free_dims = tuple(sorted(dim for dim in self.dims if dim not in names))
        listed: dict[tuple[Value, ...], list[ShippedConfiguration]] = {}
        for one in self.shipped:
            listed.setdefault(tuple(one.specialisation[name] for name in names), []).append(one)
        listed_arrays = [argument for argument in self.arguments if isinstance(argument, Array)]
        self.arrays = tuple(array for argument in listed_arrays for array in argument.members or (argument,))
        self.lists = tuple(argument for argument in listed_arrays if argument.count)
        self.strides = tuple(stride for array in self.arrays for stride in array.strides)
        inputs = {a.dtype: a.name for a in reversed(self.arrays) if a.role != "out" and not a.optional}
        may_be = {name: tuple(sorted({str(one.specialisation[name]) for one in self.shipped})) for name in self.types}
        self.typed = tuple((name, inputs[name], may_be[name]) for name in self.types)
        numbers = [argument for argument in self.arguments if isinstance(argument, Scalar)]
        decided = {*self.dims, *names, *self.strides}
        self.scalars = tuple(one for one in numbers if not (one.value or one.each or one.name in decided))
        self.derived = tuple((one, one.value) for one in numbers if one.value)
        sizes = {*self.dims, *self.strides}
        ranges = [(one, DTYPES[one.dtype].range) for one in numbers if one.each or one.name in sizes]
        self.limits = tuple((one, *taken) for one, taken in ranges if taken is not None)
        self.shipments = {key: Shipment(of_one) for key, of_one in listed.items()}
        return object.__getattribute__(self, name)

    @property
    def attributed(self) -> bool:
        """Whether some launch may need attributes."""
        return any(launch.attributed for one in self.implementations.values() for launch in one.launches)

    @property
    def mapped(self) -> bool:
        """Whether some launch may be passed tensor maps."""
        return any(one.tensor_maps for one in self.implementations.values())

    def _structs(self) -> dict[str, Struct]:
        """Return the structs that are passed by value."""
        if not self.structs:
            return {}
        from .structs import Struct  # noqa: PLC0415 - few kernels have any

        return {name: Struct(name, fields) for name, fields in self.structs.items()}


_MADE = frozenset(
    {
        "arrays",
        "binaries",
        "derived",
        "free_dims",
        "layouts",
        "limits",
        "lists",
        "rows",
        "scalars",
        "shipments",
        "shipped",
        "specialisation_names",
        "strides",
        "typed",
    }
)
KERNELS: dict[str, Kernel] = {}
