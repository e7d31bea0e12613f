"""Several locks into one: what each machine found, and what stands where two answer for the same. Pure.

Devices are taken over by name. One that shares only its name with a device of an earlier lock (a partition of it, say)
gets a name of its own, as it would where it is tuned. Where two locks have a row for the same kernel, device and
problem, one of them stands, whole:

1. the one that stands better to the specs: fresh before unverified, incomplete and stale;
2. the one that was measured without noise;
3. the one that was tuned with more effort: `thorough` before `default` before `fast`;
4. the one of the later date;
5. the one whose winner is further ahead of its default: the smaller upper end of the ratio's interval, then the lower;
6. the one whose line comes first, so that the order of the locks never decides.

A row stands before a problem that was skipped, unless it is stale. Of two selections for the same kernel, device and
specialisation one stands by the same rules, where to be certified takes the place of 2, and the smaller mean loss, by
the certificate, the place of 5. Every conflict is reported.
"""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Final, Literal

from pretuned.errors import LockError
from pretuned.record.entries import row_to_json
from pretuned.record.freshness import State
from pretuned.record.lock import Key, Lock, row_key
from pretuned.record.rows import Row, Skipped, TunedDevice, rank_of_effort
from pretuned.record.selection_entries import selection_to_json
from pretuned.record.selections import Selection
from pretuned.spec.space import describe

Judged = Row | Selection
EQUAL: Final = "equal by every rule; the line that comes first"
DECIDING: Final = 5  # rules by which entries differ; the sixth is the order of their lines
ORDER: Final = (State.FRESH, State.UNVERIFIED, State.INCOMPLETE, State.STALE)


@dataclass(frozen=True, slots=True, kw_only=True)
class LockSource:
    """A lock, and what messages call it."""

    name: str
    lock: Lock


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """Two locks that answer for the same in different words: which one stands, which makes way, and why.

    `problem` is the specialisation of a selection; `rule` the number of the rule above that decided, 0 between a row
    and a problem that was skipped.
    """

    kind: Literal["row", "selection"]
    kernel: str
    device: str
    problem: str
    kept: str
    dropped: str
    reason: str
    rule: int

    def __str__(self) -> str:
        what = "the selection of " if self.kind == "selection" else ""
        at = f" at {self.problem}" if self.problem else ""
        return f"{what}{self.kernel} on {self.device}{at}: {self.kept}, not {self.dropped}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What stands of a source for one device, in numbers, and how much made way for another source's."""

    source: str
    device: str
    rows: int
    selections: int
    skipped: int
    dropped: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """The lock, how many of its lines each source gave, devices aside, and all that had to be decided.

    `taken` has the same by source and device; `notes` are lines about devices and compilers.
    """

    lock: Lock
    given: Mapping[str, int]
    taken: tuple[Taken, ...]
    conflicts: tuple[Conflict, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """What a source says of a key."""

    source: str
    found: Judged | Skipped
    state: State | None  # of what is judged

    @property
    def key(self) -> Key:
        """What it answers for."""
        return row_key(self.found) if isinstance(self.found, Row) else self.found.key


@dataclass(slots=True, kw_only=True)
class _Devices:
    """The devices met so far by name, and what was decided about them."""

    known: dict[str, TunedDevice] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def take(self, source: LockSource) -> Mapping[str, str]:
        """Take over a source's devices, and return what its rows are to call them."""
        return {name: self._name(source.name, name, device) for name, device in source.lock.devices.items()}

    def _name(self, source: str, name: str, device: TunedDevice) -> str:
        plain = name.removesuffix(f" ({device.sm_count} SMs)")
        for called in dict.fromkeys((name, device.qualified_name, plain)):
            known = self.known.get(called)
            if known is not None and known.is_same_as(device):
                self.known[called] = self._facts(called, known, device)
                if called != name:
                    self.notes.append(f"{source}: its {name} has {device.sm_count} SMs: now {called}")
                return called
        known = self.known.setdefault(name, device)
        if known is device:
            return name
        renamed = replace(device, name=device.qualified_name)
        if renamed.name == name or not self.known.get(renamed.name, renamed).is_same_as(renamed):
            raise LockError(f"{source}: its device {name!r} has the name of another device that differs from it")
        self.known[renamed.name] = renamed
        self.notes.append(f"{source}: its {name} has {device.sm_count} SMs, not {known.sm_count}: now {renamed.name}")
        return renamed.name

    def _facts(self, name: str, one: TunedDevice, other: TunedDevice) -> TunedDevice:
        """Return the facts of a device that two locks describe: the larger of each limit."""
        kept = TunedDevice(
            name=one.name, **{key: max(value, getattr(other, key)) for key, value in _facts_of(one).items()}
        )
        for key, value in _facts_of(kept).items():
            values = sorted({_facts_of(one)[key], _facts_of(other)[key]})
            if len(values) > 1:
                self.notes.append(f"{name}: {key} is {values[0]} in one lock and {values[1]} in another: {value} kept")
        return kept


def _facts_of(device: TunedDevice) -> dict[str, int]:
    return {key: value for key, value in asdict(device).items() if key != "name"}


def merge(sources: Sequence[LockSource], judge: Callable[[Judged], State]) -> Merged:
    """Return what `sources` say together; `judge` returns the state of a row or a selection by the specs.

    Raises LockError for two devices of one name that differ in what rows distinguish them by.
    """
    devices, standing, conflicts = _Devices(), dict[Key, _Entry](), list[Conflict]()
    for source in sources:
        names = devices.take(source)
        for entry in _entries(source, names, judge):
            before = standing.get(entry.key)
            better, worse = (entry, None) if before is None else _decided(before, entry)
            standing[entry.key] = better
            if worse is not None and worse.found != better.found:
                conflicts.append(_conflict(better, worse))
    kept = standing.values()
    lock = Lock().updated(
        devices.known,
        [entry.found for entry in kept if isinstance(entry.found, Row)],
        [entry.found for entry in kept if isinstance(entry.found, Skipped)],
        [entry.found for entry in kept if isinstance(entry.found, Selection)],
    )
    given = {source.name: sum(entry.source == source.name for entry in kept) for source in sources}
    return Merged(
        lock=lock,
        given=given,
        taken=tuple(_taken(sources, kept, conflicts)),
        conflicts=tuple(conflicts),
        notes=(*devices.notes, *_compilers(lock)),
    )


def _taken(sources: Sequence[LockSource], kept: Iterable[_Entry], conflicts: Iterable[Conflict]) -> Iterator[Taken]:
    """Yield what stands of each source for each device."""
    kinds = Counter((entry.source, entry.found.device, type(entry.found)) for entry in kept)
    dropped = Counter((conflict.dropped, conflict.device) for conflict in conflicts)
    for source in sources:
        devices = {device for name, device, _ in kinds if name == source.name}
        for device in sorted(devices | {device for name, device in dropped if name == source.name}):
            yield Taken(
                source=source.name,
                device=device,
                rows=kinds[source.name, device, Row],
                selections=kinds[source.name, device, Selection],
                skipped=kinds[source.name, device, Skipped],
                dropped=dropped[source.name, device],
            )


def _entries(source: LockSource, names: Mapping[str, str], judge: Callable[[Judged], State]) -> Iterator[_Entry]:
    for row in source.lock.rows:
        yield _Entry(source=source.name, found=replace(row, device=names[row.device]), state=judge(row))
    for rule in source.lock.selections:
        yield _Entry(source=source.name, found=replace(rule, device=names[rule.device]), state=judge(rule))
    for entry in source.lock.skipped:
        device = names.get(entry.device, entry.device)
        yield _Entry(source=source.name, found=replace(entry, device=device), state=None)


def _decided(one: _Entry, other: _Entry) -> tuple[_Entry, _Entry]:
    """Return which of two entries stands, and which makes way; of two alike the first stands."""
    return (one, other) if _rank(one) <= _rank(other) else (other, one)


def _rank(entry: _Entry) -> tuple[object, ...]:
    """Return what entries of one key are sorted by, the one that stands first."""
    if isinstance(entry.found, Skipped):
        return len(ORDER) - 1.5, entry.found.reason
    assert entry.state is not None
    place, effort, age = ORDER.index(entry.state), -rank_of_effort(entry.found.effort), -_day(entry.found.date)
    if isinstance(entry.found, Selection):
        rule = entry.found
        return place, rule.certificate is None, effort, age, *_lost(rule), json.dumps(selection_to_json(rule))
    low, high = entry.found.winner.ratio
    return place, bool(entry.found.noise), effort, age, high, low, json.dumps(row_to_json(entry.found))


def _lost(rule: Selection) -> tuple[float, float]:
    """Return the mean loss, and the share of problems slower than the default, by a certificate; 0 without one."""
    return (0.0, 0.0) if rule.certificate is None else (rule.certificate.inside.mean, rule.certificate.inside.slower)


def _day(date: str) -> int:
    try:
        return dt.date.fromisoformat(date).toordinal()
    except ValueError:
        return 0


def _conflict(kept: _Entry, dropped: _Entry) -> Conflict:
    found = kept.found
    rule, reason = _reason(kept, dropped)
    return Conflict(
        kind="selection" if isinstance(found, Selection) else "row",
        kernel=found.kernel,
        device=found.device,
        problem=describe(found.specialisation) if isinstance(found, Selection) else str(found.problem),
        kept=kept.source,
        dropped=dropped.source,
        reason=reason,
        rule=rule,
    )


def _reason(kept: _Entry, dropped: _Entry) -> tuple[int, str]:
    """Return by which of the rules one entry stands before another, and that in words."""
    one, other = kept.found, dropped.found
    if isinstance(one, Selection) or isinstance(other, Selection):
        assert isinstance(one, Selection)
        assert isinstance(other, Selection)
        return _reason_of_selection(kept.state, one, dropped.state, other)
    if isinstance(one, Skipped):
        return 0, f"skipped ({one.reason})" + ("" if isinstance(other, Skipped) else ", and the row is stale")
    if isinstance(other, Skipped):
        return 0, f"was measured, not skipped ({other.reason})"
    high, its = one.winner.ratio[1], other.winner.ratio[1]
    rules = (
        (kept.state != dropped.state, f"{kept.state}, not {dropped.state}"),
        (bool(one.noise) != bool(other.noise), f"measured without noise; the other: {other.noise}"),
        _efforts("tuned", one.effort, other.effort),
        (_day(one.date) != _day(other.date), f"of {one.date}, not {other.date}"),
        (one.winner.ratio != other.winner.ratio, f"at most {high:.3f} of the default's time, not {its:.3f}"),
    )
    return _first(rules)


def _efforts(done: str, one: str, other: str) -> tuple[bool, str]:
    return one != other, f"{done} with effort {one or 'default'}, not {other or 'default'}"


def _first(rules: Sequence[tuple[bool, str]]) -> tuple[int, str]:
    """Return the number and the words of the first rule by which two entries differ."""
    decided = ((min(number, DECIDING), text) for number, (differ, text) in enumerate(rules, 1) if differ)
    return next(decided, (DECIDING + 1, EQUAL))


def _reason_of_selection(
    state: State | None, one: Selection, its_state: State | None, other: Selection
) -> tuple[int, str]:
    (mean, slower), (its, its_slower) = map(_lost, (one, other))
    rules = (
        (state != its_state, f"{state}, not {its_state}"),
        ((one.certificate is None) != (other.certificate is None), "certified; the other is not"),
        _efforts("made", one.effort, other.effort),
        (_day(one.date) != _day(other.date), f"of {one.date}, not {other.date}"),
        (mean != its, f"loses {mean:.2%} on average by its certificate, not {its:.2%}"),
        (slower != its_slower, f"slower than the default at {slower:.2%} of problems, not {its_slower:.2%}"),
    )
    return _first(rules)


def _compilers(lock: Lock) -> Iterator[str]:
    """Yield a line where rows were compiled by several NVRTC: one build ships what one of them makes."""
    versions = sorted(set(lock.of_gpus().compilers))
    if len(versions) > 1:
        yield (
            f"rows were measured with NVRTC {' and '.join(versions)}: a build compiles with one of them, marks the "
            "other's rows as recompiled, and mode locked refuses them; tune with one NVRTC on every machine"
        )
