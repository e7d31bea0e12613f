"""What a coordinator is told about workers, and what it brings in."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from pretuned.fleet.units import Unit
from pretuned.tune.confirmation import ConfirmedRow

LATE_S: Final = 900.0
ABSENT_S: Final = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetPolicy:
    """How a coordinator deals with workers: the `attempts` that a unit gets, and when it is late.

    A unit is late after `late_s` seconds as long as nothing is known of what units take. For `absent_s` seconds it
    waits where there is no worker at all, or where all that are out are late. `confirms`: whether one row in ten is
    measured again on a second GPU.
    """

    attempts: int = 3
    late_s: float = LATE_S
    absent_s: float = ABSENT_S
    confirms: bool = True


USUAL: Final = FleetPolicy()


@dataclass(slots=True, kw_only=True)
class Harvest:
    """What a coordinator has brought in, beside the answers that it has handed on.

    `left` are units that the budget did not reach, `given_up` those that were lost each time, with the last reason.
    `duplicates` counts second answers, and `differing` those among them that chose otherwise; `refused` has the last
    reason by worker, `given` the answers that each worker gave, and `spent_s` the seconds that these took.
    `interrupted`: the user ended it.
    """

    left: list[Unit] = field(default_factory=list)
    given_up: list[tuple[Unit, str]] = field(default_factory=list)
    confirmed: list[ConfirmedRow] = field(default_factory=list)
    duplicates: int = 0
    differing: int = 0
    refused: dict[str, str] = field(default_factory=dict)
    given: Counter[str] = field(default_factory=Counter)
    spent_s: dict[str, float] = field(default_factory=dict)
    interrupted: bool = False
