"""Calls that come again with the very same arrays and numbers, packed once."""

from __future__ import annotations

from ..blocks import STREAM_AT
from ..plans import remember

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..blocks import ParameterBlock, PreparedLaunch
    from ..table import Foreign


PACKED = 1024  # calls of one problem


class PackedCalls:
    """Blocks of calls that came again with the very same addresses and numbers: `known` has them by these.

    Such a block is never written again, so all threads may launch it; and alignment and overlap, which addresses alone
    decide, were looked at before. Allocators hand out the same memory time and again, so most calls of a loop find
    theirs. A first time is only noted, so that numbers that change with every call cost little.
    """

    __slots__ = ("_floats", "_noted", "_prepared", "_stream", "known")

    def __init__(self, prepared: PreparedLaunch, floats: Sequence[int], *, stream: bool) -> None:
        self.known: dict[tuple[Foreign, ...], ParameterBlock] = {}
        self._noted: dict[tuple[Foreign, ...], None] = {}
        self._prepared, self._floats, self._stream = prepared, floats, stream

    def note(self, key: tuple[Foreign, ...]) -> None:
        """Note a call that was right: its stream, if blocks hold one, then what is packed.

        0.0 and NaN are not kept: -0.0 == 0.0 would find the wrong bits, and NaN never matches.
        """
        if key not in self._noted:
            remember(self._noted, key, None, PACKED)
            return
        if any(not (key[place] < 0 or key[place] > 0) for place in self._floats):
            return
        stream, values = (key[0], key[1:]) if self._stream else (0, key)
        block = self._prepared.block()
        self._prepared.pack_into(block.memory, STREAM_AT, stream, *block.head, *values)
        remember(self.known, key, block, PACKED)
