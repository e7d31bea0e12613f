"""Tuning through a crew: requests in, what was tuned out, as from a session on one device."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pretuned.errors import DeviceError, LockError, counted
from pretuned.files import termination_interrupts
from pretuned.fleet.answers import UnitAnswer, add
from pretuned.fleet.coordinator import Coordinator
from pretuned.fleet.crews import Crew
from pretuned.fleet.harvest import USUAL, FleetPolicy, Harvest
from pretuned.fleet.machine import MachineCrew
from pretuned.fleet.units import Unit, split
from pretuned.record import lock as lockfile
from pretuned.record.cache import Cache, Subject
from pretuned.record.lock import Lock
from pretuned.record.rows import Row, Skipped
from pretuned.record.selections import Selection
from pretuned.tune.events import Certified, Decided, Listener
from pretuned.tune.request import TuningDevice, TuningRequest
from pretuned.tune.session import ORDINARY, Tuned, tune
from pretuned.tune.spending import Spending
from pretuned.tune.workbench import Demands

Merge = Callable[[Lock], None]


def _nothing(_heard: object) -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetWork:
    """What a fleet is to tune: requests for a kind of device, as `device` describes one of them."""

    device: TuningDevice
    requests: Sequence[TuningRequest]


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetTerms:
    """On what terms a fleet tunes, as `pretuned.tune.session.tune` has them.

    `merge` is called with each partial lock as soon as it is there and sound. So many `processes` tune on each device
    of this machine.
    """

    cache_folder: Path | None
    budget_s: float | None = None
    patience_s: float | None = None
    demands: Demands = ORDINARY
    listen: Listener = _nothing
    merge: Merge = _nothing
    processes: int = 1


@dataclass(slots=True, kw_only=True)
class _Sum:
    """What the answers add up to."""

    cache: Cache
    listen: Listener
    merge: Merge
    rows: list[Row] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    selections: list[Selection] = field(default_factory=list)
    certified: list[Certified] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    trouble: list[str] = field(default_factory=list)
    spending: Spending = field(default_factory=Spending)

    def settle(self, unit: Unit, answer: UnitAnswer, found: Lock) -> None:
        """Take an answer in: its cache rows first, so that nothing is measured again if this process ends now."""
        self.cache.take(answer.cache)
        if unit.files and not (answer.left or answer.trouble or answer.wrong):
            subject = Subject(kernel=unit.kernel, device=unit.device.name)
            self.cache.put_record(_kept(unit), {"lock": answer.lock}, subject)
        self.take(found)
        self.certified += answer.certified
        self.wrong += [answer.wrong] if answer.wrong else []
        self.trouble += [answer.trouble] if answer.trouble else []
        add(self.spending, answer.spending or {})

    def take(self, found: Lock) -> None:
        """Take in what a partial lock has."""
        self.rows += found.rows
        self.skipped += found.skipped
        self.selections += found.selections
        self.merge(found)


def _kept(unit: Unit) -> str:
    return f"unit {unit.key}"


def tune_with(
    works: Sequence[FleetWork],
    crew: Crew,
    terms: FleetTerms,
    *,
    compilers: Mapping[str, str] | None = None,
    elsewhere: bool = True,
    policy: FleetPolicy = USUAL,
) -> Tuned:
    """Have a crew tune `works`, each for its kind of device.

    With `elsewhere` the workers are not of this machine: units bring the kernels' files along, and a unit that was
    answered completely before is not given out again. `compilers` has the compiler's version that each kind of device
    must have, where it is known. Raises DeviceError where nothing could be tuned at all.
    """
    units = [unit for work in works for unit in _split(work, terms, compilers or {}, elsewhere=elsewhere)]
    with Cache(terms.cache_folder, anew=terms.demands.anew) as cache, termination_interrupts():
        found = _Sum(cache=cache, listen=terms.listen, merge=terms.merge)
        coordinator = Coordinator(
            crew, found.settle, listen=terms.listen, policy=policy, compilers=compilers, budget_s=terms.budget_s
        )
        harvest = coordinator.run(_unanswered(units, found) if elsewhere else units)
        for one in harvest.confirmed:
            cache.put_record(one.key, one.to_json(), Subject(kernel=one.row.kernel, device=one.row.device))
    return _tuned(works, found, harvest)


def _split(work: FleetWork, terms: FleetTerms, compilers: Mapping[str, str], *, elsewhere: bool) -> list[Unit]:
    units = split(
        work.requests,
        work.device,
        terms.demands,
        files=elsewhere,
        cache_folder=terms.cache_folder,
        compiler=compilers.get(work.device.name, ""),
    )
    return [replace(unit, patience_s=terms.patience_s) for unit in units]


def _unanswered(units: Sequence[Unit], found: _Sum) -> list[Unit]:
    """Return the units that no earlier tuning has brought in; what those have is taken over."""
    open_units = []
    for unit in units:
        data = found.cache.record(_kept(unit))
        try:
            known = None if data is None else lockfile.loads(json.loads(data["lock"]), "answer")
        except (KeyError, TypeError, ValueError, LockError):
            known = None  # written by another version
        if known is None:
            open_units.append(unit)
            continue
        for row in known.rows:
            found.listen(Decided(row=row, cached=True))
        found.take(known)
    return open_units


def _tuned(works: Sequence[FleetWork], found: _Sum, harvest: Harvest) -> Tuned:
    lost = [f"{unit.kernel}: {reason}" for unit, reason in harvest.given_up]
    more = f", and {counted(len(lost) - 1, 'other unit')}" if len(lost) > 1 else ""
    trouble = [*dict.fromkeys(found.trouble), *([f"not tuned: {lost[0]}{more}"] if lost else [])]
    if trouble and not (found.rows or found.skipped or found.selections):
        raise DeviceError(trouble[0])
    asked = sum(len(request.problems) for work in works for request in work.requests)
    return Tuned(
        device=works[0].device,
        others=tuple(work.device for work in works[1:]),
        rows=tuple(found.rows),
        skipped=tuple(found.skipped),
        left=asked - len(found.rows) - len(found.skipped),
        spending=found.spending,
        selections=tuple(found.selections),
        certified=tuple(found.certified),
        interrupted=harvest.interrupted,
        trouble="; ".join(trouble),
        wrong="\n".join(found.wrong),
        confirmed=tuple(harvest.confirmed),
        notes=tuple(_notes(harvest, found.spending)),
    )


def _notes(harvest: Harvest, spending: Spending) -> Iterator[str]:
    """Yield lines about the part that each worker had, and what became of odd answers."""
    if harvest.given:
        yield "settled by " + ", ".join(
            f"{worker}: {counted(n, 'unit')} in {harvest.spent_s[worker]:.0f} s"
            for worker, n in sorted(harvest.given.items())
        )
    if spending.elsewhere:
        yield "compiled by workers without a device: " + ", ".join(
            f"{worker}: {counted(n, 'source')}" for worker, n in sorted(spending.elsewhere.items())
        )
    for worker, reason in harvest.refused.items():
        yield f"refused: {worker or 'a worker'}: {reason}"
    if harvest.duplicates:
        yield f"{counted(harvest.duplicates, 'second answer')} dropped, {harvest.differing} of them chose otherwise"


def tune_here(works: Sequence[FleetWork], devices: Sequence[TuningDevice], terms: FleetTerms) -> Tuned:
    """Tune `works` on the `devices` of this machine, each by processes of its own; where one gets all, in a session.

    Raises what `pretuned.tune.session.tune` raises.
    """
    units = sum(len(split(work.requests, work.device, terms.demands)) for work in works)
    processes = min(terms.processes, -(-units // len(devices)))  # more would have nothing to do
    if len(works) == 1 and (len(devices) * processes == 1 or units == 1):
        return tune(
            works[0].requests,
            works[0].device,
            cache_folder=terms.cache_folder,
            budget_s=terms.budget_s,
            patience_s=terms.patience_s,
            demands=terms.demands,
            listen=terms.listen,
        )
    with MachineCrew(devices, processes=processes) as crew:
        return tune_with(works, crew, terms, elsewhere=False)
