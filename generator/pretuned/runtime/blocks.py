"""Parameter blocks: the memory that the driver reads for a launch, and launches that are ready but for a call's values.

`cuLaunchKernelEx` reads a configuration (CUlaunchConfig) and, through an array of addresses, the parameters. Both stand
in one *block*: the configuration, the values that calls bring (in words of 8 bytes: arrays, numbers, scratch), the
constants of the problem, tensor maps, the addresses. Its stream is the configuration's fifth word, just before the
values but for 16 bytes of zeros, so that one `pack_into` writes all that a call changes, but for maps.

The driver reads a block while other threads run. So a block is taken out of its plan's pool for the time of a launch,
and a call that finds the pool empty makes another one: no block is ever shared, with the GIL or without it.
"""

from __future__ import annotations

from ctypes import addressof, c_char, c_void_p, create_string_buffer
from functools import partial

from .launching import ATTRIBUTE_BYTES, CONFIGURATION
from .scalars import struct_of
from .tensor_maps import MAP_ALIGNMENT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .table import Foreign

STREAM_AT = 32
VALUES_AT = CONFIGURATION.size
SLOT = 8


class ParameterBlock:
    """What the driver reads for a launch: the memory, and in it the configuration and the addresses of the parameters.

    `address` is that of the addresses as a number. `head` is what is packed between the stream and the values: where
    the attributes stand and how many they are, or nothing. A class with slots, since the fast path reads these
    attributes at every call.
    """

    __slots__ = ("_attributes", "address", "addresses", "configuration", "head", "memory")

    def __init__(
        self, memory: Foreign, configuration: int, address: int, head: tuple[int, ...] = (), listed: Foreign = None
    ) -> None:
        self.memory, self.address, self.head = memory, address, head
        self.configuration, self.addresses = c_void_p(configuration), c_void_p(address)
        self._attributes = listed  # they have to live as long as what reads them


class PreparedLaunch:
    """A launch that is ready but for the values of a call: its function, its blocks, and how they are packed.

    `listed` are its attributes; None if no launch of the kernel can have any, so that none are packed. With `aligned`
    its blocks begin where tensor maps in them are aligned.
    """

    __slots__ = (
        "_addresses",
        "_aligned",
        "_attributes",
        "_content",
        "_head",
        "_slots",
        "function",
        "pack_into",
        "pool",
    )

    def __init__(
        self,
        function: int,
        content: bytes,
        pack_into: Callable[..., None],
        listed: bytes | None = None,
        *,
        aligned: bool = False,
    ) -> None:
        self.function, self.pack_into, self._content = c_void_p(function), pack_into, content
        self._aligned = aligned
        self._attributes = create_string_buffer(listed, len(listed)) if listed else None
        self._head: tuple[int, ...] = ()
        if listed is not None:
            at = addressof(self._attributes) if self._attributes is not None else 0
            self._head = at, len(listed) // ATTRIBUTE_BYTES
        self._slots: tuple[int, ...] = ()
        self._addresses = struct_of("")
        self.pool: list[ParameterBlock] = []

    def take(self, slots: Sequence[int]) -> None:
        """Fix which values the entry point takes, by where they begin: those of a call first, then the constants."""
        self._slots = tuple(slots)
        self._addresses = struct_of(f"={len(slots)}Q")
        self.pool.append(self.block())

    def block(self) -> ParameterBlock:
        """Return a new block; it has to outlive the launch."""
        memory = self._memory(len(self._content) + SLOT * max(1, len(self._slots)))
        base = addressof(memory)
        values = base + VALUES_AT
        self._addresses.pack_into(memory, len(self._content), *[values + slot for slot in self._slots])
        addresses = base + len(self._content)
        return ParameterBlock(memory, base, addresses, self._head, self._attributes)

    def _memory(self, nbytes: int) -> Foreign:
        """Return memory that begins with the content; what has tensor maps begins where these are aligned."""
        if not self._aligned:
            return create_string_buffer(self._content, nbytes)
        room = create_string_buffer(nbytes + MAP_ALIGNMENT)
        memory: Foreign = (c_char * nbytes).from_buffer(room, -addressof(room) % MAP_ALIGNMENT)
        memory[: len(self._content)] = self._content
        return memory

    def directly(self, launch: Foreign) -> Foreign:
        """Return what launches by CuPy's `launchKernel`, given stream, a block's `address`, and 0."""
        *extents, _, _, _ = CONFIGURATION.unpack_from(self._content)
        return partial(launch, self.function.value, *extents)

    def taken(self) -> ParameterBlock:
        """Return a block that no other call has; put it back into `pool` after the launch."""
        try:
            return self.pool.pop()
        except IndexError:
            return self.block()
