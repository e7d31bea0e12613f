"""The legal combinations of a product of values: parameters join one after another, and constraints prune early.

A constraint over few combinations is evaluated once for each of them, into a table, and a partial combination looks up
whether it may go on; one over many is evaluated for the partial combinations that are left. Partial combinations are
followed in depth, a chunk at a time, so that memory is bounded by a chunk a step and by what is found.

Sets of problems are bits: a combination is kept while some problem admits it by all constraints.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from pretuned.spec.expressions import Environment, Expression
from pretuned.tune.space.columns import Columns, Truths, holds

CHUNK: Final = 2**18  # combinations looked at together: what fits a cache
TABLE: Final = 2**20  # bytes of the largest table: a second at most, and little memory

CodeColumns = Mapping[str, npt.NDArray[np.int16]]  # by parameter: places in its values
SortedValues = Columns  # by parameter: its sorted values
Bits = npt.NDArray[np.uint8]  # (words, ...): problem p is bit p % 8 of word p // 8

_ALL: Final = np.uint8(255)
_NONE: Final = np.uint8(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraint:
    """One constraint, the parameters that it reads, and what else it may read.

    A guard has an environment for each problem; any other constraint has one, which stands for all.
    """

    expression: Expression
    names: tuple[str, ...]
    guard: bool
    environments: Sequence[Environment]

    def admitting(self, columns: Columns) -> Bits:
        """Return the environments that admit each row of `columns`, which broadcast against each other."""
        read = {name: columns[name] for name in self.names}
        shape = np.broadcast_shapes(*(column.shape for column in read.values()))
        bits = np.zeros((_words(len(self.environments)), *shape), dtype=np.uint8)
        for place, environment in enumerate(self.environments):
            bits[place // 8] |= holds(self.expression, read, environment).astype(np.uint8) << np.uint8(place % 8)
        return bits

    def small(self, values: SortedValues) -> bool:
        """Return whether its table is small enough to be evaluated as a whole."""
        return math.prod(len(values[name]) for name in self.names) * _words(len(self.environments)) <= TABLE

    def table(self, values: SortedValues) -> Bits:
        """Return the environments that admit each combination of its parameters' values, an axis for each of these."""
        mesh = np.meshgrid(*(values[name] for name in self.names), indexing="ij", sparse=True)
        return self.admitting(dict(zip(self.names, mesh, strict=True)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Combinations:
    """Combinations: for each parameter a column of places in its sorted values."""

    count: int
    codes: CodeColumns

    def where(self, kept: Truths) -> Combinations:
        """Return the combinations that are kept."""
        return Combinations(count=int(kept.sum()), codes={name: column[kept] for name, column in self.codes.items()})

    def legal(self, values: SortedValues, constraints: Sequence[Constraint], problems: int) -> Truths:
        """Return (count,) whether one of so many problems admits each combination."""
        alive = np.repeat(_all_bits(problems)[:, np.newaxis], self.count, axis=1)
        for constraint in constraints:
            bits = self._admitting(constraint, values)
            alive &= bits if constraint.guard else np.where(bits != _NONE, _ALL, _NONE)
        return np.asarray(alive.any(axis=0))

    def _admitting(self, constraint: Constraint, values: SortedValues) -> Bits:
        """Return the environments by which `constraint` admits each combination."""
        sizes = {name: len(values[name]) for name in constraint.names}
        if math.prod(sizes.values()) <= self.count and constraint.small(values):
            table = constraint.table(values)
            return table.reshape(len(table), -1).take(_flat(self.codes, sizes, self.count), axis=1)
        bits = np.empty((_words(len(constraint.environments)), self.count), dtype=np.uint8)
        for start in range(0, self.count, CHUNK):
            chunk = slice(start, start + CHUNK)
            found = constraint.admitting({name: values[name].take(self.codes[name][chunk]) for name in sizes})
            bits[:, chunk] = found if sizes else found[:, np.newaxis]
        return bits


def legal_product(
    values: SortedValues, constraints: Sequence[Constraint], problems: int, most: int
) -> Combinations | None:
    """Return the combinations of `values` that one of so many problems admits; None where these are more than `most`.

    They are in lexicographic order. All combinations are fewer than 2**63: they are numbered while they are found.
    """
    parts, total = [np.empty(0, dtype=np.int64)], 0
    root = _Partial(codes={}, alive=_all_bits(problems)[:, np.newaxis])
    for partial in _extended(root, _steps(values, constraints)):
        total += partial.count
        if total > most:
            return None
        numbers = np.zeros(partial.count, dtype=np.int64)
        for name, column in values.items():
            numbers *= len(column)
            numbers += partial.codes[name]
        parts.append(numbers)
    numbers = np.concatenate(parts)
    numbers.sort()
    codes: dict[str, npt.NDArray[np.int16]] = {}
    for name in reversed(list(values)):
        numbers, code = np.divmod(numbers, len(values[name]))
        codes[name] = code.astype(np.int16)
    return Combinations(count=total, codes=codes)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Partial:
    """Combinations of the parameters that have joined, and the problems that still admit each: (words, count)."""

    codes: CodeColumns
    alive: Bits

    @property
    def count(self) -> int:
        return int(self.alive.shape[1])

    def chunk(self, start: int, length: int) -> _Partial:
        codes = {name: column[start : start + length] for name, column in self.codes.items()}
        return _Partial(codes=codes, alive=self.alive[:, start : start + length])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """Parameters that join in all `growth` combinations, and a constraint that has then all it reads.

    `before` are the parameters it reads that have joined earlier, with their numbers of values, and `table` is the
    constraint's: (words, combinations of `before`, growth).
    """

    values: SortedValues
    joining: CodeColumns
    growth: int
    before: Mapping[str, int]
    constraint: Constraint | None
    table: Bits | None

    def extend(self, partial: _Partial) -> _Partial:
        """Return the combinations of `partial` with what joins, less those that no problem admits."""
        if self.constraint is None:
            row = np.repeat(np.arange(partial.count), self.growth)
            joined = np.tile(np.arange(self.growth), partial.count)
            alive = partial.alive.take(row, axis=1)
        elif self.constraint.guard:
            bits = self._admitting(self.constraint, partial) & partial.alive[:, :, np.newaxis]
            row, joined = np.nonzero(bits.any(axis=0))
            alive = bits[:, row, joined]
        else:
            row, joined = np.nonzero(self._admitting(self.constraint, partial)[0])
            alive = partial.alive.take(row, axis=1)
        codes = {name: column.take(row) for name, column in partial.codes.items()}
        codes |= {name: column.take(joined) for name, column in self.joining.items()}
        return _Partial(codes=codes, alive=alive)

    def _admitting(self, constraint: Constraint, partial: _Partial) -> Bits:
        """Return (words, combinations of `partial`, growth)."""
        if self.table is not None:
            return self.table.take(_flat(partial.codes, self.before, partial.count), axis=1)
        columns = {name: self.values[name].take(partial.codes[name])[:, np.newaxis] for name in self.before}
        columns |= {name: self.values[name].take(column)[np.newaxis, :] for name, column in self.joining.items()}
        bits = constraint.admitting(columns)
        return np.broadcast_to(bits, (len(bits), partial.count, self.growth))


def _extended(partial: _Partial, steps: Sequence[_Step]) -> Iterator[_Partial]:
    if not steps:
        yield partial
        return
    length = max(1, CHUNK // steps[0].growth)
    for start in range(0, partial.count, length):
        extended = steps[0].extend(partial.chunk(start, length))
        if extended.count:
            yield from _extended(extended, steps[1:])


def _steps(values: SortedValues, constraints: Sequence[Constraint]) -> list[_Step]:
    """Return the order in which parameters join: always the constraint that lets through the fewest for the growth."""
    tables = [constraint.table(values) if constraint.small(values) else None for constraint in constraints]
    shares = [1.0 if table is None else float(table.any(axis=0).mean()) for table in tables]
    waiting = set(range(len(constraints)))
    joined: set[str] = set()
    steps: list[_Step] = []

    def cost(place: int) -> tuple[bool, float, int]:
        growth = math.prod(len(values[name]) for name in constraints[place].names if name not in joined)
        return growth > 1, growth * shares[place], place

    while waiting:
        waiting.remove(place := min(waiting, key=cost))
        new = [name for name in constraints[place].names if name not in joined]
        if tables[place] is None:  # nothing can be looked up, so all but the last may as well join alone
            steps += [_step(values, [name]) for name in new[:-1]]
            new = new[-1:]
        steps.append(_step(values, new, constraints[place], tables[place]))
        joined.update(constraints[place].names)
    return steps + [_step(values, [name]) for name in sorted(values.keys() - joined)]


def _step(
    values: SortedValues, names: Sequence[str], constraint: Constraint | None = None, table: Bits | None = None
) -> _Step:
    sizes = [len(values[name]) for name in names]
    growth = math.prod(sizes)
    codes = np.indices(sizes, dtype=np.int16).reshape(len(names), growth)
    read = constraint.names if constraint else ()
    before = {name: len(values[name]) for name in read if name not in names}
    if table is not None:
        axes = [1 + read.index(name) for name in (*before, *names)]
        table = table.transpose(0, *axes).reshape(len(table), math.prod(before.values()), growth)
    joining = dict(zip(names, codes, strict=True))
    return _Step(values=values, joining=joining, growth=growth, before=before, constraint=constraint, table=table)


def _flat(codes: CodeColumns, sizes: Mapping[str, int], count: int) -> npt.NDArray[np.intp]:
    """Return the row-major place of each combination among those of the parameters with these `sizes`."""
    places = np.zeros(count, dtype=np.intp)
    for name, size in sizes.items():
        places *= size
        places += codes[name]
    return places


def _all_bits(problems: int) -> Bits:
    return np.packbits(np.ones(problems, dtype=np.uint8), bitorder="little")


def _words(problems: int) -> int:
    return (problems + 7) // 8
