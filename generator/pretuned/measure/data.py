"""Inputs and references, on the host, in NumPy.

Theory of operation. Drawing numbers takes longer than measuring a kernel does, so inputs are cut out of *pools*: one
for each seed, type and fill, drawn once. An array is a pool from a place on that its problem and seed draw, round and
round where it is longer. So the same problem and seed give the same inputs in every process, whatever was prepared
before; another problem has others; and a machine that holds the pool needs nothing of the host but the place. What an
author's function makes, and a fill whose bounds are expressions, are drawn for the problem alone.

A type that NumPy has not by itself travels here as its *codes*: its bits in an unsigned type of its size, so that NumPy
alone is enough. A code without its sign counts the numbers from 0 upwards; behind the largest number comes `top`, the
code of infinity, or that of NaN in a type that has no infinities.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from types import SimpleNamespace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pretuned.measure.functions import (
    FunctionError,
    HostArray,
    apart,
    array_for,
    arrays_of,
    call,
    nowhere_finite,
    place,
    rounded,
    together,
)
from pretuned.measure.launch import BoundBuffer, BoundScalar, absent, arrays, scalars
from pretuned.runtime.types import DTYPES, DType
from pretuned.spec.check.verification import NAMESPACE
from pretuned.spec.expressions import Expression, ExpressionError
from pretuned.spec.lists import extents
from pretuned.spec.model import KernelSpec
from pretuned.spec.parts import FillRange
from pretuned.spec.space import Problem, derived, environment

Fill = str | tuple[float, float]
SMALL: Final = 8  # integers are up to so far from 0 by default, so that sums of millions of them fit 32 bits

# Larger inputs repeat a random block; its length is prime, so that a strided access still meets other values.
BLOCK: Final = 1_048_573
POOLS: Final = 16  # that stay drawn


@dataclass(frozen=True, slots=True)
class Pool:
    """So many random values of a type, which arrays are cut out of."""

    seed: int
    dtype: str
    fill: Fill
    count: int

    @property
    def values(self) -> HostArray:
        """The values in storage type, one-dimensional; not to be written to."""
        return _pooled(self)


@dataclass(frozen=True, slots=True)
class Stored:
    """An array in storage type: one-dimensional `values` from `begin` on, round and round until `shape` is filled.

    `pool` says which pool the values are; None where they are this array's own.
    """

    values: HostArray
    shape: tuple[int, ...]
    begin: int = 0
    pool: Pool | None = None

    @property
    def block(self) -> HostArray:
        """The part that repeats, no longer than the array."""
        size = math.prod(self.shape)
        first = self.values[self.begin : self.begin + size]
        return np.concatenate([first, self.values[: min(self.begin, size - first.size)]]) if self.begin else first

    @property
    def full(self) -> HostArray:
        """The whole array, on the host."""
        return np.resize(self.block, self.shape)


def storage(dtype: str) -> np.dtype[Any]:
    """Return the NumPy type that holds element type `dtype`, or its codes."""
    return np.dtype(DTYPES[dtype].storage)


def encode(values: HostArray, dtype: str) -> HostArray:
    """Return `values` rounded to `dtype`, in its storage type: to nearest, ties to even.

    Beyond the largest number lies infinity, or NaN in a type that has no infinities, as where NumPy's own types and
    those of ml_dtypes convert. (CUDA's float8 classes convert to the largest number instead.)
    """
    record = DTYPES[dtype]
    if record.storage == dtype:
        return values.astype(dtype)
    wide = np.ravel(values if values.dtype == np.float32 else values.astype(np.float64))
    magnitude = np.abs(np.where(np.isfinite(wide), wide, 0))
    _, exponents = np.frexp(magnitude)  # of a fraction from 0.5 to 1
    binades = np.maximum(exponents - 1 - _least_exponent(record), 0)  # between the least normal one and this one
    steps = np.rint(np.ldexp(magnitude, record.fraction_bits - _least_exponent(record) - binades)).astype(np.int32)
    codes = np.minimum(steps + (binades << record.fraction_bits), _top(record))
    codes[steps == 0] = 0
    codes[np.isinf(wide)] = _top(record)
    codes[np.isnan(wide)] = _top(record) | 1 << (record.fraction_bits - 1)
    codes |= np.signbit(wide).astype(np.int32) << (8 * record.size_bytes - 1)
    found: HostArray = codes.astype(record.bits).reshape(values.shape)
    return found


def decode(stored: HostArray, dtype: str) -> HostArray:
    """Return stored values as float64 for floating types, complex128 for complex ones, unchanged for others."""
    record = DTYPES[dtype]
    if record.storage != dtype:
        numbers: HostArray = _numbers(dtype)[stored]
        return numbers
    return stored.astype(record.wide) if record.floating else stored


def decoded(stored: Stored, dtype: str) -> HostArray:
    """Return a whole array as `decode` does, its own to write to."""
    return np.resize(decode(stored.block, dtype), stored.shape)  # in this order: what repeats is decoded once


@cache
def _numbers(dtype: str) -> npt.NDArray[np.float64]:
    """Return the number of every code of a type."""
    record = DTYPES[dtype]
    codes = np.arange(1 << (8 * record.size_bytes - 1))
    binades = np.maximum((codes >> record.fraction_bits) - 1, 0)
    steps = codes - (binades << record.fraction_bits)
    numbers = np.ldexp(steps.astype(np.float64), binades + _least_exponent(record) - record.fraction_bits)
    numbers[_top(record) :] = np.nan
    if record.infinite:
        numbers[_top(record)] = np.inf
    return np.concatenate([numbers, -numbers])


def _least_exponent(record: DType) -> int:
    """Return the exponent of the least normal number."""
    return 2 - (1 << (record.exponent_bits - 1))


def _top(record: DType) -> int:
    """Return the code behind that of the largest number."""
    codes: int = 1 << (8 * record.size_bytes - 1)
    return codes - (1 << record.fraction_bits) if record.infinite else codes - 1


def inputs(spec: KernelSpec, problem: Problem, seed: int) -> dict[str, Stored]:
    """Return the stored values of every `in` and `inout` array at `problem`, the same for the same seed.

    Raises FunctionError for the function `inputs`, and for a fill or a scalar that has no value here.
    """
    try:
        scalars(spec, problem)
    except ExpressionError as error:
        remedy = "say in `requires` which sizes the kernel takes"
        raise FunctionError(f"the value of a scalar cannot be passed at {problem}: {error}; {remedy}") from None
    generator = np.random.default_rng([seed, *problem_seed(problem)])
    buffers = [buffer for buffer in arrays(spec, problem) if buffer.role != "out"]
    given, where = _given(spec, problem, generator)
    fills = {argument.name: argument.fill for argument in spec.inputs}
    found = {}
    for buffer in buffers:
        if buffer.name in given:
            held = DTYPES[buffer.dtype].wide
            values = encode(array_for(where, buffer, given[buffer.name], held), buffer.dtype).ravel()
            found[buffer.name] = Stored(values, buffer.shape)
            continue
        begin = int(generator.integers(BLOCK))  # other arrays and other problems have other values
        fill = _fill(spec, problem, buffer, asked := fills[buffer.name])
        if isinstance(asked, FillRange) and any(isinstance(bound, Expression) for bound in asked.bounds):
            drawn = np.random.default_rng([seed, begin])
            found[buffer.name] = Stored(_drawn(drawn, buffer.dtype, fill, min(buffer.size, BLOCK)), buffer.shape)
        else:
            pool = Pool(seed, buffer.dtype, fill, BLOCK)
            found[buffer.name] = Stored(pool.values, buffer.shape, begin, pool)
    return found


def _given(spec: KernelSpec, problem: Problem, generator: np.random.Generator) -> tuple[Mapping[str, object], str]:
    """Return the arrays that the function `inputs` sets, and how messages about it begin."""
    target = spec.verify.inputs
    if target is None:
        return {}, ""
    where = place(spec, target)
    result = call(spec, target, problem, {"generator": generator})
    names = [argument.name for argument in spec.whole(spec.inputs)]
    return apart(spec, problem, where, arrays_of(where, result, names, all_of_them=False)), where


def _fill(spec: KernelSpec, problem: Problem, buffer: BoundBuffer, fill: str | FillRange | None) -> Fill:
    """Return what an array is filled with at a problem: a name, or the least and the greatest value."""
    record = DTYPES[buffer.dtype]
    if isinstance(fill, str):
        return fill
    if fill is None:
        return record.range if buffer.dtype == "uint8" and record.range else "normal" if record.floating else "integers"
    values = environment(spec, problem)
    try:
        low, high = (bound.evaluate(values) if isinstance(bound, Expression) else bound for bound in fill.bounds)
    except ExpressionError as error:
        raise FunctionError(f"the fill of '{buffer.name}' cannot be worked out: {error}") from None
    if buffer.size and low > high:
        raise FunctionError(
            f"the fill of '{buffer.name}' goes from {low} to {high}, which is no value; "
            "say in `requires` which sizes the kernel takes"
        )
    if record.range is not None and not record.range[0] <= low <= high <= record.range[1] and buffer.size:
        raise FunctionError(f"the fill of '{buffer.name}' goes from {low} to {high}; {buffer.dtype} is {record.values}")
    return min(low, high), high


def problem_seed(problem: Problem) -> tuple[int, ...]:
    """Return numbers that differ between problems, and are the same in every process."""
    return tuple(str(problem).encode())


@lru_cache(maxsize=POOLS)
def _pooled(pool: Pool) -> HostArray:
    values = _drawn(np.random.default_rng(pool.seed), pool.dtype, pool.fill, pool.count)
    values.flags.writeable = False
    return values


def _drawn(generator: np.random.Generator, dtype: str, fill: Fill, count: int) -> HostArray:
    record = DTYPES[dtype]
    if record.parts > 1 and fill != "ones":
        both: HostArray = _drawn(generator, record.part, fill, record.parts * count).view(dtype)
        return both
    match fill:
        case "normal":
            values: HostArray = generator.standard_normal(count, dtype=np.float32)
        case "uniform":
            values = generator.random(count, dtype=np.float32)
        case "ones":
            values = np.ones(count, np.float32)
        case (low, high) if record.floating:
            values = generator.uniform(low, high, count)
        case (low, high):
            values = generator.integers(int(low), int(high), count, dtype, endpoint=True)
        case _ if dtype == "bool":
            values = generator.integers(0, 2, count)
        case _:
            values = generator.integers(0 if record.kind == "uint" else -SMALL, SMALL + 1, count)
    return encode(values, dtype)


def _number(scalar: BoundScalar) -> object:
    """Return a scalar as the kernel has it, rounded to its type; a struct as an object with its fields."""
    if scalar.struct is None:
        return _rounded(scalar.dtype, scalar.packed) if DTYPES[scalar.dtype].floating else scalar.value
    made, packed = dict[str, object](), scalar.packed
    for (name, dtype, count), begin in zip(scalar.struct.fields, scalar.struct.begins, strict=True):
        held = packed[begin : begin + max(1, count) * DTYPES[dtype].size_bytes]
        numbers = decode(np.frombuffer(held, storage(dtype)), dtype).tolist()
        made[name] = tuple(numbers) if count else numbers[0]
    return SimpleNamespace(**made)


def _rounded(dtype: str, packed: bytes) -> float | complex:
    found: float | complex = decode(np.frombuffer(packed, storage(dtype)), dtype)[0].item()
    return found


def reference(
    spec: KernelSpec, problem: Problem, stored: Mapping[str, Stored], remark: Callable[[str], None] | None = None
) -> dict[str, HostArray] | None:
    """Return what every output must be, each in its wide type, or None where the spec names no reference.

    `remark` is called with what to know of one that is usable. Raises FunctionError that says what the function raised
    or returned.
    """
    if spec.verify.reference is None:
        return None
    dtypes = {buffer.name: buffer.dtype for buffer in arrays(spec, problem)}
    given = {name: decoded(array, dtypes[name]) for name, array in stored.items()}
    return computed(spec, spec.verify.reference, problem, given, remark=remark)


def computed(
    spec: KernelSpec,
    target: str,
    problem: Problem,
    given: Mapping[str, Any],
    xp: Any = np,  # noqa: ANN401 - a module with NumPy's functions
    remark: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Return what the reference `target` makes of the inputs `given`, arrays of the module `xp`, as such arrays.

    Inputs and results are in their wide types. Raises FunctionError as `reference` does.
    """
    buffers = {buffer.name: buffer for buffer in arrays(spec, problem)}
    values: dict[str, Any] = dict(given)
    known = environment(spec, problem)
    values |= derived(spec, known)
    values |= {scalar.name: _number(scalar) for scalar in scalars(spec, problem)}
    values |= dict.fromkeys(absent(spec, problem))
    values |= {one.name: extents(spec, one.each, known) for one in spec.arguments if one.each}
    values = together(spec, values)
    written = [argument for argument in spec.outputs if argument.name in buffers]
    where, names = place(spec, target), [argument.name for argument in spec.whole(written)]
    made = {} if NAMESPACE in {*values, *known} else {NAMESPACE: lambda: xp}
    result = call(spec, target, problem, values, made)
    found = apart(spec, problem, where, arrays_of(where, result, names, all_of_them=True))
    wide = {one.name: DTYPES[buffers[one.name].dtype].wide for one in written}
    made_of = {name: array_for(where, buffers[name], found[name], dtype, xp) for name, dtype in wide.items()}
    if remark is not None:
        for name, array in made_of.items():
            text = rounded(where, buffers[name], found[name]) or nowhere_finite(where, buffers[name], array)
            if text:
                remark(text)
    return made_of


__all__ = [
    "BLOCK",
    "FunctionError",
    "HostArray",
    "Pool",
    "Stored",
    "computed",
    "decode",
    "decoded",
    "encode",
    "inputs",
    "problem_seed",
    "reference",
    "storage",
]
