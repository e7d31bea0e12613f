"""Answers: what a worker found, as plain data, and why one may be refused.

An answer is a partial lock, in the lock's own canonical bytes, with the cache rows that were measured for it and the
evidence of where that was. It can be given twice: nothing in it depends on when or to whom it is given. The coordinator
takes none on trust. It is refused where its bytes do not have its digest, where device, driver or compiler are not what
was asked for, in the evidence or in any row, and where a row is not one of the kernel as the coordinator has it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from pretuned.errors import LockError
from pretuned.fleet.units import Unit
from pretuned.record import lock as lockfile
from pretuned.record.cache import CacheEntry
from pretuned.record.freshness import FreshnessJudge, State
from pretuned.record.lock import Lock
from pretuned.record.rows import Row, TunedDevice
from pretuned.record.selections import Selection
from pretuned.spec.space import describe
from pretuned.tune.drift import Drift
from pretuned.tune.events import Certified
from pretuned.tune.session import Tuned
from pretuned.tune.spending import Spending


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerEvidence:
    """Where an answer was found: `worker` is its name among the workers, `gpu` the device's own, wherever it is."""

    worker: str
    gpu: str
    device: TunedDevice
    driver: str
    compiler: str
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitAnswer:
    """What became of the unit of key `unit`; `lock` holds its rows, and `digest` is that of `lock` and `cache`.

    `spending` has what the worker spent, as `Spending` counts it. `left` rows were not reached. `trouble` says why the
    worker could not go on, `wrong` why the kernel cannot be tuned. `drifts` answer for rows to be confirmed. `seconds`
    passed on the worker. `compilers_refused` are workers without a device whose binaries differ from its own, and why.
    """

    unit: str
    evidence: WorkerEvidence
    lock: str
    digest: str
    cache: tuple[CacheEntry, ...] = ()
    spending: Mapping[str, Any] | None = None
    certified: tuple[Certified, ...] = ()
    left: int = 0
    trouble: str = ""
    wrong: str = ""
    drifts: tuple[Drift, ...] = ()
    seconds: float = 0.0
    compilers_refused: tuple[tuple[str, str], ...] = ()


def answer_of(
    unit: Unit,
    evidence: WorkerEvidence,
    tuned: Tuned,
    *,
    cache: Iterable[CacheEntry] = (),
    spending: Mapping[str, Any] | None = None,
    seconds: float = 0.0,
    compilers_refused: tuple[tuple[str, str], ...] = (),
) -> UnitAnswer:
    """Return the answer to `unit` that says what was tuned."""
    found = Lock().updated({evidence.device.name: evidence.device}, tuned.rows, tuned.skipped, tuned.selections)
    text, entries = lockfile.dumps(found), tuple(cache)
    return UnitAnswer(
        unit=unit.key,
        evidence=evidence,
        lock=text,
        digest=digest_of(text, entries),
        cache=entries,
        spending=spending,
        certified=tuned.certified,
        left=tuned.left,
        trouble=tuned.trouble,
        wrong=tuned.wrong,
        seconds=seconds,
        compilers_refused=compilers_refused,
    )


def digest_of(lock: str, cache: Iterable[CacheEntry]) -> str:
    """Return the digest of a partial lock's bytes and its cache rows."""
    found = hashlib.sha256(lock.encode(errors="surrogatepass"))
    for entry in cache:
        found.update(f"\n{entry.name} {entry.sealed}".encode(errors="surrogatepass"))
    return found.hexdigest()


class AnswerJudge:
    """Judges answers by the units that they answer. It renders each configuration once, however many answers have it.

    `compilers` has the compiler of each kind of device, as the lock or the first answer that was taken has it.
    """

    def __init__(self, compilers: Mapping[str, str] | None = None) -> None:
        self.compilers = dict(compilers or {})
        self._judges: dict[int, FreshnessJudge] = {}

    def judge(self, unit: Unit, answer: object) -> Lock | str:
        """Return the partial lock of an answer, or why it is refused, in words."""
        if not isinstance(answer, UnitAnswer) or not isinstance(answer.evidence, WorkerEvidence):
            return f"it gave a value of type {type(answer).__name__}, which is not an answer"
        if answer.unit != unit.key:
            return "it answers for another unit"
        if digest_of(answer.lock, answer.cache) != answer.digest:
            return "its digest does not fit its rows"
        try:
            found = lockfile.loads(json.loads(answer.lock), "answer")
        except (LockError, ValueError, RecursionError) as error:
            return f"its rows cannot be read: {error}"
        wrong = next(self._contradictions(unit, answer, found), None)
        if wrong is not None:
            return wrong
        if answer.evidence.compiler:
            self.compilers.setdefault(unit.device.name, answer.evidence.compiler)
        return found

    def _contradictions(self, unit: Unit, answer: UnitAnswer, found: Lock) -> Iterator[str]:
        yield from self._of_evidence(unit, answer.evidence, has_rows=bool(found.rows or found.selections))
        for device in found.devices.values():
            if device != answer.evidence.device:
                yield f"its rows are of {kind_of(device)}, and its device is {kind_of(answer.evidence.device)}"
        for row in found.rows:
            yield from self._contradiction(unit, answer.evidence, row)
        for rule in found.selections:
            yield from self._contradiction(unit, answer.evidence, rule)
        yield from _unasked(unit, answer, found)

    def _of_evidence(self, unit: Unit, evidence: WorkerEvidence, *, has_rows: bool) -> Iterator[str]:
        wanted = unit.device.record
        compiler = unit.compiler or self.compilers.get(wanted.name, evidence.compiler)
        if evidence.version != unit.version:
            yield f"it runs pretuned {evidence.version}, not {unit.version}"
        if evidence.device.name != wanted.name or not evidence.device.is_same_as(wanted):
            yield f"its device is {kind_of(evidence.device)}, not {kind_of(wanted)}"
        if evidence.driver != unit.device.driver:
            yield f"its driver is {evidence.driver}, not {unit.device.driver}, as {wanted.name} has it elsewhere"
        if evidence.compiler != compiler and (evidence.compiler or has_rows):  # unknown where nothing was compiled
            yield f"its compiler is {evidence.compiler}, not {compiler}"

    def _contradiction(self, unit: Unit, evidence: WorkerEvidence, entry: Row | Selection) -> Iterator[str]:
        """Yield what is wrong with a row or selection."""
        where = str(entry.problem) if isinstance(entry, Row) else describe(entry.specialisation)
        if entry.driver != evidence.driver:
            yield f"its row at {where} names the driver {entry.driver}, and its driver is {evidence.driver}"
        if entry.compiler != evidence.compiler:
            yield f"its row at {where} names the compiler {entry.compiler}, and its compiler is {evidence.compiler}"
        if entry.kernel != unit.kernel:
            yield f"it has a row that was not asked for: {entry.kernel} at {where}"
            return
        spec = unit.request.spec
        judge = self._judges.get(id(spec)) or self._judges.setdefault(id(spec), FreshnessJudge(spec))
        standing = judge.judge(entry)
        if standing.state in {State.STALE, State.UNVERIFIED}:
            yield f"its row at {where} is not of {unit.kernel} as it is here: {standing.reason}"


def _unasked(unit: Unit, answer: UnitAnswer, found: Lock) -> Iterator[str]:
    """Yield what an answer has that its unit did not ask for."""
    keys = [lockfile.row_key(row) for row in found.rows] + [entry.key for entry in found.skipped]
    for kernel, _, problem in keys:
        if kernel != unit.kernel or problem not in unit.request.problems:
            yield f"it has a row that was not asked for: {kernel} at {problem}"
    for rule in found.selections:
        if rule.specialisation not in unit.specialisations:
            yield f"it has a selection that was not asked for: {rule.kernel} at {describe(rule.specialisation)}"
    for drift in answer.drifts:
        if drift.row not in unit.confirms:
            yield f"it confirms a row that was not asked for: {drift.row.kernel} at {drift.row.problem}"
    for cached in answer.cache:
        if not cached.is_whole or (cached.kernel, cached.device) != (unit.kernel, unit.device.name):
            yield f"it has a cache row that was not asked for, or is damaged: {cached.name}"


def kind_of(device: TunedDevice) -> str:
    """Return what tells kinds of devices apart, in words."""
    return f"{device.name} ({device.sm_count} SMs, capability {device.compute_capability / 10:g})"


def choices_digest(found: Lock) -> str:
    """Return the digest of what an answer says of every problem, times aside, by which two of them are compared."""
    rows = [(row.problem, [choice.candidate for choice in row.choices]) for row in found.rows]
    return hashlib.sha256(repr((rows, [entry.problem for entry in found.skipped])).encode()).hexdigest()


_COUNTED: Final = frozenset(one.name for one in fields(Spending) if not one.name.startswith("_")) - {"kernel"}


def counts_of(spending: Spending) -> dict[str, Any]:
    """Return what a spending has counted so far as plain data, which is not changed by what is counted afterwards."""
    return {one.name: _copied(getattr(spending, one.name)) for one in fields(Spending) if one.name in _COUNTED}


def _copied(value: Any) -> Any:  # noqa: ANN401 - numbers, lists, and tables of them
    if isinstance(value, Mapping):
        return {key: _copied(item) for key, item in value.items()}
    return tuple(value) if isinstance(value, list) else value


def difference(after: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was counted between two moments."""
    found: dict[str, Any] = {}
    for name, value in after.items():
        match value:
            case Mapping():
                found[name] = difference(value, before.get(name, {}))
            case tuple():
                found[name] = value[len(before.get(name, ())) :]
            case _:
                found[name] = value - before.get(name, 0)
    return found


def add(spending: Spending, counts: Mapping[str, Any]) -> None:
    """Add to a spending what a worker has counted."""
    for name in _COUNTED & counts.keys():
        held, value = getattr(spending, name), counts[name]
        match held:
            case Mapping():
                _add_table(held, value)
            case list():
                held.extend(value)
            case _:
                setattr(spending, name, held + value)


def _add_table(held: Any, counts: Mapping[Any, Any]) -> None:  # noqa: ANN401 - a table of `Spending`
    for key, value in counts.items():
        if isinstance(value, Mapping):
            _add_table(held[key], value)
        elif value:
            held[key] += value  # of a Counter, or a table with a default
