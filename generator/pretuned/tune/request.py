"""What is to be tuned, and the device that it is tuned for."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from pretuned.backends import Backend, FoundDevice, SilentDevice, named
from pretuned.config import GPU, Effort, Place
from pretuned.diagnostics import Reporter
from pretuned.record.rows import TunedDevice
from pretuned.record.selections import Selection
from pretuned.spec.model import KernelSpec
from pretuned.spec.space import Configuration, DeviceFacts, Pairs, Problem
from pretuned.strategies import EVALUATIONS, EXHAUSTIVE_LIMIT


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningRequest:
    """What to tune of one kernel: `problems`, and the ranked configurations of the rows that some of them have now.

    `calls` says how often problems of any size were called, by which they weigh. `selections` are those that the lock
    has for the device; where certificates are renewed, they are what is certified, and `problems` is empty.
    `select` names specialisations whose selection is made although no problem of theirs is asked for. `suggested` are
    configurations that won at the same sizes elsewhere, on other devices or in other specialisations; they are tried
    early.
    """

    spec: KernelSpec
    problems: tuple[Problem, ...]
    incumbents: Mapping[Problem, tuple[Configuration, ...]] = field(default_factory=dict)
    calls: Mapping[Problem, int] = field(default_factory=dict)
    selections: tuple[Selection, ...] = ()
    select: tuple[Pairs, ...] = ()
    suggested: Mapping[Problem, tuple[Configuration, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class EffortProfile:
    """How thoroughly candidates are timed: the most rounds of races, and of duels at each place.

    Then the problems that are drawn for a selection: at which all candidates are screened (for one free dim, and half
    as many more for each further one), at which what may ship races (for each free dim), and those of a certificate;
    the most seconds that the first two may take; and how often a selection is refined at most whose certificate says
    much, though no `max-loss` is asked for.

    Then how much of a space is tried: all of one with at most `exhaustive` configurations, `evaluations` of a larger
    one. The first `searching_s` seconds of a search are free. Beyond them it goes on as long as what another batch is
    expected to gain is worth the batch's seconds: being faster by a factor e is worth `worth_s`, being 1% faster a
    hundredth of that.
    """

    name: Effort = "default"
    race_rounds: int = 11
    duel_rounds: int = 5
    surveyed_problems: int = 10
    tried_problems: int = 40
    certified_problems: int = 20
    selecting_s: float = 20.0
    refinements: int = 2
    exhaustive: int = EXHAUSTIVE_LIMIT
    evaluations: int = EVALUATIONS
    searching_s: float = 15.0
    worth_s: float = 600.0


GPU_PROFILE: Final = EffortProfile()
FAST: Final = EffortProfile(
    name="fast",
    race_rounds=7,
    duel_rounds=2,
    surveyed_problems=3,
    tried_problems=4,
    certified_problems=8,
    selecting_s=6.0,
    refinements=0,
    exhaustive=128,
    evaluations=256,
    searching_s=2.0,
    worth_s=240.0,
)
THOROUGH: Final = EffortProfile(
    name="thorough",
    race_rounds=15,
    surveyed_problems=16,
    tried_problems=60,
    certified_problems=40,
    selecting_s=60.0,
    exhaustive=5_000,
    evaluations=2048,
    searching_s=math.inf,
)
PROFILES: Final[Mapping[Effort, EffortProfile]] = {"fast": FAST, "default": GPU_PROFILE, "thorough": THOROUGH}
# Where times mean nothing for a GPU, as on the host: enough to settle an order, through every step of a tuning.
TRIAL_PROFILE: Final = EffortProfile(
    race_rounds=3,
    duel_rounds=1,
    surveyed_problems=2,
    tried_problems=5,
    certified_problems=2,
    selecting_s=4.0,
    refinements=0,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningDevice:
    """A device as rows record it, the version of its driver (of the host: its processor), and its place."""

    record: TunedDevice
    driver: str
    place: Place = GPU
    effort: EffortProfile | None = None

    @property
    def name(self) -> str:
        """The name that rows have for it."""
        return self.record.name

    @property
    def profile(self) -> EffortProfile:
        """How thoroughly it is tuned for: as `effort` says, or else as is usual for its backend."""
        return self.effort or (GPU_PROFILE if self.backend.ships else TRIAL_PROFILE)

    @property
    def unusual_effort(self) -> str:
        """The name of the effort that it is tuned for with; "" for the default one."""
        return "" if self.profile.name == "default" else self.profile.name

    def at(self, effort: Effort) -> TuningDevice:
        """Return the device as it is tuned for with an effort; where times mean nothing, only searches differ."""
        profile = PROFILES[effort]
        if self.effort is not None or effort == "default":
            return self
        searched = replace(
            TRIAL_PROFILE,
            name=effort,
            exhaustive=profile.exhaustive,
            evaluations=profile.evaluations,
            searching_s=profile.searching_s,
            worth_s=profile.worth_s,
        )
        return replace(self, effort=profile if self.backend.ships else searched)

    def held_to(self, max_loss: float | None) -> float | None:
        """Return the table's `max-loss` where it holds for this device: not where times mean nothing for a GPU."""
        return max_loss if self.backend.ships else None

    @property
    def backend(self) -> Backend:
        """What runs candidates on it."""
        return named(self.place.backend)

    @property
    def facts(self) -> DeviceFacts:
        """What expressions may ask of it."""
        return DeviceFacts(
            sm_count=self.record.sm_count,
            compute_capability=self.record.compute_capability,
            shared_bytes=self.record.shared_bytes,
            l2_bytes=self.record.l2_bytes,
            one_by_one=not self.record.is_gpu,
        )


def find_device(place: Place, known: Mapping[str, TunedDevice]) -> TuningDevice | None:
    """Return the device at `place`, which may be the first one that answers; None if there is none.

    A device is known by its name, SM count and compute capability. One that shares only its name with a device of
    `known`, such as a partition of it, is named with its SM count as well.
    """
    found, index = named(place.backend).find(place.index), place.index
    while place.every and isinstance(found, SilentDevice):
        index += 1
        found = named(place.backend).find(index)
    if not isinstance(found, FoundDevice):
        return None
    record = found.record
    other = known.get(record.name)
    if record.is_gpu and other is not None and not other.is_same_as(record):
        record = replace(record, name=record.qualified_name)
    return TuningDevice(record=record, driver=found.driver, place=replace(place, index=index, every=False))


def warn_of_silent(place: Place, reporter: Reporter) -> None:
    """Warn of the devices at `place`, which may be all of them, that are there and do not answer."""
    backend = named(place.backend)
    for index in itertools.count(place.index):
        found = backend.find(index)
        if isinstance(found, SilentDevice):
            text = f"{backend.label(index)} does not answer, and is left out: {found.reason}"
            reporter.warning(text, remedy=found.remedy)
        if found is None or not place.every:
            return


def label(place: Place) -> str:
    """Return what messages call the device at `place`, such as `GPU 0`."""
    return named(place.backend).label(place.index)
