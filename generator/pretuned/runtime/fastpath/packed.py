"""Calls that come again with the very same arrays and numbers, packed once."""

from __future__ import annotations

from ..plans import remember

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..table import Foreign


PACKED = 1024  # calls of one problem


class PackedCalls:
    """What was packed for calls that came again with the very same addresses and numbers: `known` has it by these.

    What is packed is never written again, so all threads may launch it; and alignment and overlap, which addresses
    alone decide, were looked at before. Allocators hand out the same memory time and again, so most calls of a loop
    find theirs. A first time is only noted, so that numbers that change with every call cost little.

    `pack` packs a call, by what `known` has it by; `floats` are the places of real numbers in that.
    """

    __slots__ = ("_floats", "_noted", "_pack", "known")

    def __init__(self, pack: Callable[[tuple[Foreign, ...]], Foreign], floats: Sequence[int]) -> None:
        self.known: dict[tuple[Foreign, ...], Foreign] = {}
        self._noted: dict[tuple[Foreign, ...], None] = {}
        self._pack, self._floats = pack, floats

    def note(self, key: tuple[Foreign, ...]) -> None:
        """Note a call that was right.

        0.0 and NaN are not kept: -0.0 == 0.0 would find the wrong bits, and NaN never matches.
        """
        if key not in self._noted:
            if len(self._noted) >= PACKED:
                self._noted.clear()  # at once: to drop the oldest of a dict at each call costs a microsecond
            self._noted[key] = None
            return
        if any(not (key[place] < 0 or key[place] > 0) for place in self._floats):
            return
        remember(self.known, key, self._pack(key), PACKED)
