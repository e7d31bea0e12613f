"""The points of a kernel's space as a matrix: what a search walks, without an object for each configuration."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, overload

import numpy as np
import numpy.typing as npt

from pretuned.errors import Fault, SpecError
from pretuned.runtime.records import Value
from pretuned.spec import space
from pretuned.spec.check.implementations import prefix_of
from pretuned.spec.defaults import defaults
from pretuned.spec.expressions import Environment
from pretuned.spec.model import ImplementationSpec, KernelSpec
from pretuned.spec.space import Configuration, DeviceFacts, Pairs, Problem
from pretuned.spec.tensor_maps import available
from pretuned.tune.space.columns import Truths
from pretuned.tune.space.enumeration import Combinations, Constraint, legal_product

MAX_POINTS: Final = 5_000_000
MAX_VALUES: Final = 2**15 - 1  # of one parameter: codes are int16
MAX_RAW: Final = 2**62  # combinations before constraints, which are numbered in int64

Choices = Mapping[str, tuple[Value, ...]]  # by sorted parameter: its sorted, distinct values
Typed = tuple[Value, int]  # a value, and its kind: true, 1 and 1.0, of several implementations, are distinct


@dataclass(frozen=True, kw_only=True, eq=False)
class Points(Sequence[Configuration]):
    """The configurations of all implementations that are legal at one problem or more, the kernel's default first.

    Of a default that depends on the problem all come first that it may be, `defaults` of them. The others follow in the
    order of `spec.space.configurations`: implementations by name, then sorted values, so that no order in a file
    decides anything. `codes` is (count, 1 + parameters): the implementation's place by sorted name, then for each of
    `names`, the sorted parameters of all implementations, the place of its value in that parameter's sorted `values`,
    or -1 where the implementation has no such parameter.
    """

    spec: KernelSpec
    specialisation: Pairs
    device: DeviceFacts | None
    codes: npt.NDArray[np.int16]
    names: tuple[str, ...]
    values: tuple[tuple[Value, ...], ...]
    defaults: int = 1

    @classmethod
    def of(
        cls, spec: KernelSpec, specialisation: Pairs, problems: Sequence[Problem], device: DeviceFacts | None = None
    ) -> Points:
        """Enumerate the points of a sound spec for `problems`, which all are of `specialisation`.

        Raises SpecError where more than MAX_POINTS are legal, or where a space is beyond counting.
        """
        assert all(problem.specialisation == specialisation for problem in problems)
        choices = {name: _choices(implementation) for name, implementation in spec.all_implementations.items()}
        names = tuple(sorted({name for own in choices.values() for name in own}))
        values = tuple(_union(own.get(name, ()) for own in choices.values()) for name in names)
        _require_countable(spec, choices, values)
        first = [dict(one.values) for one in defaults(spec, specialisation)]
        blocks = [_legal(spec, name, own, problems, device, first) for name, own in choices.items()]
        count = len(first) + sum(block.count for block in blocks)
        if count > MAX_POINTS:
            raise _too_large(
                spec, spec.default_implementation, f"and the other spaces have {count:,} legal configurations"
            )
        codes = np.full((count, 1 + len(names)), -1, dtype=np.int16)
        start = len(first)
        for place, ((implementation, own), block) in enumerate(zip(choices.items(), blocks, strict=True)):
            translated = {name: (1 + names.index(name), _places(values[names.index(name)], own[name])) for name in own}
            _write(codes[start : start + block.count], place, translated, block)
            if implementation == spec.default_implementation:
                _write(codes[: len(first)], place, translated, _listed(first, own))
            start += block.count
        codes.setflags(write=False)
        return cls(
            spec=spec,
            specialisation=specialisation,
            device=device,
            codes=codes,
            names=names,
            values=values,
            defaults=len(first),
        )

    def __len__(self) -> int:
        return len(self.codes)

    @overload
    def __getitem__(self, index: int) -> Configuration: ...
    @overload
    def __getitem__(self, index: slice) -> list[Configuration]: ...
    def __getitem__(self, index: int | slice) -> Configuration | list[Configuration]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        implementation, *codes = self.codes[index].tolist()
        columns = zip(self.names, self.values, codes, strict=True)
        values = tuple((name, listed[code]) for name, listed, code in columns if code >= 0)
        return Configuration(implementation=self._implementations[implementation], values=values)

    def __contains__(self, configuration: object) -> bool:
        return isinstance(configuration, Configuration) and self._find(configuration) is not None

    def index(self, value: Configuration, start: int = 0, stop: int | None = None) -> int:
        """Return the place of a configuration; ValueError where it is none of the points from `start` to `stop`.

        It is found by bisection, in microseconds.
        """
        place = self._find(value)
        if place is None or place not in range(*slice(start, stop).indices(len(self))):
            raise ValueError(f"{value} is none of the points")
        return place

    def legal(self, problem: Problem) -> Truths:
        """Return (count,) whether `space.legal` admits each point at `problem`; the default is taken to be legal."""
        legal, first = np.ones(len(self), dtype=np.bool_), self.defaults
        if first > 1:
            own = space.default_at(self.spec, problem)
            legal[:first] = [
                one == own or space.legal(self.spec, problem, one, self.device)
                for one in map(self.__getitem__, range(first))
            ]
        environment = space.environment(self.spec, problem, device=self.device)
        values = {name: _column(listed) for name, listed in zip(self.names, self.values, strict=True)}
        bounds = first + np.searchsorted(self.codes[first:, 0], range(len(self._implementations) + 1))
        for implementation, start, stop in zip(
            self._implementations, bounds[:-1].tolist(), bounds[1:].tolist(), strict=True
        ):
            constraints = _constraints(self.spec, implementation, [environment])
            if problem.specialisation == self.specialisation:  # all have passed what reads no dim
                constraints = [constraint for constraint in constraints if constraint.guard]
            columns = {name: self.codes[start:stop, 1 + at] for at, name in enumerate(self.names)}
            legal[start:stop] = Combinations(count=stop - start, codes=columns).legal(values, constraints, 1)
        return legal

    @cached_property
    def nominal(self) -> tuple[int, ...]:
        """The columns of `codes` whose values have no order: texts."""
        return tuple(1 + at for at, listed in enumerate(self.values) if any(isinstance(value, str) for value in listed))

    @cached_property
    def _implementations(self) -> tuple[str, ...]:
        return tuple(self.spec.all_implementations)

    @cached_property
    def _codes_by_value(self) -> dict[str, dict[tuple[str, Value], int]]:
        """By implementation: the code of each of its parameters' values."""
        columns = dict(zip(self.names, self.values, strict=True))
        found: dict[str, dict[tuple[str, Value], int]] = {}
        for own_name, implementation in self.spec.all_implementations.items():
            found[own_name] = {}
            for name, own in _choices(implementation).items():
                keys = [(name, value) for value in own]
                found[own_name] |= dict(zip(keys, _places(columns[name], own).tolist(), strict=True))
        return found

    @cached_property
    def _keys(self) -> npt.NDArray[np.bytes_]:
        """The rows after the defaults as bytes, which compare as the rows do: they are sorted."""
        return _key(self.codes[self.defaults :])

    def _find(self, configuration: Configuration) -> int | None:
        codes = self._codes_by_value.get(configuration.implementation)
        if codes is None or any(pair not in codes for pair in configuration.values):
            return None
        row = dict.fromkeys(self.names, -1) | {name: codes[name, value] for name, value in configuration.values}
        sought = np.array([[self._implementations.index(configuration.implementation), *row.values()]], dtype=np.int16)
        for place in range(self.defaults):
            if np.array_equal(sought[0], self.codes[place]):
                return place
        key = _key(sought)[0]
        place = int(np.searchsorted(self._keys, key))
        return place + self.defaults if place < len(self._keys) and self._keys[place] == key else None


def _key(rows: npt.NDArray[np.int16]) -> npt.NDArray[np.bytes_]:
    shifted = (rows + np.int16(1)).astype(">u2")  # big-endian; -1, for no such parameter, becomes the smallest
    return np.ascontiguousarray(shifted).view(f"S{2 * rows.shape[1]}")[:, 0]


def _column(values: Sequence[Value]) -> npt.NDArray[Any]:
    if any(isinstance(value, str | float) for value in values):
        return np.array(values)  # only compared
    return np.array([int(value) for value in values], dtype=np.int64)


def _choices(implementation: ImplementationSpec) -> Choices:
    names = sorted(space.parameters(implementation))
    if isinstance(implementation.space, dict):
        return {name: tuple(sorted(set(implementation.space[name]))) for name in names}
    return {name: tuple(sorted({row[name] for row in implementation.space})) for name in names}


def _union(choices: Iterable[Sequence[Value]]) -> tuple[Value, ...]:
    """Return the sorted, distinct values of one parameter over all implementations."""
    distinct = {_typed(value) for own in choices for value in own}
    return tuple(value for value, _ in sorted(distinct, key=lambda one: (isinstance(one[0], str), *one)))


def _typed(value: Value) -> Typed:
    return value, 1 if isinstance(value, bool) else 2 if isinstance(value, float) else 0


def _places(listed: Sequence[Value], own: Sequence[Value]) -> npt.NDArray[np.int16]:
    """Return the place in `listed`, over all implementations, of each of an implementation's `own` values."""
    places = {_typed(value): place for place, value in enumerate(listed)}
    return np.array([places[_typed(value)] for value in own], dtype=np.int16)


def _write(
    rows: npt.NDArray[np.int16],
    place: int,
    translated: Mapping[str, tuple[int, npt.NDArray[np.int16]]],
    block: Combinations,
) -> None:
    """Write the combinations of the implementation at `place`; `translated` gives a parameter's column and codes."""
    rows[:, 0] = place
    for name, (column, codes) in translated.items():
        rows[:, column] = codes.take(block.codes[name])


def _require_countable(spec: KernelSpec, choices: Mapping[str, Choices], values: Iterable[Sequence[Value]]) -> None:
    for implementation, own in choices.items():
        if (
            isinstance(spec.all_implementations[implementation].space, dict)
            and math.prod(map(len, own.values())) > MAX_RAW
        ):
            raise _too_large(spec, implementation, "has more combinations than 64 bits can number; shorten the lists")
    if any(len(listed) > MAX_VALUES for listed in values):
        raise _too_large(
            spec, spec.default_implementation, f"has a parameter with more than {MAX_VALUES:,} values; shorten it"
        )


def _too_large(spec: KernelSpec, implementation: str, message: str) -> SpecError:
    return SpecError([Fault(file=spec.file, path=f"{prefix_of(spec, implementation)}space", message=message)])


def _constraints(spec: KernelSpec, implementation: str, environments: Sequence[Environment]) -> list[Constraint]:
    """Return the constraints of an implementation; one that is not a guard has the same value in every environment."""
    parameters = space.parameters(spec.all_implementations[implementation])
    return [
        Constraint(
            expression=expression,
            names=tuple(sorted(expression.names & parameters)),
            guard=(guard := space.names_dim(spec, expression)),
            environments=environments if guard else environments[:1],
        )
        for expression in spec.all_implementations[implementation].constraints.where
    ]


def _legal(
    spec: KernelSpec,
    implementation: str,
    own: Choices,
    problems: Sequence[Problem],
    device: DeviceFacts | None,
    defaults: Sequence[Mapping[str, Value]],
) -> Combinations:
    """Return the legal combinations of an implementation, in sorted order; the kernel's defaults are not among them.

    Problems that its constraints do not distinguish count once.
    """
    read = frozenset().union(*(e.names for e in spec.all_implementations[implementation].constraints.where))
    if not read.isdisjoint(spec.stride_names):  # which follow from dims
        read = read.union(spec.dims)
    distinct = {tuple(pair for pair in problem.dims if pair[0] in read): problem for problem in problems}
    maps = spec.all_implementations[implementation].tensor_maps
    tried = distinct.values() if device is None or available(maps, device.compute_capability) else ()
    environments = [space.environment(spec, problem, device=device) for problem in tried]
    block = _admitted(spec, implementation, own, environments)
    if implementation != spec.default_implementation:
        return block
    others = np.ones(block.count, dtype=np.bool_)
    for default in defaults:
        alike = np.ones(block.count, dtype=np.bool_)
        for name, value in default.items():
            alike &= block.codes[name] == own[name].index(value)
        others &= ~alike
    return block.where(others)


def _admitted(spec: KernelSpec, implementation: str, own: Choices, environments: Sequence[Environment]) -> Combinations:
    """Return the combinations that the constraints admit in one of the environments."""
    if not environments:
        return _listed([], own)
    constraints = _constraints(spec, implementation, environments)
    values = {name: _column(listed) for name, listed in own.items()}
    listed = spec.all_implementations[implementation].space
    if not isinstance(listed, dict):
        block = _listed(listed, own)
        return block.where(block.legal(values, constraints, len(environments)))
    found = legal_product(values, constraints, len(environments), MAX_POINTS)
    if found is None:
        message = f"has more than {MAX_POINTS:,} legal configurations; narrow it by shorter lists or by constraints"
        raise _too_large(spec, implementation, message)
    return found


def _listed(rows: Iterable[Mapping[str, Value]], own: Choices) -> Combinations:
    """Return the combinations of a list, in which each names the same parameters."""
    places = [(name, {value: place for place, value in enumerate(listed)}) for name, listed in own.items()]
    codes = sorted({tuple(place[row[name]] for name, place in places) for row in rows})
    columns = np.array(codes, dtype=np.int16).reshape(len(codes), len(own)).T
    return Combinations(count=len(codes), codes=dict(zip(own, columns, strict=True)))
