"""Scratch that is kept for the next call on its stream, so that such a call allocates nothing.

What a call's kernels write into its scratch is read by kernels of the same call alone. So the next call on the stream
may have the same memory: the stream runs it later. That holds as long as

- no other call with that memory enqueues in between. A *room* is taken out of those of its stream for the time in
  which a call enqueues, as parameter blocks are, so threads that share a stream have a room each, with the GIL or
  without it.
- work on the stream runs in the order in which it was enqueued. That of a graph does not: it runs when and where the
  graph is launched, time and again. A call that is captured gets no room; its scratch is allocated for it alone, and
  kept (see `plans`). So graphs share scratch neither with calls nor with one another.
- the handle means one stream. That of the stream of each thread (`PER_THREAD`) means another one in each thread, so its
  rooms are not kept. A handle may come again for a new stream once its stream is destroyed: whoever destroys a stream
  with work in flight and uses another one at once meets the same with the memory pools of CuPy and PyTorch, which know
  freed memory by its stream's handle, too.

Rooms are allocated by the library of the call's arrays, on the stream itself, and go back there: its allocator knows
nothing of other uses, and orders what it does next on that stream behind them. All the rooms of a stream together are
as many as threads enqueued on it at once; each is as large as the largest of its calls asked for, rounded up to a power
of two, and what asks for more than `LARGEST` keeps none. Streams are displaced by others beyond `STREAMS`.
"""

from __future__ import annotations

import threading

from ..adapters import view
from ..plans import remember

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..adapters import Adapter
    from ..driver import Driver
    from ..table import Foreign

LARGEST = 1 << 23  # bytes of a room that is kept
LEAST = 1 << 12
ROOMS = 16  # of a stream
STREAMS = 64
PER_THREAD = 2  # CU_STREAM_PER_THREAD
ALIGNMENT = 256  # bytes, as that of allocators
_lock = threading.Lock()
_kept: dict[tuple[str, int], dict[int, list[ScratchRoom]]] = {}  # by library and device; then by stream


class ScratchRoom:
    """Scratch for one call at a time on one stream.

    Attributes:
        address: Its address.
        nbytes: Its size.
        query: Asks the driver whether the stream is being captured; answers as a launch does.
        captured: Where the answer is then, as its `value`.
    """

    __slots__ = ("_memory", "address", "captured", "nbytes", "query")

    def __init__(self, driver: Driver, stream: int, memory: Foreign, address: int, nbytes: int) -> None:
        self._memory, self.address, self.nbytes = memory, address, nbytes
        self.query, self.captured = driver.capture_query(stream)


class ScratchRooms:
    """The rooms for the calls of one library on one device; `name` begins messages."""

    __slots__ = ("_adapter", "_driver", "_name", "_of_stream", "_ordinal")

    def __init__(self, driver: Driver, adapter: Adapter, ordinal: int, name: str) -> None:
        self._driver, self._adapter, self._ordinal, self._name = driver, adapter, ordinal, name
        self._of_stream = _kept.setdefault((adapter.name, ordinal), {})

    def take(self, stream: int, nbytes: int, *, current: bool) -> ScratchRoom | None:
        """Return a room of at least so many bytes on a stream, the library's current one or not; None under capture.

        Raises DriverError where the stream cannot be asked, and what the library raises where it cannot allocate.
        """
        try:
            room = self._of_stream[stream].pop()
        except (IndexError, KeyError):
            room = None
        if room is None or room.nbytes < nbytes:
            return None if self._driver.capturing(stream) else self._made(stream, nbytes, current=current)
        if not (room.query() or room.captured.value):
            return room
        self.give_back(stream, room)
        return None

    def give_back(self, stream: int, room: ScratchRoom) -> None:
        """Keep a room for the next call on its stream, once all of a call is enqueued."""
        if room.nbytes > LARGEST or stream == PER_THREAD:
            return
        rooms = self._of_stream.get(stream)
        if rooms is None:
            with _lock:  # or two threads would each begin with their own, and one be lost
                rooms = self._of_stream.get(stream, [])
                remember(self._of_stream, stream, rooms, STREAMS)
        if len(rooms) < ROOMS:
            rooms.append(room)

    def _made(self, stream: int, nbytes: int, *, current: bool) -> ScratchRoom:
        if nbytes <= LARGEST:
            nbytes = 1 << (max(LEAST, nbytes) - 1).bit_length()
        with self._adapter.allocating(self._name, self._ordinal, None if current else stream) as empty:
            memory = empty((nbytes,), "uint8")
        address = view(f"{self._name}: scratch", memory, stream).address
        return ScratchRoom(self._driver, stream, memory, address, nbytes)


def places(sizes: Sequence[int]) -> tuple[tuple[int, ...], int]:
    """Return where buffers of these sizes begin in a room, and the bytes of all together."""
    begins, nbytes = [], 0
    for size in sizes:
        begins.append(nbytes)
        nbytes += size + -size % ALIGNMENT
    return tuple(begins), nbytes
