"""The seam between the bench and what runs candidates: a GPU (`cuda`), or the host itself (`host`).

A machine has memory for buffers, loads candidates, calls them, times them, and answers checks about what memory holds.
Everything else, from inputs and guard bands to verdicts and their messages, is the bench's and the same for all.
Addresses are the machine's own; what is asked of it happens in order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

from pretuned.errors import Error
from pretuned.measure.data import HostArray
from pretuned.measure.launch import BoundLaunch, BoundScalar
from pretuned.measure.regions import CallBuffers, Room
from pretuned.outcome import Crashed, LaunchFailed
from pretuned.spec.library import LibraryCall
from pretuned.spec.space import DeviceFacts


class OutOfMemory(Error):  # noqa: N818 - the term
    """A problem does not fit in the share of the free device memory that measuring may take.

    `passing` says that it would, were it not for what others hold now.
    """

    def __init__(self, message: str, *, passing: bool = False) -> None:
        super().__init__(message)
        self.passing = passing


class Refused(Exception):  # noqa: N818 - an outcome on its way, caught where candidates are tried
    """The machine refused to load or run a candidate, or gave it up; `outcome` says why."""

    def __init__(self, outcome: LaunchFailed | Crashed) -> None:
        super().__init__(outcome.message)
        self.outcome = outcome


class Poisoned(Exception):  # noqa: N818 - the same
    """A candidate has left the machine unusable: nothing more can run in this process."""


class ByteFill(NamedTuple):
    """Set the bytes from `address` on to `value`."""

    address: int
    nbytes: int
    value: int


class ByteCopy(NamedTuple):
    """Copy bytes from `source` to `address`."""

    address: int
    source: int
    nbytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Unlike:
    """Is every byte from `address` on `value`?"""

    address: int
    nbytes: int
    value: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Unequal:
    """Are the bytes at two addresses the same?"""

    address: int
    other: int
    nbytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Off:
    """Do `size` elements of `dtype` agree with those at `reference`: wide for a floating type, else the same type?

    They do where |out - ref| <= atol + rtol * |ref|, where both are the same infinity, and where both are NaN. The
    difference of integers is exact, over the whole range of their type; what is allowed is worked out in float64.
    """

    address: int
    dtype: str
    reference: int
    size: int
    rtol: float
    atol: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Digest:
    """What are the bytes? The answer's `count` is a number of 64 bits that any change of them changes."""

    address: int
    nbytes: int


Check = Unlike | Unequal | Off | Digest


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """The answer: the first place that is wrong (None: none is), how many are, and how far off.

    `worst` is the largest error of what is right, as a share of the tolerance; `largest` the largest finite error of
    what is wrong, 0 where there is none.
    """

    first: int | None
    count: int
    worst: float
    largest: float = 0  # of integers an int


class Memory(Protocol):
    """Memory of a machine, freed when nothing refers to it."""

    @property
    def address(self) -> int:
        """Where it begins; aligned to 512 bytes."""
        ...

    @property
    def sealed(self) -> bool:
        """Whether nothing that runs can write to it any more."""
        ...

    def seal(self) -> None:
        """Keep it from being written, if the machine can."""


class Enclosure(Protocol):
    """Memory for buffers of candidates, which is freed when nothing refers to it, and holes around it."""

    @property
    def rooms(self) -> Sequence[Room]:
        """A room for each buffer, in order."""
        ...


class DeviceArrays(Protocol):
    """Arrays of a library over a machine's memory; what it does happens in the order of the machine's own work."""

    @property
    def namespace(self) -> Any:  # noqa: ANN401 - a module
        """The library, a module with NumPy's functions."""
        ...

    def widened(self, address: int, dtype: str, shape: tuple[int, ...]) -> Any:  # noqa: ANN401 - an array of it
        """Return what lies at an address as a new array, in its wide type; raises OutOfMemory."""
        ...

    def put(self, array: Any, address: int) -> None:  # noqa: ANN401 - an array of it
        """Copy a contiguous array to an address."""

    def release(self) -> None:
        """Give back the memory that no array holds any more."""


class MachineMemory(Protocol):
    """The memory of a machine, and what it can answer about it. What is asked of it happens in order."""

    @property
    def arrays(self) -> DeviceArrays | None:
        """A library that computes on the machine; None where NumPy is as fast."""
        ...

    @property
    def gap_bytes(self) -> int:
        """How far buffers may lie from each other at random, in bytes, a multiple of 512."""
        ...

    def free_bytes(self) -> int:
        """Return how much memory buffers may still take."""
        ...

    def held_bytes(self) -> int:
        """Return how much memory is taken, by other programs as well; 0 where it cannot be given back."""
        ...

    def allocate(self, nbytes: int) -> Memory:
        """Return memory for what candidates must not touch; raises OutOfMemory."""
        ...

    def enclose(self, sizes: Sequence[int]) -> Enclosure:
        """Return a room of at least so many bytes for each of `sizes`; raises OutOfMemory."""
        ...

    def trim(self) -> None:
        """Give memory that nothing refers to back."""

    def sets_wanted(self, set_bytes: int) -> int:
        """Return how many sets of buffers timing rotates through, for a call that touches `set_bytes`."""
        ...

    def fill(self, address: int, value: int, nbytes: int) -> None:
        """Set bytes to `value`."""

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Copy bytes on the machine."""

    def copy_rows(self, target: int, source: int, *, pitches: tuple[int, int], row_bytes: int, rows: int) -> None:
        """Copy rows of bytes on the machine, which begin so many bytes apart at the target and at the source."""

    def put(self, tasks: Sequence[ByteFill | ByteCopy]) -> None:
        """Fill and copy memory; of so many at once in any order, so none may touch what another one does."""

    def write(self, address: int, array: HostArray) -> None:
        """Copy a contiguous array to the machine."""

    def read(self, address: int, array: HostArray) -> None:
        """Fill a contiguous array from the machine, once all before is done."""

    def ask(self, checks: Sequence[Check]) -> list[CheckResult]:
        """Return the answers to `checks`."""
        ...

    def rms(self, address: int, size: int) -> float:
        """Return the root of the mean of the squares of the finite ones of `size` float64; 0 if there are none."""
        ...

    def widen(self, address: int, dtype: str, size: int, target: int) -> None:
        """Write `size` elements of floating `dtype` to `target` in its wide type."""


class LoadedKernel(Protocol):
    """The launches of one candidate at one problem, ready for its sets of buffers."""

    def unload(self) -> None:
        """Free what it takes."""


K = TypeVar("K", bound=LoadedKernel)


class Sample(NamedTuple):
    """One sample of a kernel: microseconds a call, and those that the device was busy for it."""

    time_us: float
    device_us: float


Sampler = Callable[[], Callable[[], Sample]]  # begins one sample, and returns what waits for it


class Machine(MachineMemory, Protocol[K]):
    """What runs candidates; `K` are its kernels, each of which is timed with the same `buffers`.

    A method that meets a bad candidate raises Refused, or Poisoned where nothing more can run.
    """

    @property
    def facts(self) -> DeviceFacts:
        """What expressions may ask of it."""
        ...

    def held(self, image: bytes, launch: BoundLaunch) -> int:
        """Return the most blocks of a launch of a candidate that it holds at once, whatever the grid."""
        ...

    def load(
        self,
        image: bytes,
        launches: Sequence[BoundLaunch],
        scalars: Sequence[BoundScalar],
        *,
        types: Mapping[str, str],
    ) -> K:
        """Load a candidate; `types` are the element types of the arrays that it may be called with."""
        ...

    def relaunched(self, kernel: K, launches: Sequence[BoundLaunch], scalars: Sequence[BoundScalar]) -> K:
        """Return a loaded candidate with other extents and scalars; it is unloaded with `kernel`."""
        ...

    def load_call(self, call: LibraryCall, buffers: CallBuffers, *, output: str) -> K:
        """Load a library function that writes `output`; it may be tried at set 0 of `buffers`."""
        ...

    def call(self, kernel: K, buffers: CallBuffers, index: int) -> None:
        """Call a kernel on set `index`: initial values, then its launches."""

    def call_behind_writers(self, kernel: K, buffers: CallBuffers, index: int) -> None:
        """Call a kernel as `call` does, where a launch with `overlap` that does not wait gives a wrong result."""

    def synchronize(self) -> None:
        """Wait until all calls are done."""

    def screen(self, kernel: K, buffers: CallBuffers, best_us: float) -> tuple[list[float], list[int], float]:
        """Return samples of a kernel in microseconds a call, the sets it ran on last, and the device's seconds.

        A kernel that is clearly slower than `best_us` gets fewer samples.
        """
        ...

    def canary_us(self) -> float:
        """Return what a kernel takes whose time shows whether the clocks hold; 0 where there is none."""
        ...

    def samplers(self, calls: Sequence[tuple[K, CallBuffers]], estimates_us: Sequence[float]) -> Sequence[Sampler]:
        """Return what takes samples of each kernel in a race, alike for all.

        `estimates_us` is what a call of each is expected to take. A round begins one sample of each kernel before it
        waits for any, so that a device need not stand idle in between.
        """
        ...


def zero(machine: MachineMemory, buffers: CallBuffers, index: int) -> None:
    """Set to zero what a call on set `index` finds so."""
    for region in buffers.zeroed[index]:
        machine.fill(region.address, 0, region.buffer.nbytes)


def restore(machine: MachineMemory, buffers: CallBuffers, index: int) -> None:
    """Give the in-out arrays of set `index` their values of before the call again."""
    for region in buffers.changed[index]:
        assert region.pristine is not None  # the inputs have values
        machine.copy(region.address, region.pristine, region.buffer.nbytes)
