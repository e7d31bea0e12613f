"""What became of each unit so far: how often it was given out, who has it, and whether to give it to another worker.

Theory of operation. A unit that is given out is a *flight*, of which it may have several. A flight shows signs of life:
the events of its tuning, where the crew passes them on, else its beginning alone. Two things make a flight *stuck*. Its
worker waits for a device that another tuning uses, and has reported so. Or it is late: there was no sign of life for
longer than what the units before it took allows. A unit all of whose flights are stuck is given to another worker, and
the first sound answer counts. A flight that shows a sign of life again is no longer stuck.

What units take is expected by a formula, and learned: `Paces` has the seconds that were spent over those that were
expected, for each kernel, and for all kernels where nothing is known of one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Final

from pretuned.fleet.answers import UnitAnswer
from pretuned.fleet.units import Unit
from pretuned.spec.space import Pairs, Problem
from pretuned.tune.events import Certified, Decided, Event, Passed

FutureAnswer = Future[UnitAnswer]

LATE_TIMES: Final = 8.0  # what a unit takes: the formula is seldom wrong by more, from one kernel to another
LEAST_LATE_S: Final = 120.0
LEAST_SILENT_S: Final = 600.0  # the steps of a tuning have limits of their own, of which a reference has the longest


@dataclass(slots=True, kw_only=True, eq=False)
class Given:
    """A unit, and what became of it.

    `attempts`: how often it was given out. `flights`: those that may still answer. `waits`: it is to be given out, for
    the `reason`, where it was given out before. `answered`: the digest of its answer. `lost`: why it was given up.
    `heard`: what was reported of it.
    """

    unit: Unit
    expected_s: float
    attempts: int = 0
    flights: list[Flight] = field(default_factory=list)
    waits: bool = False
    reason: str = ""
    spare: bool = False  # one of its flights waits for a device: another worker gets it after everything else
    answered: str = ""
    lost: str = ""
    heard: set[Problem | Pairs] = field(default_factory=set)

    @property
    def over(self) -> bool:
        """Whether nobody waits for it any more."""
        return bool(self.answered or self.lost)

    @property
    def in_hand(self) -> bool:
        """Whether some worker is settling it, as far as is known."""
        return any(not flight.stuck for flight in self.flights)

    @property
    def rank(self) -> int:
        """Which units are given out before which: lost ones first, and confirmations last."""
        if self.unit.confirms:
            return 3
        return 2 if self.spare else int(not self.reason)

    def repeats(self, event: Event) -> bool:
        """Whether an event says what another flight of the unit has reported; it counts as reported from now on."""
        match event:
            case Decided(row=row):
                settled: Problem | Pairs = row.problem
            case Passed(entry=entry):
                settled = entry.problem
            case Certified(specialisation=settled):
                pass
            case _:
                return False
        known = settled in self.heard
        self.heard.add(settled)
        return known


@dataclass(slots=True, kw_only=True, eq=False)
class Flight:
    """A unit on its way: `since` has its last sign of life, by time.monotonic(), None before its beginning.

    `standing`: its worker waits for the device; `late`: it has shown no sign of life for too long.
    """

    given: Given
    since: float | None = None
    standing: bool = False
    late: bool = False

    @property
    def stuck(self) -> bool:
        """Whether its unit had better be given to another worker."""
        return self.standing or self.late

    def takes_room(self, *, late: bool | None = None) -> bool:
        """Whether it counts among those for which a crew has room: not a confirmation, and none that is late."""
        return not (self.given.unit.confirms or (self.late if late is None else late))

    def show_life(self, now_s: float, *, standing: bool = False) -> None:
        """Take note of an event; `standing`: that its worker waits."""
        self.since, self.standing, self.late = now_s, standing, False


class Paces:
    """What units took, beside what was expected of them, by kind of device."""

    def __init__(self) -> None:
        self._spent: defaultdict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
        self._slowest: dict[str, float] = {}

    def learn(self, given: Given, seconds: float) -> None:
        """Take in what a unit took that was settled completely."""
        device = given.unit.device.name
        for key in ((device, given.unit.kernel), (device, "")):
            self._spent[key][0] += seconds
            self._spent[key][1] += given.expected_s
        self._slowest[device] = max(self._slowest.get(device, 0.0), seconds / given.expected_s)

    def relative(self, given: Given) -> float:
        """Return how much slower units of its kernel are than those of all kernels, beside what was expected."""
        device = given.unit.device.name
        kernel, every = (self._spent.get((device, name)) for name in (given.unit.kernel, ""))
        if kernel is None or every is None or not every[0]:
            return 1.0
        return (kernel[0] / kernel[1]) / (every[0] / every[1])

    def late(
        self, flying: Mapping[FutureAnswer, Flight], unknown_s: float, least_s: float, now_s: float
    ) -> list[tuple[FutureAnswer, float]]:
        """Return which flights are late from now on, and for how long each might be without a sign of life, in seconds.

        Until a unit of a kind of device is settled, that is `unknown_s`, and then `least_s` at least.
        """
        longest: dict[str, float] = {}  # of those that are out: a worker may have had that before
        for flight in flying.values():
            device = flight.given.unit.device.name
            longest[device] = max(longest.get(device, 0.0), flight.given.expected_s)
        limits = {device: self._limit_s(device, most_s, unknown_s, least_s) for device, most_s in longest.items()}
        found = []
        for answer, flight in flying.items():
            limit_s = limits[flight.given.unit.device.name]
            if flight.since is not None and not flight.stuck and now_s - flight.since > limit_s:
                flight.late = True
                found.append((answer, limit_s))
        return found

    def _limit_s(self, device: str, longest_s: float, unknown_s: float, least_s: float) -> float:
        slowest = self._slowest.get(device)
        if slowest is None:
            return unknown_s
        return max(min(least_s, unknown_s), LATE_TIMES * slowest * longest_s)
