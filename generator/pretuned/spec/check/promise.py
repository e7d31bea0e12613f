"""The promise of the default: it is legal for every problem that the kernel accepts.

Of a default that depends on the problem, each configuration is legal wherever it is the default. Calls end in the
default where nothing else can run, so a condition of the default that some problem breaks would leave that call
without a kernel. Constants are folded first, which settles nearly every spec. What remains is tried on problems drawn
from where such conditions break: small sizes, powers of two and their neighbours, the ends of int32.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterable, Iterator
from copy import copy
from functools import cache
from typing import Final

from pretuned.runtime.limits import BLOCK_LIMITS, GRID_LIMITS, LARGEST_CLUSTER, MAX_THREADS
from pretuned.runtime.records import Value
from pretuned.spec import space
from pretuned.spec.addresses import MOST_BYTES
from pretuned.spec.check.defaults import turning_points
from pretuned.spec.check.implementations import prefix_of
from pretuned.spec.check.names import PathFault
from pretuned.spec.defaults import defaults
from pretuned.spec.expressions import RESIDENT_BLOCKS, Expression, ExpressionError
from pretuned.spec.guards import guards
from pretuned.spec.launch import LaunchSpec
from pretuned.spec.model import ImplementationSpec, KernelSpec
from pretuned.spec.parts import Constraints
from pretuned.spec.scalars import derived_values
from pretuned.spec.space import Configuration, DeviceFacts, Pairs, Problem
from pretuned.spec.strides import tried

TRIALS: Final = 10_000  # of problems, shared by the defaults that a kernel may have and by its specialisations
LEAST_TRIALS: Final = 400
MAX_SEARCHED: Final = 200_000  # configurations looked at before a space is believed to have a legal one: seconds
_SMALL: Final = range(131)
_POWERS: Final = [2**exponent + step for exponent in range(1, 31) for step in (-1, 0, 1)]
_EDGES: Final = [2**31 - 2, 2**31 - 1]
SIZES: Final = sorted({*_SMALL, *_POWERS, *_EDGES})
# Stands in where a launch asks the device, to see whether its expressions have values: an H100's figures.
SOME_DEVICE: Final = DeviceFacts(sm_count=132, compute_capability=90, shared_bytes=232_448, l2_bytes=52_428_800)


def default_faults(spec: KernelSpec) -> Iterator[PathFault]:
    """Yield a fault for each constraint that a default breaks, and for a space that constraints leave empty.

    Every implementation's own default is held to its constraints without dims; the kernel's default also to guards. A
    library call has no default but itself, and may be limited to some specialisations.
    """
    if not any(True for specialisation in space.specialisations(spec) for _ in space.problems(spec, specialisation)):
        if not spec.problems:  # each of them that is refused has its line
            yield "constraints.requires", _none_admitted(spec)
        return
    known = _KernelDefaults(spec)
    for name, implementation in spec.all_implementations.items():
        prefix = prefix_of(spec, name)
        own = _by_default(spec, name)
        if not _any_legal(spec, name, own):
            yield f"{prefix}constraints.where", "leaves no configuration of the space; loosen it or add values"
            continue
        if implementation.call is not None:
            continue
        for configuration, specialisations in own.items():
            default = _Default(known, configuration, specialisations, count=TRIALS // len(own))
            faults = list(_excluded(default)) or list(_aligned(default)) or list(_launched(default))
            yield from ((prefix + path, message) for path, message in faults)
            if faults:
                break


def _any_legal(spec: KernelSpec, name: str, first: Iterable[Configuration]) -> bool:
    """Whether some configuration passes every constraint, those on the device aside, at some problem to measure.

    Those of `first` are tried first. A search that would take long ends undecided, as if one had been found.
    """
    where = [e for e in spec.all_implementations[name].constraints.where if not e.reads_device]
    problems = space.all_problems(spec)
    tried = 0
    everything = space.combinations(name, spec.all_implementations[name])
    for configuration in itertools.chain(first, everything):
        for problem in problems:
            if _all_hold(where, space.environment(spec, problem, configuration)):
                return True
            tried += 1
            if tried > MAX_SEARCHED:
                return True
    return False


def _all_hold(expressions: list[Expression], values: dict[str, Value]) -> bool:
    return all(_holds(expression, values) for expression in expressions)


def _holds(expression: Expression, values: dict[str, Value]) -> bool:
    try:
        return bool(expression.evaluate(values))
    except ExpressionError:
        return False


class _Default:
    """A configuration that an implementation's default may be, with the problems that its conditions are tried at.

    `specialisations` are those in which it may be the default; they share `count` problems. Each problem is made once
    for all conditions.
    """

    def __init__(
        self, known: _KernelDefaults, configuration: Configuration, specialisations: list[Pairs], *, count: int
    ) -> None:
        self.spec, self.configuration, self.specialisations = known.spec, configuration, specialisations
        self.count = max(LEAST_TRIALS, count // len(list(space.specialisations(self.spec))))
        self._known = known
        self._drawn = cache(lambda specialisation: itertools.tee(self._sizes(specialisation), 1)[0])

    @property
    def implementation(self) -> ImplementationSpec:
        return self.spec.all_implementations[self.configuration.implementation]

    @property
    def of_kernel(self) -> bool:
        """Whether it is the kernel's default, which has to serve every call."""
        return self.configuration.implementation == self.spec.default_implementation

    def sizes(self, specialisation: Pairs) -> Iterator[tuple[dict[str, Value], tuple[Pairs, ...]]]:
        """Yield the sizes of all free dims, and strides that go with them."""
        return copy(self._drawn(specialisation))  # which begins anew

    def _sizes(self, specialisation: Pairs) -> Iterator[tuple[dict[str, Value], tuple[Pairs, ...]]]:
        known = space.choices(self.spec, specialisation) | dict(self.configuration.values)
        for turn, dims in enumerate(_trials(self.spec, self.count)):
            strides = tried(self.spec, known | dims, turn) if self.spec.stride_names else ()
            yield dims, tuple(space.pairs(one) for one in strides)

    def serves(self, problem: Problem) -> bool:
        """Return whether a call of `problem` is admitted and, if this is the kernel's own, has this default."""
        found = self._known.default_at(problem)
        return found is not None and (not self.of_kernel or found == self.configuration)


class _KernelDefaults:
    """The kernel's default at problems: each is computed once, for all configurations that may be it."""

    def __init__(self, spec: KernelSpec) -> None:
        self.spec = spec
        self.default_at = cache(self._default_at)

    def _default_at(self, problem: Problem) -> Configuration | None:
        """Return it, or None where a call is not admitted."""
        return space.default_at(self.spec, problem) if space.admitted(self.spec, problem) else None


def _by_default(spec: KernelSpec, implementation: str) -> dict[Configuration, list[Pairs]]:
    """Return all that an implementation's default may be, sorted, with the specialisations in which it may."""
    found: dict[Configuration, list[Pairs]] = {}
    for specialisation in space.specialisations(spec):
        for configuration in defaults(spec, specialisation, implementation):
            found.setdefault(configuration, []).append(specialisation)
    return dict(sorted(found.items()))


def _none_admitted(spec: KernelSpec) -> str:
    """Return the message for a spec whose `requires` admits no problem, as its arrays lie when they are measured."""
    demands = spec.constraints.demands
    of_strides = [one for one in demands if not one.names.isdisjoint(spec.stride_names)]
    others = Constraints(requires=tuple(one for one in demands if one not in of_strides))
    if of_strides and space.all_problems(spec.model_copy(update={"constraints": others})):
        listed = " and ".join(one.quoted for one in of_strides)
        return f"{listed} admits no array whose rows lie side by side, as tuning measures them; loosen it"
    return "admits none of the problems that `sizes` give; loosen it or list other sizes"


def _excluded(default: _Default) -> Iterator[PathFault]:
    """Yield the constraints that exclude a default, each with a problem."""
    spec, configuration = default.spec, default.configuration
    for index, expression in enumerate(default.implementation.constraints.where):
        if expression.reads_device:
            continue  # judged on each device
        if not default.of_kernel and space.names_dim(spec, expression):
            continue
        if (found := _counterexample(default, expression)) is not None:
            own = _written(spec, configuration.implementation)
            said = expression.quoted
            where = f"where[{index}] {said}" if index < own else f"{said}, which its tensor maps need,"
            message = f"{where} excludes the default ({space.describe(configuration.values)})"
            remedy = "the default must be legal for every problem: choose another"
            if found.dims:
                remedy += ", or demand it in `requires`"
            yield "default", f"{message}{f' at {found}' if str(found) else ''}; {remedy}"


def _written(spec: KernelSpec, implementation: str) -> int:
    """Return how many conditions of an implementation the spec has itself; others are of its tensor maps."""
    found = spec.implementations.get(implementation)
    return len((spec if found is None else found).constraints.where)


def _counterexample(default: _Default, expression: Expression) -> Problem | None:
    """Return a problem that `requires` admits and `expression` refuses for a default, or None.

    The problem has no dims where `expression` reads none.
    """
    spec = default.spec
    strided = not expression.names.isdisjoint(spec.stride_names)
    for specialisation in default.specialisations:
        known = space.choices(spec, specialisation) | dict(default.configuration.values)
        folded = expression.fold(known)
        if folded.constant:
            continue
        if not space.names_dim(spec, folded):
            chosen = () if expression.names.isdisjoint(space.choices(spec, specialisation)) else specialisation
            return Problem(specialisation=chosen, dims=())
        for dims, all_strides in default.sizes(specialisation):
            for strides in all_strides if strided else ((),):
                if not _holds(folded, known | dims | dict(strides)):
                    problem = Problem(specialisation=specialisation, dims=space.pairs(dims), strides=strides)
                    if default.serves(problem):
                        return problem
    return None


def _trials(spec: KernelSpec, count: int) -> Iterator[dict[str, Value]]:
    """Yield sizes of the dims: each dim's every size, the others at 1 and at their first; then seeded random ones.

    The sizes have those around which the default changes.
    """
    names, sizes = list(spec.free_dims), sorted({*SIZES, *turning_points(spec)})
    if not names:
        yield {}
        return
    first: dict[str, Value] = {name: _first_size(spec, name) for name in spec.free_dims}
    for others in (dict.fromkeys(names, 1), first):
        for name, size in itertools.product(names, sizes):
            yield others | {name: size}
    generator = random.Random(0)  # noqa: S311 - a fixed sample, not a secret
    for _ in range(max(0, count - 2 * len(names) * len(sizes))):
        yield {name: generator.choice(sizes) for name in names}


def _first_size(spec: KernelSpec, dim: str) -> int:
    return (*(spec.free_dims[dim].sizes or ()), *(problem[dim] for problem in space.joint_sizes(spec)), 1)[0]


def _aligned(default: _Default) -> Iterator[PathFault]:
    """Yield the arrays of which the kernel's default asks more alignment than every array has."""
    spec, configuration = default.spec, default.configuration
    for specialisation in default.specialisations if default.of_kernel else ():
        for name, align_bytes in guards(spec, specialisation, configuration).align:
            message = f"aligns '{name}' to {align_bytes} bytes ({space.describe(configuration.values)})"
            if align_bytes > MOST_BYTES or align_bytes & (align_bytes - 1):
                yield "default", f"{message}; an alignment is a power of two, at most {MOST_BYTES}"
                return
            chosen = f" for {space.describe(specialisation)}" if specialisation else ""
            remedy = "an array is only aligned to its elements, and the default must be legal for every call"
            asked = next(array.align for array in spec.whole(spec.arrays) if array.name == name)
            mapped = name in {one.array for one in default.implementation.tensor_maps}
            folded = align_bytes if asked is None or mapped else asked.fold(dict(configuration.values))
            demand = f'or write `requires = ["aligned({name}, {folded})"]`'
            yield "default", f"{message}{chosen}; {remedy}: choose another, {demand}"
            return


def _launched(default: _Default) -> Iterator[PathFault]:
    """Yield the expressions of launches and scratch that have no value, or none that can be launched, for a default."""
    spec, configuration, implementation = default.spec, default.configuration, default.implementation
    for specialisation in default.specialisations:
        for problem in space.problems(spec, specialisation):
            if not (default.serves(problem) and space.legal(spec, problem, configuration, SOME_DEVICE)):
                continue
            values = space.environment(spec, problem, configuration, SOME_DEVICE)
            path = "arguments"
            try:
                derived_values(spec, values)
                for index, launch in enumerate(implementation.launches):
                    path = f"launches[{index}]"
                    for field, message in _misfit(launch, values):
                        yield f"{path}.{field}", f"the default has {message.format(problem=problem)}"
                        return
                for index, buffer in enumerate(implementation.scratch):
                    path = f"scratch[{index}]"
                    for expression in buffer.shape:
                        expression.evaluate(values)
            except ExpressionError as error:
                yield path, f"{error} at {problem}, for the default ({space.describe(configuration.values)})"
                return


def _misfit(launch: LaunchSpec, values: dict[str, Value]) -> Iterator[PathFault]:
    """Yield what no device launches, `{problem}` in its place; raises ExpressionError where something has no value."""
    shared_bytes = launch.shared.evaluate(values)
    if not 0 <= shared_bytes <= SOME_DEVICE.shared_bytes:
        most = f"{SOME_DEVICE.shared_bytes:,}"
        yield "shared", f"{shared_bytes} bytes of shared memory at {{problem}}; a block takes 0 to {most}"
        return
    block = [expression.evaluate(values) for expression in launch.block]
    threads = math.prod(block)
    if not 1 <= threads <= MAX_THREADS:
        yield "block", f"a block of {threads} threads at {{problem}}; CUDA allows 1 to {MAX_THREADS:,}"
        return
    for axis, (size, limit) in enumerate(zip(block, BLOCK_LIMITS, strict=False)):
        if not 1 <= size <= limit:
            yield f"block[{axis}]", f"{size} threads along it at {{problem}}; CUDA allows 1 to {limit:,}"
            return
    cluster = [expression.evaluate(values) for expression in launch.cluster or ()]
    if min(cluster, default=1) < 1 or math.prod(cluster) > LARGEST_CLUSTER:
        blocks = " x ".join(map(str, cluster))
        yield "cluster", f"a cluster of {blocks} blocks at {{problem}}; a GPU takes 1 to {LARGEST_CLUSTER}"
        return
    held = SOME_DEVICE.resident_blocks(threads=threads, shared_bytes=shared_bytes, cluster=math.prod(cluster))
    grid = [expression.evaluate({**values, RESIDENT_BLOCKS: held}) for expression in launch.grid]
    for axis, (size, limit) in enumerate(zip(grid, GRID_LIMITS, strict=False)):
        if not 0 <= size <= limit:
            yield f"grid[{axis}]", f"{size} blocks along it at {{problem}}; CUDA allows 0 to {limit:,}"
            return
    for axis, (size, together) in enumerate(zip(grid, cluster, strict=False)):
        if size % together:
            message = f"a grid of {size} blocks at {{problem}}, which is not a multiple of its cluster's {together}"
            yield f"grid[{axis}]", f"{message}; round it up, as in `ceil_div(n, {together}) * {together}`"
            return
