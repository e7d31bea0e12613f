"""What a call of a configuration may take time for, as terms over the free dims, read off its spec. Pure.

A GPU runs blocks in *waves*: so many at once as its multiprocessors (SMs) hold, by the threads, registers and shared
memory of a block. A launch therefore takes time by its blocks (what a shared unit such as memory does for each), by the
blocks on the busiest SM, and by its waves, each of them times the work of one block: the sizes that more blocks do not
divide. Few blocks of an SM wait for memory at the same time; it is those beyond that they share its units with. Beside
that stand the bytes that a call moves, the elements of a thread, what blocks leave to a later launch to gather, what is
left of a tile at the edges, and rows whose length in bytes keeps wide accesses from being aligned. Which of these
matter, and how much, is fitted to what was measured (`pretuned.tune.selection.fitting`).

What an SM holds: CUDA C++ Programming Guide, "Compute Capabilities", and the rounding of its occupancy calculator.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pretuned.compile.result import Resources
from pretuned.runtime.limits import (
    BLOCKS_OF_SM,
    REGISTERS,
    RESERVED_BYTES,
    THREADS_OF_SM,
    WARP,
    registers_taken,
)
from pretuned.runtime.records import Value
from pretuned.runtime.table import ceil_div
from pretuned.runtime.types import DTYPES
from pretuned.spec import space
from pretuned.spec.expressions import RESIDENT_BLOCKS, Expression, ExpressionError, has_value_everywhere
from pretuned.spec.launch import LaunchSpec
from pretuned.spec.let import substituted
from pretuned.spec.model import KernelSpec
from pretuned.spec.sizes import sizes_of
from pretuned.spec.space import Configuration, DeviceFacts, Pairs
from pretuned.tune.selection.terms import Term
from pretuned.tune.selection.texts import (
    ceil_divs_of,
    condition_of,
    divide,
    fold_in,
    hoist,
    multiply,
    nest,
    simplify,
    turns_of,
)

PITCHES: Final = (4, 8, 16, 32, 64, 128)  # bytes: what a row may be a multiple of, up to a line of the cache
BUSY: Final = (2, 4)  # blocks of an SM, up to which they may wait for memory, not for each other
STRIDE: Final = 64  # what a thread takes at once of a dim, at most, as a parameter says


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    """What one launch is made of: texts over the free dims, and numbers at the spec's sizes."""

    grid: tuple[str, ...]
    block: tuple[str, ...]
    blocks: str
    fixed: bool  # whether no dim adds blocks at large sizes
    work: tuple[str, ...]  # the dims that blocks do not divide, where others are divided
    threads: int  # of a block, at large sizes
    at_once: tuple[str, ...]  # blocks that the device holds: least and most of the spec's sizes, or at any problem
    held: int  # blocks that an SM holds, at most
    tails: tuple[tuple[str, int], ...]  # (a, b) of each ceil_div(a, b)
    steps: tuple[str, ...]  # how often a thread goes around for a dim
    turns: tuple[str, ...]  # conditions at which it changes


def terms_of(
    spec: KernelSpec,
    specialisation: Pairs,
    configuration: Configuration,
    facts: DeviceFacts,
    resources: Mapping[str, Resources],
) -> tuple[Term, ...]:
    """Return the terms of a configuration, parameters, specialisation and device folded in, each once.

    `resources` are those of the binary's entry points by name; where one is missing, registers limit nothing.
    """
    known = space.choices(spec, specialisation) | dict(configuration.values) | facts.environment()
    implementation = spec.all_implementations[configuration.implementation]
    launches = implementation.launches
    if spec.stride_names:  # a prediction sees dims alone
        launches = substituted(launches, {name: one.contiguous for name, one in spec.stride_names.items()})
    shapes = [_shape(spec, launch, known, facts, resources.get(launch.function)) for launch in launches]
    moved = _bytes(spec, known)
    found = [Term(role="call"), Term(factors=(moved,), role="bytes")]
    counts: dict[str, str] = {}
    work: tuple[str, ...] = ()
    if not shapes:
        found += _products(spec)
    else:
        counts, work = _waves(shapes[0]), shapes[0].work
        found += _of_launch(spec, shapes[0], facts)
        for place, shape in enumerate(shapes[1:], start=1):
            found += _of_later(shapes[0], shape, f"launch {place}", facts)
    turns = {f"turn {place}": turn for place, turn in enumerate(shapes[0].turns if shapes else ())}
    scaled: dict[str, tuple[str, ...]] = {"": (), "bytes": (moved,), **{name: (one,) for name, one in counts.items()}}
    if work:
        scaled |= {"work": work, **{f"{name} * work": (one, *work) for name, one in counts.items()}}
    for name, condition in (_pitches(spec, known) | turns).items():
        found += [Term(factors=each, where=condition, role=f"{of} if {name}") for of, each in scaled.items()]
    for place, term in enumerate(implementation.cost.terms):
        if has_value_everywhere(folded := fold_in(term, known)):
            own = f"the spec's {place}"
            found.append(Term(factors=(folded.python,), role=own))
            found += [Term(factors=(one, folded.python), role=f"{name} * {own}") for name, one in counts.items()]
    return tuple(dict.fromkeys(found))


def _bytes(spec: KernelSpec, known: Mapping[str, Value]) -> str:
    """Return how many bytes the arrays of a call take: arrays of one shape together."""
    sizes: Counter[str] = Counter()
    for argument in spec.whole(spec.arrays):
        if argument.optional and not known.get(argument.presence, True):
            continue
        dtype = str(known.get(argument.dtype, argument.dtype))
        shape = [fold_in(extent, known).python for extent in argument.shape or ()]
        shape += [argument.count] if argument.count and not argument.own else []
        sizes[multiply(shape)] += DTYPES[dtype].size_bytes
    return " + ".join(multiply([str(size), shape]) for shape, size in sorted(sizes.items()))


def _products(spec: KernelSpec) -> Iterator[Term]:
    """Yield the products of dims, for what is launched by a library: nothing else is known of it."""
    for count in range(1, len(spec.free_dims) + 1):
        for chosen in itertools.combinations(spec.free_dims, count):
            yield Term(factors=chosen, role=" * ".join(chosen))


def _shape(
    spec: KernelSpec, launch: LaunchSpec, known: Mapping[str, Value], facts: DeviceFacts, resources: Resources | None
) -> _Shape:
    extents = [hoist(fold_in(extent, known)) for extent in launch.block]
    block = multiply(extents)
    shared = fold_in(launch.shared, known)
    corners = [{name: ends(sizes_of(spec, name, known) or (1,)) for name in spec.free_dims} for ends in (min, max)]
    at_once = set()
    for dims in (*corners, _large(spec, known)):
        threads = max(1, _value(Expression.derived(block), dims) or 1)
        at_once.add(facts.sm_count * _blocks_of_sm(threads, _value(shared, dims) or 0, facts, resources))
    grid = [hoist(fold_in(extent, {**known, RESIDENT_BLOCKS: max(at_once)})) for extent in launch.grid]
    strides = sorted({value for value in known.values() if type(value) is int and 1 < value <= STRIDE})
    counts = [str(count) for count in sorted({min(at_once), max(at_once)})]
    if shared.constant is None:  # a block may take a few bytes or all that an SM has: the least and the most say little
        counts = [_at_once(block, shared, facts, resources)]
    elif Expression.derived(block).constant is None:
        counts.append(_at_once(block, shared, facts, resources))
    blocks, tails = multiply(grid), dict.fromkeys(pair for text in (*grid, block) for pair in ceil_divs_of(text))
    still = _still(spec, known, blocks)
    fixed = len(still) == len(spec.free_dims)
    return _Shape(
        grid=tuple(grid),
        block=tuple(extents),
        blocks=blocks,
        fixed=fixed,
        work=() if fixed else still,
        threads=threads,
        at_once=tuple(counts),
        held=max(at_once) // facts.sm_count,
        tails=tuple(tails),
        steps=tuple(_steps(tuple(spec.free_dims), grid, extents, strides)),
        turns=tuple(dict.fromkeys(turn for text in (*grid, block) for turn in turns_of(text))),
    )


def _steps(dims: Sequence[str], grid: Sequence[str], block: Sequence[str], strides: Sequence[int]) -> Iterator[str]:
    """Yield how often a thread goes around for each dim that the grid does not cut into tiles.

    Such a dim is shared by the extent of the grid that reads it, as ranges of rows do, or else by none or a constant
    one. The threads along one extent of the block may share it too, and take as much at once as one parameter says.
    Which they are is not known: the fit finds out.
    """
    tiled = {number for extent in grid for number, _ in ceil_divs_of(extent)}
    for name in dims:
        if name in tiled:
            continue
        sharing = [extent for extent in grid if name in Expression.derived(extent).names]
        sharing = sharing or ["1", *(extent for extent in grid if Expression.derived(extent).constant is not None)]
        for across, along, stride in itertools.product(sharing, ("1", *block), (1, *strides)):
            if (by := multiply([across, along, str(stride)])) != "1":
                yield simplify(f"ceil_div({name}, max(1, {by}))")


def _blocks_of_sm(threads: int, shared_bytes: int, facts: DeviceFacts, resources: Resources | None) -> int:
    """Return how many blocks an SM holds at once, at least 1."""
    blocks, warps = _limits_of_sm(shared_bytes, facts, resources)
    return max(1, min(blocks, warps // ceil_div(threads, WARP)))


def _at_once(block: str, shared: Expression, facts: DeviceFacts, resources: Resources | None) -> str:
    """Return the text of how many blocks of `block` threads and `shared` bytes the device holds at once."""
    blocks, warps = _limits_of_sm(shared.constant or 0, facts, resources)
    if (threads := Expression.derived(block).constant) is None:
        limits = [str(blocks), f"{warps} // max(1, ceil_div({block}, {WARP}))"]
    else:
        limits = [str(min(blocks, warps // ceil_div(threads, WARP)))]
    if shared.constant is None:
        beside = RESERVED_BYTES + (0 if resources is None else resources.shared_bytes)
        limits.append(f"{facts.shared_bytes + RESERVED_BYTES} // max(1, {hoist(shared)} + {beside})")
    return simplify(f"max(1, {facts.sm_count} * max(1, min({', '.join(limits)})))")


def _limits_of_sm(shared_bytes: int, facts: DeviceFacts, resources: Resources | None) -> tuple[int, int]:
    """Return how many blocks an SM holds at once, however few their threads, and how many warps."""
    capability = max(
        (known for known in THREADS_OF_SM if known <= facts.compute_capability), default=min(THREADS_OF_SM)
    )
    warps = THREADS_OF_SM[capability] // WARP
    if resources is not None:
        shared_bytes += resources.shared_bytes
        warps = min(warps, REGISTERS // max(1, registers_taken(resources.registers, WARP)))
    by_shared = (facts.shared_bytes + RESERVED_BYTES) // (shared_bytes + RESERVED_BYTES)
    return min(BLOCKS_OF_SM[capability], by_shared), warps


def _waves(shape: _Shape) -> dict[str, str]:
    return {f"waves {place}": divide(shape.blocks, at_once) for place, at_once in enumerate(shape.at_once)}


def _busiest(shape: _Shape, facts: DeviceFacts) -> str:
    return divide(shape.blocks, str(facts.sm_count))


def _large(spec: KernelSpec, known: Mapping[str, Value]) -> dict[str, int]:
    return {name: 4 * max(sizes_of(spec, name, known) or (1,)) for name in spec.free_dims}


def _still(spec: KernelSpec, known: Mapping[str, Value], blocks: str) -> tuple[str, ...]:
    """Return the dims that more blocks do not divide: at large sizes the grid does not grow with them."""
    large, grid = _large(spec, known), Expression.derived(blocks)
    return tuple(name for name in large if _value(grid, large) == _value(grid, large | {name: 4 * large[name]}))


def _value(expression: Expression, dims: Mapping[str, Value]) -> int | None:
    try:
        return expression.evaluate(dims)
    except ExpressionError:
        return None


def _of_launch(spec: KernelSpec, shape: _Shape, facts: DeviceFacts) -> Iterator[Term]:
    busiest, work = _busiest(shape, facts), shape.work
    for name, count in {"blocks": shape.blocks, "busiest": busiest, **_waves(shape)}.items():
        yield Term(factors=(count,), role=name)
        if work:
            yield Term(factors=(count, *work), role=f"{name} * work")
    if work:
        yield Term(factors=work, role="work")
        for blocks in BUSY:
            if blocks < shape.held:
                beyond = simplify(f"max(0, {busiest} - {blocks})")
                yield Term(factors=(beyond, *work), role=f"busiest beyond {blocks} * work")
    if elements := work or (tuple(spec.free_dims) if shape.fixed else ()):
        by = multiply([shape.blocks, *shape.block]) if shape.fixed else str(shape.threads)
        each = simplify(f"ceil_div({' * '.join(elements)}, max(1, {by}))")
        yield Term(factors=(each,), role="elements of a thread")
    yield from (Term(factors=(step,), role=f"step {place}") for place, step in enumerate(shape.steps))
    for place, (a, b) in enumerate(shape.tails):
        left, name = f"{nest(a)} % {b}", f"tail {place}"
        yield from (Term(where=left, role=name), Term(factors=(left,), role=f"left of {name}"))
        if work:
            yield Term(factors=work, where=left, role=f"work if {name}")


def _of_later(first: _Shape, later: _Shape, name: str, facts: DeviceFacts) -> Iterator[Term]:
    """Yield the terms of a further launch: that it happens, its blocks, and what it gathers.

    What the first launch's blocks have left, it goes through along an extent of their grid, which the threads along one
    extent of a block may share. Which they are is not known: the fit finds out.
    """
    happens = condition_of(later.blocks)
    yield Term(where=happens, role=name)
    yield Term(factors=(_busiest(later, facts),), role=f"busiest of {name}")
    extents = [extent for extent in first.grid if Expression.derived(extent).constant is None]
    for place, (left, along) in enumerate(itertools.product(extents, ["", *later.block])):
        gathered = divide(left, f"max(1, {along})") if along else left
        yield Term(factors=(gathered,), where=happens, role=f"step {place} of {name}")


def _pitches(spec: KernelSpec, known: Mapping[str, Value]) -> dict[str, str]:
    """Return the conditions under which rows do not begin at multiples of so many bytes."""
    found = {}
    for argument in spec.whole(spec.arrays):
        if argument.shape and (last := fold_in(argument.shape[-1], known)).constant is None:
            size = DTYPES[str(known.get(argument.dtype, argument.dtype))].size_bytes
            for pitch in PITCHES:
                if pitch > size:
                    found[f"{argument.name} off {pitch}"] = f"{nest(last.python)} % {pitch // size}"
    return found
