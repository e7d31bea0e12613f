"""What waits to be given out, by kind of device: lost units first, then what will take longest, confirmations last."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from typing import Final

from pretuned.fleet.flights import Given, Paces

SORTED: Final = 200  # units that are put in order by what was learned: of more, it changes little which ends last


class UnitQueues:
    """The units that wait; `learned` has the kinds of devices of which more is known since theirs were put in order."""

    def __init__(self, paces: Paces) -> None:
        self.learned: set[str] = set()
        self._paces = paces
        self._waiting: dict[str, deque[Given]] = {}
        self._expected_ms: Counter[str] = Counter()  # whole numbers, which add up

    @property
    def devices(self) -> tuple[str, ...]:
        """The kinds of devices that anything has waited for."""
        return tuple(self._waiting)

    def any_open(self, *, confirming: bool) -> bool:
        """Return whether a unit waits that is not over: one that confirms rows, or one that does not."""
        listed = (given for waiting in self._waiting.values() for given in waiting)
        return any(bool(given.unit.confirms) == confirming and not given.over for given in listed)

    def any_of(self, device: str) -> bool:
        """Whether anything waits for a kind of device."""
        return bool(self._waiting[device])

    def expected_s(self, device: str) -> float:
        """Return what the units are expected to take that wait for a kind of device."""
        return self._expected_ms[device] / 1000

    def add(self, given: Given) -> None:
        """Have a unit wait: before the others if it was lost."""
        waiting = self._waiting.setdefault(given.unit.device.name, deque())
        given.waits = True
        self._expected_ms[given.unit.device.name] += round(1000 * given.expected_s)
        if given.rank == 0:
            waiting.appendleft(given)
        else:
            waiting.append(given)

    def take(self, device: str, *, full: bool) -> Given | None:
        """Return the next unit that is to be given out, None if there is none.

        `full`: there is room for confirmations alone. These wait for a certain worker, and keep no other from work.
        """
        waiting = self._waiting[device]
        if device in self.learned and len(waiting) <= SORTED:
            self.learned.discard(device)
            listed = sorted(waiting, key=lambda one: (one.rank, -one.expected_s * self._paces.relative(one)))
            self._waiting[device] = waiting = deque(listed)
        while waiting and (waiting[0].unit.confirms or not full):
            given = waiting.popleft()
            given.waits = False
            self._expected_ms[device] -= round(1000 * given.expected_s)
            if not (given.over or given.in_hand):
                return given
        return None

    def emptied(self, device: str | None) -> Iterator[Given]:
        """Yield what waits for a kind of device, or for any: it waits no more."""
        for name, waiting in self._waiting.items():
            if device in {None, name}:
                self._expected_ms[name] = 0
                while waiting:
                    given = waiting.popleft()
                    given.waits = False
                    yield given
