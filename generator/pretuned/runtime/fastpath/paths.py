"""The fast path of one kernel and library: opened with the first problem that comes again, and filled with others."""

from __future__ import annotations

from collections import defaultdict
from functools import partial

from ..adapters import handle_of, launch_kernel
from ..blocks import STREAM_AT
from ..driver import DriverError
from ..errors import qualified
from ..overrides import ambient, watched
from ..plans import REMEMBERED, remember
from ..strides import interleaving
from .numbers import floats
from .packed import PackedCalls
from .scratch import ScratchRooms, places
from .source import FastPathSource

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..adapters import Expressions
    from ..blocks import ParameterBlock
    from ..driver import Driver
    from ..overrides import Overrides
    from ..plans import PreparedCall
    from ..table import Foreign, Kernel, Run


LISTED = 32  # arrays of a call with lists that a fast path is written for: it has every pair of them that may overlap


def known_again(kernel: Kernel, moduli: Sequence[int], call: PreparedCall) -> bool:
    """Return whether a fast path can take calls like one: those whose arrays are aligned for all configurations."""
    if kernel.lists and sum(bool(seen.dtype) for seen in call.views) > LISTED:
        return False
    aligned = not any(seen.address % m for seen, m in zip(call.views, moduli, strict=True))
    return aligned and call.usual and bool(call.plan.launches)


class FastPath:
    """A kernel's fast path for the arrays of one library.

    `call` is the function. `memos` holds what it knows, by overrides and key (see `FastPathSource`).
    """

    __slots__ = ("_driver", "_kernel", "_launch_kernel", "_source", "call", "memos")

    def __init__(
        self,
        kernel: Kernel,
        driver: Driver,
        moduli: Sequence[int],
        expressions: Expressions,
        first: PreparedCall,
        slow: Run,
    ) -> None:
        self._kernel, self._driver = kernel, driver
        self._launch_kernel = None if kernel.attributed else launch_kernel()  # which takes no attributes
        self._source = FastPathSource(
            kernel,
            moduli,
            {i: len(seen.shape) for i, seen in enumerate(first.views) if seen.dtype},
            expressions,
            several_gpus=driver.count > 1,
            counted=first.plan.counter is not None,
            direct=self._launch_kernel[1] if self._launch_kernel else None,
        )
        self.memos: defaultdict[Overrides, dict[Foreign, Foreign]] = defaultdict(dict)
        names = {
            "get": self.memos[first.overrides].get,
            "memos": self.memos,
            "active": ambient,
            "launch": driver.launch,
            "handle_of": partial(handle_of, qualified(kernel.name)),
            "slow": slow,
        }
        self.call = self._source.function(first.adapter.name, names, watched=watched())

    def enter(self, call: PreparedCall) -> None:
        """Put the entry of a call's problem into the memo of its overrides, unless it cannot be found there."""
        memo = self.memos[call.overrides]
        source, ask = self._source, self._source.expressions
        strided = [call.arrays[i] for i in source.apart if call.views[i].strides is not None]
        if not all(map(call.adapter.owns, strided)):  # arrays of another library are asked nothing
            return
        extents = [source.extent_of(i, call.views[i].shape) for i in source.deciding]
        distances = [
            None if call.views[i].strides is None else ask.names["strides_of"](call.arrays[i]) for i in source.apart
        ]
        parts = [*([call.ordinal] if source.several_gpus else []), *extents, *distances, *call.keywords]
        key = parts[0] if len(parts) == 1 else tuple(parts)
        slots = {"kind": ask.type_of(call.views[source.typing].dtype), **self._launching(call)}
        slots |= {"counter": call.plan.counter, "pack": self._packing(call)}
        slots |= source.of_numbers(call.plan.numbers)
        for i in source.there:
            seen = call.views[i]
            slots |= {f"t{i}": ask.type_of(seen.dtype), f"e{i}": source.extent_of(i, seen.shape)}
            slots |= {f"x{i}": ask.maker(tuple(seen.shape), ask.type_of(seen.dtype)), f"n{i}": seen.nbytes}
        for i, j in source.interleaved:
            reaching = interleaving(call.views[i], call.views[j])
            slots |= {f"{letter}{i}_{j}": one for letter, one in zip("mlh", reaching, strict=True)}
        slots["next"] = _without(memo.get(key), slots["kind"])
        slots["rest"] = tuple(slots[name] for name in source.rest)
        remember(memo, key, tuple(slots[name] for name in source.slots), REMEMBERED)

    def _packing(self, call: PreparedCall) -> Callable[..., None]:
        """Return what packs a call; where tensor maps may be passed it is the problem's own, which makes them."""
        single = call.plan.single
        if not self._kernel.mapped or single is None:
            return self._source.packing(call.plan.numbers)
        return _without_stream(single.pack_into) if self._launch_kernel else single.pack_into

    def _launching(self, call: PreparedCall) -> dict[str, Foreign]:
        """Return the slots that launch."""
        single = call.plan.single
        if single is None:
            several = self._several(call)
            return {"known": _nothing, "function": None, "note": None, "pool": None, "several": several}
        direct = self._launch_kernel

        def pack(key: tuple[Foreign, ...]) -> ParameterBlock:
            stream, values = (0, key) if direct else (key[0], key[1:])
            block = single.block()
            single.pack_into(block.memory, STREAM_AT, stream, *block.head, *values)
            return block

        packed = PackedCalls(pack, self._floats(call, 0 if direct else 1))
        function = single.directly(direct[0]) if direct else single.function
        return {
            "known": packed.known.get,
            "function": function,
            "note": packed.note,
            "pool": single.pool,
            "several": None,
        }

    def _floats(self, call: PreparedCall, before: int) -> list[int]:
        """Return the places of real numbers among the values of a call, behind `before` others."""
        return floats(self._kernel, call.plan.numbers, before + len(call.views))

    def _several(self, call: PreparedCall) -> Callable[[int, tuple[Foreign, ...], bool], bool]:
        """Return what runs several launches, or one with zeros or scratch; False leaves a call to the slow path."""
        driver, plan = self._driver, call.plan
        launch = self._launch_kernel[0] if self._launch_kernel else None

        def pack(key: tuple[Foreign, ...]) -> Callable[[], int | None]:
            return plan.bound(driver, key[0], key[1:], launch)

        packed = PackedCalls(pack, self._floats(call, 1))
        known, note = packed.known.get, packed.note

        def enqueue(key: tuple[Foreign, ...]) -> bool:
            again = known(key)
            if again is not None:
                return not again()
            if plan.launch(driver, key[0], key[1:]):
                return False
            note(key)
            return True

        if not plan.scratch:
            return lambda handle, values, _current: enqueue((handle, *values))
        rooms = ScratchRooms(driver, call.adapter, call.ordinal, qualified(self._kernel.name))
        begins, nbytes = places(plan.scratch)

        def run(handle: int, values: tuple[Foreign, ...], current: bool) -> bool:
            try:
                room = rooms.take(handle, nbytes, current=current)
            except DriverError:  # a thread without a context, say
                return False
            if room is None:
                return False
            done = enqueue((handle, *values, *[room.address + begin for begin in begins]))
            rooms.give_back(handle, room)
            return done

        return run


def _without(entry: Foreign, kind: Foreign) -> Foreign:
    """Return a chain of entries without the one of a kind."""
    if entry is None:
        return None
    found, behind, *rest = entry
    behind = _without(behind, kind)
    return behind if found is kind else (found, behind, *rest)


def _without_stream(pack_into: Callable[..., None]) -> Callable[..., None]:
    """Return what packs the values of a call alone, by what packs a stream before them."""

    def pack(memory: Foreign, _offset: int, *values: Foreign) -> None:
        pack_into(memory, STREAM_AT, 0, *values)

    return pack


def _nothing(_values: object) -> None:
    """Find no packed block."""
