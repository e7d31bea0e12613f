"""What is known about one kernel's candidates from earlier builds and from this one, in the user cache.

Each entry has a key of everything that it depends on: device, driver, compiler, the candidate's text and launch, how it
is judged and timed. What a key stands for never changes, so no entry is ever out of date.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from pretuned.measure.libraries import release
from pretuned.outcome import Crashed, Outcome, Timed, TimedOut, WrongResult, detail, from_json, to_json
from pretuned.record.cache import Cache, Subject
from pretuned.record.entries import row_from_json, row_to_json
from pretuned.record.fields import FieldError, within
from pretuned.record.rows import Row, TunedDevice
from pretuned.record.selection_entries import selection_from_json, selection_to_json
from pretuned.record.selections import Selection
from pretuned.remedies import of_memory
from pretuned.render import Candidate, digest
from pretuned.runtime import prelude
from pretuned.spec.model import KernelSpec
from pretuned.spec.space import Configuration, Problem

PROTOCOL: Final = 4  # of tuning: raised when earlier outcomes or rows no longer mean the same
SELECTING: Final = 7  # how rows and selections are made: raised when the same times give others
QUARANTINED: Final = (
    Crashed,
    TimedOut,
    WrongResult,
)  # a candidate that failed so at one problem is not tried at any other


def context_of(
    spec: KernelSpec, name: str, device: TunedDevice, driver: str, compiler: str, verification: str
) -> list[object]:
    """Return what everything measured of a kernel depends on besides the candidate, as plain data.

    `name` is what rows call the device, and `verification` the digest of how results are judged.
    """
    calls = (implementation.call for implementation in spec.all_implementations.values())
    libraries = sorted({release(call.module) for call in calls if call is not None})
    return [[name, device.sm_count, device.compute_capability, driver], compiler, verification, *libraries]


class KnownResults:
    """Keeps outcomes, checks, times, rows and selections in `cache`.

    `context` returns plain data: what all of them depend on besides the candidate. `candidate` returns the candidate of
    a configuration. `subject` is the kernel and the device that the cache lists them under.
    """

    def __init__(
        self,
        cache: Cache,
        context: Callable[[], list[object]],
        candidate: Callable[[Configuration], Candidate],
        subject: tuple[str, str],
    ) -> None:
        self._cache = cache
        self._subject = Subject(kernel=subject[0], device=subject[1])
        self._context = context
        self._candidate = candidate
        self._free: set[Configuration] = set()  # known not to be in quarantine: looked up once, not at every problem

    def outcome(self, configuration: Configuration, problem: Problem) -> Outcome | None:
        """Return the outcome of a candidate at a problem, or the failure that it is in quarantine for."""
        found = self._cache.outcome(self._at(configuration, problem, "screen"))
        if found is not None or configuration in self._free:
            return found
        data = self._cache.record(self._quarantine(configuration))
        if data is not None:
            return from_json(data)
        self._free.add(configuration)
        return None

    def keep(self, configuration: Configuration, problem: Problem, outcome: Outcome) -> None:
        """Keep an outcome; a candidate that crashed, hung or was wrong goes into quarantine.

        What failed for want of memory is not kept: how much is free is the doing of other programs. Nor is a wrong
        result of a library function: some ignore that memory is short, and say nothing of it.
        """
        if not isinstance(outcome, Timed) and of_memory(detail(outcome)):
            return
        if isinstance(outcome, WrongResult) and self._candidate(configuration).source is None:
            return
        self._cache.put_outcome(self._at(configuration, problem, "screen"), outcome, self._subject)
        if isinstance(outcome, QUARANTINED):
            self._free.discard(configuration)
            self._cache.put_record(self._quarantine(configuration), to_json(outcome), self._subject)

    def checked(self, configuration: Configuration, problem: Problem, seed: int) -> bool:
        """Return whether a configuration was found right at `problem` with these inputs."""
        return self._cache.record(self._at(configuration, problem, f"check {seed}")) is not None

    def keep_check(self, configuration: Configuration, problem: Problem, seed: int, error: float) -> None:
        """Keep that it was right, and its largest error as a share of the tolerance."""
        self._cache.put_record(self._at(configuration, problem, f"check {seed}"), {"error": error}, self._subject)

    def times(
        self, problem: Problem, racing: Sequence[Configuration], rounds: int
    ) -> dict[Configuration, float] | None:
        """Return the times of a race at `problem` between these candidates, in microseconds a call."""
        data = self._cache.record(self._race(problem, racing, rounds))
        try:
            return None if data is None else {racing[int(place)]: float(us) for place, us in data.items()}
        except (IndexError, TypeError, ValueError):
            return None  # written by another version

    def keep_times(
        self, problem: Problem, racing: Sequence[Configuration], rounds: int, times_us: Mapping[Configuration, float]
    ) -> None:
        """Keep the times of a race; what failed in it is left out."""
        found = {str(place): times_us[c] for place, c in enumerate(racing) if c in times_us}
        self._cache.put_record(self._race(problem, racing, rounds), found, self._subject)

    def selection(self, chosen_from: Sequence[object]) -> Selection | None:
        """Return the selection that was made from the same choice."""
        data = self._cache.record(self._selection(chosen_from))
        try:
            found = None if data is None else within("", selection_from_json, data)
        except FieldError:
            return None  # written by another version
        return None if found is None else replace(found, kernel=self._subject.kernel)  # a copy has the same key

    def keep_selection(self, selection: Selection, chosen_from: Sequence[object]) -> None:
        """Keep a selection that was made with time for all of it."""
        self._cache.put_record(self._selection(chosen_from), selection_to_json(selection), self._subject)

    def row(self, problem: Problem, chosen_from: Sequence[object]) -> Row | None:
        """Return the row that was settled at `problem` from the same choice."""
        data = self._cache.record(self._row(problem, chosen_from))
        try:
            found = None if data is None else within("", row_from_json, data)
        except FieldError:
            return None  # written by another version
        return None if found is None else replace(found, kernel=self._subject.kernel)  # a copy has the same key

    def keep_row(self, row: Row, chosen_from: Sequence[object]) -> None:
        """Keep a settled row."""
        self._cache.put_record(self._row(row.problem, chosen_from), row_to_json(row), self._subject)

    def _key(self, *parts: object) -> str:
        return digest([PROTOCOL, prelude.VERSION, *self._context(), *parts])

    def _at(self, configuration: Configuration, problem: Problem, what: str) -> str:
        return self._key(what, self._candidate(configuration).key, problem.dims)

    def _quarantine(self, configuration: Configuration) -> str:
        return self._key("quarantine", self._candidate(configuration).key)

    def _race(self, problem: Problem, racing: Sequence[Configuration], rounds: int) -> str:
        keys = [self._candidate(configuration).key for configuration in racing]
        return self._key("race", keys, rounds, problem.specialisation, problem.dims)

    def _selection(self, chosen_from: Sequence[object]) -> str:
        return self._key(f"selection {SELECTING}", *chosen_from)

    def _row(self, problem: Problem, chosen_from: Sequence[object]) -> str:
        return self._key(f"row {SELECTING}", *chosen_from, problem.specialisation, problem.dims)
