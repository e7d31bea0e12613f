"""Arrays that are read once in a call: what they tell, and the adapters that are made of that.

A property such as __cuda_array_interface__ makes a dict every time it is asked. So a call asks each array once, by a
function that is found by the array's class, for its *facts*: a plain tuple, which the fast path then looks at. Facts of
one library's arrays are understood beside those of another.
"""

from __future__ import annotations

import math
from functools import partial
from sys import intern

from ..driver import DriverError, driver
from ..errors import ArgumentError, ArgumentTypeError
from ..types import DTYPES
from .adapter import ArrayView, Expressions, kind_of, reach

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ..table import Foreign
    from .adapter import Adapter

    # shape, dtype, address, strides in bytes (None for a C-contiguous one), read-only, the stream to wait for, the
    # ordinal of the device, what has to live until the launch
    Facts = tuple[tuple[int, ...], str, int, tuple[int, ...] | None, bool, int | None, int, Foreign]
    Read = Callable[[Foreign], Facts]

KEPT = 4096  # layouts that are known to be contiguous, and addresses that are known to be a GPU's
LEGACY = 1  # the default stream, as the interface and DLPack write it; the driver takes 0 for it as well
_dense: dict[Foreign, bool] = {}
HOMES: dict[int, int] = {}  # addresses that are known to be a GPU's: its ordinal


class Told:
    """An adapter of arrays that are read by their facts; `adapter_of` finds that of arrays which come with them."""

    name = ""
    stream = "stream_of(ordinal)"
    current_device = "current_device()"

    def __init__(self, adapter_of: Callable[[object], Adapter | None]) -> None:
        self._adapter_of = adapter_of

    def facts(self, value: Foreign) -> Facts:
        """Return what an array tells; raises what the fast path takes for a call that `view` has to see."""
        raise NotImplementedError

    def demand(self, where: str, value: Foreign, *, written: bool) -> None:
        """Raise a PretunedError for an array that launches cannot use."""

    def view(self, where: str, value: Foreign, stream: int, *, written: bool) -> ArrayView:
        """Return an array as launches on a stream see it. One that names a stream of its own is waited for."""
        self.demand(where, value, written=written)
        return viewed(where, value, self.facts(value), stream)

    def current_stream(self, device: int) -> int:
        """Return the handle of the library's current stream."""
        raise NotImplementedError

    def empty(self, shape: tuple[int, ...], dtype: str) -> Foreign:
        """Return a new array on the library's current device and stream; raises AttributeError where it cannot yet."""
        raise NotImplementedError

    def maker(self, shape: tuple[int, ...], dtype: str) -> Callable[[], Foreign]:
        """Return what makes such an array, as `empty` does, for calls that come again."""
        return partial(self.empty, shape, dtype)

    def names(self) -> Mapping[str, Foreign]:
        """Return the objects that `stream` and `current_device` name, besides those here."""
        return {}

    def _own(self, value: object) -> Adapter | None:
        """Return the adapter of an array that may lead a call here: one of another library goes on another stream."""
        found = self._adapter_of(value)
        return found if found is not None and found.name == self.name else None

    def expressions(self) -> Expressions:
        """Return how the fast path asks arrays by their facts."""
        found, own, others = driver(""), Readers(self._own), Readers(self._adapter_of)
        return Expressions(
            facts="(own_reader_of(type({a})) or own_reader({a}))({a})",
            beside="(reader_of(type({a})) or reader({a}))({a})",
            shape="{a}[0]",
            dtype="{a}[1]",
            address="{a}[2]",
            contiguous="{a}[3] is None",
            written="not {a}[4]",
            each="({a}[5] is None or {a}[5] == handle)",
            device="{a}[6]",
            stream=self.stream,
            current_device=self.current_device,
            names={
                "own_reader_of": own.known,
                "own_reader": own.reader,
                "reader_of": others.known,
                "reader": others.reader,
                "stream_of": self.current_stream,
                "current_device": found.current,
                "strides_of": others.strides_of,
                **self.names(),
            },
            maker=self.maker,
            type_of=intern,  # facts name types by interned strings
        )


class Readers:
    """What reads arrays, by their class: `known` finds it; `reader` finds it for a class that was not seen before."""

    def __init__(self, adapter_of: Callable[[object], Adapter | None]) -> None:
        self._adapter_of = adapter_of
        self._by_class: dict[type, Read] = {}
        self.known = self._by_class.get

    def reader(self, value: Foreign) -> Read:
        """Return what reads an array, and note it; raises AttributeError for one that has no facts."""
        found: Read = getattr(self._adapter_of(value), "facts")  # noqa: B009 - None has none
        self._by_class[type(value)] = found
        return found

    def strides_of(self, value: Foreign) -> Foreign:
        """Return an array's strides; for one without facts, what no array has."""
        try:
            return self.reader(value)(value)[3]
        except (AttributeError, LookupError, RuntimeError, TypeError, ValueError):
            return ...


def viewed(where: str, value: Foreign, facts: Facts, stream: int) -> ArrayView:
    """Return the view of an array that told its facts."""
    shape, dtype, address, strides, _, theirs, _, kept = facts
    ordinal = ordinal_of(where, address, shape)
    wait_for(where, ordinal, stream, theirs)
    size = DTYPES[dtype].size_bytes if dtype in DTYPES else 1  # the kernel refuses another
    nbytes = size * math.prod(shape) if strides is None else reach(shape, strides, size)
    made = ArrayView(address, dtype, shape, ordinal, nbytes, value, strides)
    made.kept = kept
    return made


def apart(shape: tuple[int, ...], size: int, strides: Sequence[int] | None) -> tuple[int, ...] | None:
    """Return the strides of an array in bytes; None for a C-contiguous one."""
    if strides is None:
        return None
    strides = tuple(strides)
    key = shape, size, strides
    if (known := _dense.get(key)) is None:
        if len(_dense) >= KEPT:
            _dense.clear()
        known = _dense[key] = _is_dense(*key)
    return None if known else strides


def _is_dense(shape: tuple[int, ...], size: int, strides: tuple[int, ...]) -> bool:
    """Return whether elements of `size` bytes lie one after another."""
    dense: list[int] = []
    nbytes = size
    for extent in reversed(shape):
        dense.insert(0, nbytes)
        nbytes *= extent
    lying = zip(shape, strides, dense, strict=True)
    return not nbytes or all(extent <= 1 or found == wanted for extent, found, wanted in lying)


def home_of(address: int) -> int:
    """Return the ordinal of the GPU that an address belongs to; raises AttributeError for another, 0 included.

    With several GPUs the driver is asked at every call, since memory may come back on another one.
    """
    home = HOMES.get(address)
    if home is None:
        found = driver("")
        try:
            home = found.device_of(address) if address else -1
        except DriverError:
            home = -1
        if home < 0:
            raise AttributeError
        if found.count == 1:
            if len(HOMES) >= KEPT:
                HOMES.clear()
            HOMES[address] = home
    return home


def ordinal_of(where: str, address: int, shape: Sequence[int]) -> int:
    """Return the ordinal of the GPU that an address belongs to; the current one for an array without elements.

    Raises ArgumentError for other memory.
    """
    found = driver(where.partition(":")[0])
    if not address:
        if 0 in shape:
            return found.current()
        raise ArgumentError(f"{where}: expected memory of a GPU, found the address 0 for elements of shape {shape}")
    try:
        return found.device_of(address)
    except DriverError as error:
        raise ArgumentError(f"{where}: expected memory of a GPU, found the address {address:#x} ({error})") from None


def wait_for(where: str, ordinal: int, stream: int, theirs: int | None) -> None:
    """Have a call's stream wait for one that an array names: numba.readthedocs.io, "CUDA Array Interface"."""
    if theirs is None or theirs == stream or {theirs, stream} == {0, LEGACY}:
        return
    found = driver(where.partition(":")[0])
    with found.on(ordinal):
        found.wait(stream, theirs)


def not_writable(where: str, found: str) -> ArgumentError:
    """Return the error for an array that must not be written."""
    return ArgumentError(f"{where}: expected an array that may be written, found {found}; pass another, such as a copy")


def elsewhere(where: str, value: object, place: object, move: str) -> ArgumentTypeError:
    """Return the error for an array that is not on a GPU; `{}` in `move` is its name."""
    moved = move.format(where.rpartition(" ")[2])
    return ArgumentTypeError(
        f"{where}: expected an array on the GPU, found a {kind_of(value)} on {place}; move it with {moved}"
    )
