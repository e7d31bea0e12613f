"""What the arrays of a call hold: what the spec draws, in several magnitudes, and special values among it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from pretuned.measure import data
from pretuned.measure.data import Stored
from pretuned.runtime.types import DTYPES, DType
from pretuned.spec.guards import least_alignment
from pretuned.spec.model import KernelSpec
from pretuned.spec.parts import FillRange
from pretuned.spec.space import Problem, dtype_of, environment

MAGNITUDES = 12  # binary orders up and down by which an array may be scaled
NARROW = 3  # of types whose exponent has 5 bits or fewer
PLANTED = 3  # places that get a special value
ALIGNED = 32  # bytes, beyond which no kernel asks where an array begins


def least(record: DType) -> float:
    """Return the least number above 0 that the type has."""
    return 2.0 ** (2 - 2 ** (record.exponent_bits - 1) - record.fraction_bits)


SPECIALS: dict[str, Callable[[DType], float]] = {
    "NaN": lambda _: np.nan,
    "+inf": lambda _: np.inf,
    "-inf": lambda _: -np.inf,
    "-0": lambda _: -0.0,
    # With most of its digits, so that products of it are not all rounding.
    "subnormal": lambda record: 3 * least(record) * 2 ** max(0, record.fraction_bits - 3),
}


def scaled(spec: KernelSpec, problem: Problem, seed: int, rng: random.Random) -> dict[str, Stored]:
    """Return inputs as the spec draws them, each times a power of two where nothing bounds it.

    A power of two changes no rounding, and whole numbers whose sums are exact keep them so. Beside an array whose range
    the spec states, others get only smaller: those ranges belong together, as logits and what the spec draws as their
    logsumexp, which is never less than the largest of them.
    """
    found = data.inputs(spec, problem, seed)
    free = _free(spec, problem, found)
    stated = any(isinstance(one.fill, FillRange) for one in spec.inputs)
    for name, record in free:
        most = MAGNITUDES if record.exponent_bits > 5 else NARROW
        stored = found[name]
        values = np.ldexp(data.decode(stored.block, record.name), rng.randint(-most, 0 if stated else most))
        found[name] = Stored(data.encode(values, record.name), stored.shape)
    return found


def reals(spec: KernelSpec, problem: Problem, seed: int) -> tuple[dict[str, Stored], dict[str, Stored]] | None:
    """Return inputs that are no whole numbers, and their magnitudes, where the spec draws whole ones; None elsewhere.

    Whole numbers have exact sums, and show which element is lost; how sums are rounded only others show.
    """
    drawn = data.inputs(spec, problem, seed)
    whole = {one.name for one in spec.inputs if one.fill == "integers"}
    records = {name: record for name, record in _free(spec, problem, drawn) if name in whole}
    if not records:
        return None
    generator = np.random.default_rng([seed, *data.problem_seed(problem)])
    found, sizes = dict(drawn), dict(drawn)
    for name, record in records.items():
        values = data.encode(generator.standard_normal(drawn[name].full.size), record.name)
        found[name] = Stored(values, drawn[name].shape)
        sizes[name] = Stored(data.encode(np.abs(data.decode(values, record.name)), record.name), drawn[name].shape)
    return found, sizes


def planted(
    spec: KernelSpec, problem: Problem, seed: int, special: str, rng: random.Random
) -> Iterator[dict[str, Stored]]:
    """Yield inputs with a special value: at some places of one array after the other, and then all over the first."""
    drawn = data.inputs(spec, problem, seed)
    free = [(name, record) for name, record in _free(spec, problem, drawn) if drawn[name].full.size]
    for everywhere, several in ((False, free), (True, free[:1])):
        for name, record in several:
            values = data.decode(drawn[name].full, record.name).ravel()
            places = range(values.size) if everywhere else [rng.randrange(values.size) for _ in range(PLANTED)]
            values[list(places)] = SPECIALS[special](record)
            yield drawn | {name: replace(drawn[name], values=data.encode(values, record.name), begin=0, pool=None)}


def _free(spec: KernelSpec, problem: Problem, drawn: dict[str, Stored]) -> list[tuple[str, DType]]:
    """Return the real arrays that no bounds and no function of the spec's hold to a range."""
    found = []
    for argument in spec.inputs:
        record = DTYPES[dtype_of(spec, argument.dtype, problem.specialisation)]
        bounded = argument.fill is not None and not isinstance(argument.fill, str)
        given = spec.verify.inputs is not None and argument.name in drawn and drawn[argument.name].pool is None
        infinite = record.kind == "float" and record.infinite
        if argument.name in drawn and infinite and not bounded and not given:
            found.append((argument.name, record))
    return found


def random_views(spec: KernelSpec, problem: Problem, rng: random.Random) -> dict[str, int]:
    """Return by how many elements each array begins behind an aligned address: all by 0 in half of the cases."""
    known, apart = environment(spec, problem), rng.random() < 0.5
    shifts: dict[str, int] = {}
    for argument in spec.arrays:
        size = DTYPES[dtype_of(spec, argument.dtype, problem.specialisation)].size_bytes
        step = least_alignment(spec, known, argument)
        shifts[argument.name] = rng.randrange(max(1, ALIGNED // step)) * step // size if apart else 0
    return shifts
