"""Problems and configurations: the points that tuning pairs, enumerated in one order and pruned by constraints.

A *specialisation* here is one assignment of everything that is matched exactly (types, keywords, constant dims); with a
size for every other dim it is a problem. A configuration belongs to one implementation. All three are sorted tuples of
pairs inside, so that they are hashable and their order never depends on a file.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from pretuned.runtime.limits import blocks_of_sm
from pretuned.runtime.records import Value
from pretuned.runtime.types import DTYPES
from pretuned.spec.expressions import Environment, Expression, ExpressionError
from pretuned.spec.formulas import given
from pretuned.spec.lists import DECLARATION, LIST
from pretuned.spec.strides import contiguous
from pretuned.spec.structs import declaration, layouts
from pretuned.spec.tensor_maps import available
from pretuned.spec.values import any_of

if TYPE_CHECKING:
    from pretuned.spec.model import Argument, ImplementationSpec, KernelSpec

Pairs = tuple[tuple[str, Value], ...]
MAX_COMBINATIONS: Final = 10**9  # before constraints; what they leave may be some millions


def pairs(values: Mapping[str, Value]) -> Pairs:
    """Return `values` as the sorted tuple of pairs that this package hashes and compares."""
    return tuple(sorted(values.items()))


def describe(values: Pairs) -> str:
    """Return `a=1, b=2`, booleans as in TOML."""
    return ", ".join(f"{name}={str(value).lower() if isinstance(value, bool) else value}" for name, value in values)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Problem:
    """A size for every free dim, and a value for everything that is matched exactly.

    `strides` are those that a call decides, by name; of contiguous arrays where there are none.
    """

    specialisation: Pairs
    dims: Pairs
    strides: Pairs = ()

    def __str__(self) -> str:
        return describe((*self.dims, *self.strides, *self.specialisation))


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Configuration:
    """One legal assignment of an implementation's tuning parameters."""

    implementation: str
    values: Pairs

    def __str__(self) -> str:
        text = describe(self.values)
        if self.implementation == "main":
            return text
        return f"{self.implementation}: {text}" if text else self.implementation


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFacts:
    """What expressions may ask of a device. `compute_capability` is 90 for 9.0; sizes in bytes, a block's at most.

    With `one_by_one` it executes blocks one after the other, so that of a cooperative launch it holds one.
    """

    sm_count: int
    compute_capability: int
    shared_bytes: int
    l2_bytes: int
    one_by_one: bool = False

    def resident_blocks(self, *, threads: int, shared_bytes: int, registers: int = 0, cluster: int = 1) -> int:
        """Return the most blocks that the device holds at once, by what a block takes; whole clusters of them.

        Without `registers`, those of a thread, these limit nothing.
        """
        of_sm = blocks_of_sm(
            self.compute_capability,
            self.shared_bytes,
            threads=threads,
            registers=registers,
            shared_bytes=shared_bytes,
        )
        return of_sm * self.sm_count // cluster * cluster

    def environment(self) -> dict[str, Value]:
        """The `device.` names of expressions, but for `device.resident_blocks`, which is of one launch."""
        return {
            "device.sm_count": self.sm_count,
            "device.compute_capability": self.compute_capability,
            "device.shared_bytes": self.shared_bytes,
            "device.l2_bytes": self.l2_bytes,
        }


def specialisations(spec: KernelSpec) -> Iterator[Pairs]:
    """Yield every specialisation of `spec` that is compiled and tuned, in sorted order."""
    choices: dict[str, tuple[Value, ...]] = {name: dim.values or () for name, dim in spec.constant_dims.items()}
    for name, choice in spec.specialisations.items():
        if choice.from_ is None:
            choices[name] = tuple({*choice.stands_for.values()}) or choice.values or ()
    names = sorted(choices)
    for values in itertools.product(*(sorted(choices[name]) for name in names)):
        yield tuple(zip(names, values, strict=True))


def tuned(spec: KernelSpec, specialisation: Mapping[str, Value]) -> dict[str, Value]:
    """Return a call's specialisation with the type that was tuned for each, which is another where types are alike."""
    found = dict(specialisation)
    for name, choice in spec.specialisations.items():
        if choice.alike and name in found:
            found[name] = choice.stands_for.get(str(found[name]), found[name])
    return found


def is_for(problem: Mapping[str, object], specialisation: Mapping[str, Value]) -> bool:
    """Return whether a table of `problems` is for a specialisation: for all, if it names no values of it."""
    return all(specialisation[name] in any_of(value) for name, value in problem.items() if name in specialisation)


def joint_sizes(spec: KernelSpec, specialisation: Mapping[str, Value] | None = None) -> list[dict[str, int]]:
    """Return the sizes of the free dims that `problems` lists: all, or those that are for one specialisation."""
    meant = (one for one in spec.problems if specialisation is None or is_for(one, specialisation))
    return [{name: problem[name] for name in spec.free_dims} for problem in meant]


def problems(spec: KernelSpec, specialisation: Pairs) -> Iterator[Problem]:
    """Yield the problems to measure for one specialisation, smallest first.

    They are the combinations of the dims' sizes, and its joint sizes, that `requires` admits.
    """
    names = list(spec.free_dims)
    sizes = [sorted(set(spec.free_dims[name].sizes or ())) for name in names]
    listed = {tuple(problem[name] for name in names) for problem in joint_sizes(spec, dict(specialisation))}
    for values in sorted({*itertools.product(*sizes), *listed}) if listed else itertools.product(*sizes):
        problem = Problem(specialisation=specialisation, dims=tuple(zip(names, values, strict=True)))
        if admitted(spec, problem):
            yield problem


def all_problems(spec: KernelSpec) -> list[Problem]:
    """Return the problems to measure, of every specialisation."""
    return [problem for specialisation in specialisations(spec) for problem in problems(spec, specialisation)]


def choices(spec: KernelSpec, specialisation: Pairs) -> dict[str, Value]:
    """Return the specialisation's values with the types that follow from others."""
    values = dict(specialisation)
    for name, choice in spec.specialisations.items():
        if choice.from_ is not None:
            values[name] = str(choice.mapping[str(values[choice.from_])])
    return values


def environment(
    spec: KernelSpec,
    problem: Problem,
    configuration: Configuration | None = None,
    device: DeviceFacts | None = None,
) -> dict[str, Value]:
    """Return every name that an expression of `spec` may read at this point."""
    values = choices(spec, problem.specialisation) | dict(problem.dims)
    if spec.stride_names:
        values |= contiguous(spec, values) | dict(problem.strides)
    if configuration is not None:
        values |= dict(configuration.values)
    if device is not None:
        values |= device.environment()
    return values


def rendered(spec: KernelSpec, specialisation: Pairs, configuration: Configuration) -> dict[str, Value]:
    """Return what a template may name, types as CUDA spells them.

    That is: parameters, specialisations and constant dims, derived names that have a value by these, and structs, which
    print as their declarations.
    """
    values = choices(spec, specialisation) | dict(configuration.values)
    values |= derived(spec, values)
    types = {name for name, choice in spec.specialisations.items() if choice.values is None}
    found: dict[str, Value] = {
        name: DTYPES[str(value)].cuda if name in types else value for name, value in values.items()
    }
    found |= {name: declaration(struct) for name, struct in layouts(spec).items()}
    return found | ({LIST: DECLARATION} if spec.lists else {})


def derived(spec: KernelSpec, values: Environment) -> dict[str, int]:
    """Return the derived names that have a value under `values`."""
    found = {}
    for name, expression in spec.derived.items():
        if expression.names <= values.keys() | DTYPES.keys():
            with contextlib.suppress(ExpressionError):
                found[name] = expression.evaluate(values)
    return found


def dtypes_of(spec: KernelSpec, name: str) -> tuple[str, ...]:
    """Return the element types that `name`, a type or a specialisation, may stand for; unknown ones left out."""
    choice = spec.specialisations.get(name)
    if choice is None:
        found: tuple[object, ...] = (name,)
    else:
        found = (*choice.mapping.values(), *(choice.dtypes or ()))
    return tuple(dtype for dtype in found if isinstance(dtype, str) and dtype in DTYPES)


def dtype_of(spec: KernelSpec, name: str, specialisation: Pairs) -> str:
    """Return the element type that `name` (a specialisation or a type) stands for."""
    return str(choices(spec, specialisation).get(name, name))


def shape_of(argument: Argument, values: Environment) -> tuple[int, ...]:
    """Return the shape of an array argument under `values`, every entry at least 0."""
    return tuple(max(0, extent.evaluate(values)) for extent in argument.shape or ())


def count(implementation: ImplementationSpec) -> int:
    """Return the number of combinations before constraints."""
    if isinstance(implementation.space, dict):
        return math.prod(len(set(values)) for values in implementation.space.values())
    return len(implementation.space)


def combinations(name: str, implementation: ImplementationSpec) -> Iterator[Configuration]:
    """Yield every combination of an implementation's space, lazily, in sorted order; constraints are not applied."""
    if isinstance(implementation.space, dict):
        names = sorted(implementation.space)
        for values in itertools.product(*(sorted(set(implementation.space[key])) for key in names)):
            yield Configuration(implementation=name, values=tuple(zip(names, values, strict=True)))
    else:
        for listed in sorted({pairs(entry) for entry in implementation.space}):
            yield Configuration(implementation=name, values=listed)


def parameters(implementation: ImplementationSpec) -> frozenset[str]:
    """Return the names of an implementation's tuning parameters."""
    return implementation.parameters


def default_at(spec: KernelSpec, problem: Problem) -> Configuration:
    """Return the kernel's default at `problem`: the baseline that every winner must beat there."""
    return default_of(spec, spec.default_implementation, environment(spec, problem))


def default(spec: KernelSpec) -> Configuration:
    """Return the kernel's default; of one that depends on the problem, what it is where no condition holds."""
    return default_of(spec, spec.default_implementation)


def default_of(spec: KernelSpec, implementation: str, known: Environment = MappingProxyType({})) -> Configuration:
    """Return one implementation's own default where names are `known`."""
    values = given(spec.all_implementations[implementation].default, known)
    return Configuration(implementation=implementation, values=pairs(values))


def seeds(spec: KernelSpec) -> Iterator[Configuration]:
    """Yield the configurations that the author wants tried first."""
    for name, implementation in spec.all_implementations.items():
        for values in implementation.seeds:
            yield Configuration(implementation=name, values=pairs(dict(values)))


def names_dim(spec: KernelSpec, expression: Expression) -> bool:
    """Return whether `expression` reads a dim or a stride that a call decides, which makes a constraint a guard."""
    return not (expression.names.isdisjoint(spec.free_dims) and expression.names.isdisjoint(spec.stride_names))


def offered(spec: KernelSpec, specialisation: Pairs, implementation: str) -> bool:
    """Return whether an implementation takes part in a specialisation.

    It does not where a condition that reads nothing but specialisations fails, as `T == 'float16'` does for other
    types. The kernel's default takes part in all of them.
    """
    where = spec.all_implementations[implementation].constraints.where
    own = [one for one in where if one.names and one.names <= spec.specialisations.keys()]
    if not own or implementation == spec.default_implementation:
        return True
    return holds(own, choices(spec, specialisation))


def legal(spec: KernelSpec, problem: Problem, configuration: Configuration, device: DeviceFacts | None = None) -> bool:
    """Return whether every constraint admits `configuration` at `problem`; one that divides by zero does not."""
    implementation = spec.all_implementations[configuration.implementation]
    if device is not None and not available(implementation.tensor_maps, device.compute_capability):
        return False
    return holds(implementation.constraints.where, environment(spec, problem, configuration, device))


def admitted(spec: KernelSpec, problem: Problem) -> bool:
    """Return whether the kernel itself accepts `problem`; a demand that divides by zero does not."""
    return holds(spec.constraints.demands, environment(spec, problem)) if spec.constraints.requires else True


def holds(expressions: Iterable[Expression], values: Environment) -> bool:
    """Return whether all conditions hold; one that has no value does not."""
    try:
        return all(expression.evaluate(values) for expression in expressions)
    except ExpressionError:
        return False


def configurations(spec: KernelSpec, problem: Problem, device: DeviceFacts | None = None) -> Iterator[Configuration]:
    """Yield the legal configurations at `problem` over all implementations, the kernel's default first."""
    first = default_at(spec, problem)
    yield first
    for name, implementation in spec.all_implementations.items():
        for configuration in combinations(name, implementation):
            if configuration != first and legal(spec, problem, configuration, device):
                yield configuration
