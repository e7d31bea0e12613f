"""Units: what one worker settles by itself, as plain data.

A unit is one kernel at one specialisation, with all of its problems that are wanted: what is compared with each other
stays on one device. It holds what the worker needs and nothing of the coordinator: the request, the kind of device that
is asked for, and the kernel's files where the worker runs on another machine. Instead of tuning it may ask that rows of
another worker are measured again.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Final

from pretuned.fleet.sources import KernelFiles
from pretuned.record.rows import Row
from pretuned.spec.model import ImplementationSpec
from pretuned.spec.space import Pairs
from pretuned.strategies import EVALUATIONS
from pretuned.tune.request import TuningDevice, TuningRequest
from pretuned.tune.workbench import Demands
from pretuned.version import __version__

# What parts of a unit take, in the seconds of a GPU with a few cores beside it: enough to say which unit takes longest.
SOURCE_S: Final = 0.04
ROW_S: Final = 0.3
SELECTION_S: Final = 2.5  # for each free dim
KERNEL_S: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """What one worker settles: `request` is for one specialisation, on a device of the kind of `device`.

    `compiler` is the version that binaries must be made with, empty for any. `budget_s` bounds its seconds, and
    `patience_s` those of waiting for another tuning of its device; None: as long as it takes. With `files` None the
    kernel's folder is on the worker's machine, and `cache_folder` the user cache there; otherwise the worker has its
    own. `confirms` are rows to measure again instead of tuning, on another GPU than the one that `not_on` names.
    """

    request: TuningRequest
    device: TuningDevice
    demands: Demands
    compiler: str = ""
    budget_s: float | None = None
    patience_s: float | None = None
    files: KernelFiles | None = None
    cache_folder: Path | None = None
    confirms: tuple[Row, ...] = ()
    not_on: str = ""
    version: str = __version__

    @property
    def kernel(self) -> str:
        """The kernel's name."""
        return self.request.spec.name

    @property
    def rows(self) -> int:
        """How many rows it is to settle."""
        return len(self.request.problems)

    @property
    def specialisations(self) -> frozenset[Pairs]:
        """The specialisations that it is of: one."""
        request = self.request
        problems = (problem.specialisation for problem in request.problems)
        return frozenset([*problems, *(rule.specialisation for rule in request.selections), *request.select])

    @property
    def expected_s(self) -> float:
        """What it is expected to take: by this units are ordered, and shares of a budget are given."""
        if self.confirms:
            return ROW_S * len(self.confirms)
        sources = sum(_configurations(one) for one in self.request.spec.all_implementations.values())
        selects = SELECTION_S * len(self.request.spec.free_dims) * bool(self.device.profile.tried_problems)
        return KERNEL_S + SOURCE_S * min(sources, EVALUATIONS) + ROW_S * self.rows + selects

    def confirming(self, rows: tuple[Row, ...], *, not_on: str) -> Unit:
        """Return a unit that measures rows of this one again, on another GPU than the one named."""
        request = TuningRequest(spec=self.request.spec, problems=())
        return replace(self, request=request, confirms=rows, not_on=not_on, budget_s=None)

    @property
    def key(self) -> str:
        """The digest of all that its answer depends on: two answers of one key answer for the same."""
        request, demands = self.request, self.demands
        parts = (
            (self.version, self.kernel, self.files.digest if self.files else "", request.problems, request.select),
            (sorted(request.incumbents.items(), key=repr), sorted(request.suggested.items(), key=repr)),
            (sorted(request.calls.items(), key=repr), request.selections),
            (self.device.record, self.device.driver, self.device.profile, self.compiler),
            [(one.name, getattr(demands, one.name)) for one in fields(demands) if one.name != "strategy"],
            demands.strategy.name,
            (self.confirms, self.not_on),
        )
        return hashlib.blake2b(repr(parts).encode(), digest_size=16).hexdigest()


def _configurations(implementation: ImplementationSpec) -> int:
    space = implementation.space
    return math.prod(map(len, space.values())) if isinstance(space, dict) else len(space)


def split(
    requests: Iterable[TuningRequest],
    device: TuningDevice,
    demands: Demands,
    *,
    files: bool = False,
    cache_folder: Path | None = None,
    compiler: str = "",
) -> list[Unit]:
    """Return the units of `requests`, the longest first; with `files`, each brings its kernel's folder along."""
    packed: dict[tuple[Path, ...], KernelFiles] = {}
    units = []
    for request in requests:
        for one in _by_specialisation(request, demands):
            folders = one.spec.folder, *one.spec.include_folders
            if files and folders not in packed:
                packed[folders] = KernelFiles.of(one.spec)
            unit = Unit(request=one, device=device, demands=demands, compiler=compiler, cache_folder=cache_folder)
            units.append(replace(unit, files=packed[folders], cache_folder=None) if files else unit)
    return longest_first(units)


def longest_first(units: Iterable[Unit]) -> list[Unit]:
    """Return units in the order in which they are handed out: what takes longest must not begin last."""
    return sorted(units, key=lambda unit: -unit.expected_s)


def _by_specialisation(request: TuningRequest, demands: Demands) -> Sequence[TuningRequest]:
    """Return a request's parts, one for each specialisation that is tuned, or whose certificate is renewed."""
    asked = [problem.specialisation for problem in request.problems]
    held = [rule.specialisation for rule in request.selections] if demands.certify is not None else []
    return [
        replace(
            request,
            problems=tuple(problem for problem in request.problems if problem.specialisation == chosen),
            incumbents={p: known for p, known in request.incumbents.items() if p.specialisation == chosen},
            suggested={p: found for p, found in request.suggested.items() if p.specialisation == chosen},
            calls={p: count for p, count in request.calls.items() if p.specialisation == chosen},
            selections=tuple(rule for rule in request.selections if rule.specialisation == chosen),
            select=tuple(one for one in request.select if one == chosen),
        )
        for chosen in dict.fromkeys([*asked, *request.select, *held])
    ]
