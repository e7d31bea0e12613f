"""Inputs and references, on the host, in NumPy.

A type that NumPy has not by itself travels here as its *codes*: its bits in an unsigned type of its size, so that NumPy
alone is enough. A code without its sign counts the numbers from 0 upwards; behind the largest number comes `top`, the
code of infinity, or that of NaN in a type that has no infinities.
"""

from __future__ import annotations

import importlib.util
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pretuned.measure.launch import BoundBuffer, arrays, scalars
from pretuned.runtime.types import DTYPES, DType
from pretuned.spec.model import KernelSpec
from pretuned.spec.space import Problem, environment

HostArray = npt.NDArray[Any]

# Larger inputs repeat a random block; its length is prime, so that a strided access still meets other values.
BLOCK: Final = 1_048_573


@dataclass(frozen=True, slots=True)
class Stored:
    """An array's values in storage type: a one-dimensional block that is repeated until `shape` is filled."""

    block: HostArray
    shape: tuple[int, ...]

    @property
    def full(self) -> HostArray:
        """The whole array, on the host."""
        return np.resize(self.block, self.shape)


class FunctionError(Exception):
    """A reference, or a function named in [verify], failed or returned something else than asked."""


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
    """Return stored values as float64 for floating types, unchanged for others."""
    record = DTYPES[dtype]
    if record.storage != dtype:
        numbers: HostArray = _numbers(dtype)[stored]
        return numbers
    return stored.astype(np.float64) if record.floating else stored


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
    """Return the stored values of every `in` and `inout` array at `problem`, the same for the same seed."""
    generator = np.random.default_rng([seed, *problem_seed(problem)])
    buffers = [buffer for buffer in arrays(spec, problem) if buffer.role != "out"]
    given: Mapping[str, Any] = {}
    if spec.verify.inputs is not None:
        given = _call(spec, spec.verify.inputs, generator=generator, **environment(spec, problem))
    found = {}
    for buffer in buffers:
        if buffer.name in given:
            values = np.asarray(given[buffer.name])
            _demand_shape(spec.verify.inputs or "", buffer, values)
            block = encode(values, buffer.dtype).ravel()
        else:
            pool = _pool(seed, buffer.name, buffer.dtype, buffer.fill, BLOCK)
            begin = int(generator.integers(len(pool)))  # other problems have other values
            block = np.concatenate([pool[begin:], pool[:begin]])[: buffer.size]
        found[buffer.name] = Stored(block, buffer.shape)
    return found


def problem_seed(problem: Problem) -> tuple[int, ...]:
    """Return numbers that differ between problems, and are the same in every process."""
    return tuple(str(problem).encode())


@lru_cache(maxsize=64)
def _pool(seed: int, name: str, dtype: str, fill: str | None, count: int) -> HostArray:
    """Return the values that array `name` takes at every problem: drawing them takes longer than measuring."""
    generator = np.random.default_rng([seed, *name.encode()])
    low, high = (0, 9) if DTYPES[dtype].kind == "uint" else (-8, 9)
    match fill or ("normal" if DTYPES[dtype].floating else "integers"):
        case "normal":
            values: HostArray = generator.standard_normal(count, dtype=np.float32)
        case "uniform":
            values = generator.random(count, dtype=np.float32)
        case "ones":
            values = np.ones(count, np.float32)
        case _ if dtype == "bool":
            values = generator.integers(0, 2, count)
        case _:
            values = generator.integers(low, high, count)
    return encode(values, dtype)


def reference(spec: KernelSpec, problem: Problem, stored: Mapping[str, Stored]) -> dict[str, HostArray] | None:
    """Return what every output must be, floating ones in float64, or None where the spec names no reference.

    Raises FunctionError that says what the function raised or returned.
    """
    if spec.verify.reference is None:
        return None
    buffers = {buffer.name: buffer for buffer in arrays(spec, problem)}
    values: dict[str, Any] = dict(environment(spec, problem))
    values |= {scalar.name: scalar.value for scalar in scalars(spec, problem)}
    values |= {name: decode(array.full, buffers[name].dtype) for name, array in stored.items()}
    result = _call(spec, spec.verify.reference, **values)
    names = [argument.name for argument in spec.outputs]
    if not isinstance(result, Mapping):
        if len(names) > 1:
            raise FunctionError(f"{spec.verify.reference} must return a dict with {', '.join(names)}")
        result = {names[0]: result}
    found = {}
    for name in names:
        if name not in result:
            raise FunctionError(f"{spec.verify.reference} returned nothing for the output '{name}'")
        array = np.asarray(result[name])
        _demand_shape(spec.verify.reference, buffers[name], array)
        floating = DTYPES[buffers[name].dtype].floating
        found[name] = np.ascontiguousarray(array, np.float64 if floating else buffers[name].dtype)
    return found


def compare(spec: KernelSpec, problem: Problem, name: str, out: HostArray, ref: HostArray) -> str | None:
    """Return what the spec's own `compare` finds wrong with output `name`, or None: it answers a bool or a message."""
    verdict = _call(spec, str(spec.verify.compare), name=name, out=out, ref=ref, **environment(spec, problem))
    if isinstance(verdict, str):
        return verdict or None
    return None if verdict is None or bool(verdict) else "the spec's own comparison refuses it"


def _demand_shape(target: str, buffer: BoundBuffer, array: HostArray) -> None:
    if array.shape != buffer.shape and not (array.size == 1 == math.prod(buffer.shape)):
        raise FunctionError(f"{target} returned shape {array.shape} for '{buffer.name}'; expected {buffer.shape}")


def _call(spec: KernelSpec, target: str, /, **values: object) -> Any:  # noqa: ANN401 - a user's function
    file, _, name = target.partition(":")
    function: Callable[..., Any] = getattr(_imported((spec.folder / file).resolve()), name)
    try:
        with np.errstate(all="ignore"):
            return function(**values)
    except Exception as error:
        raise FunctionError(f"{target} failed: {type(error).__name__}: {error}") from error


@cache
def _imported(file: Path) -> ModuleType:
    """Import a file by its path, its folder first on the path, so that it can import its neighbours."""
    name = f"_pretuned_{file.stem}_{abs(hash(str(file)))}"
    module_spec = importlib.util.spec_from_file_location(name, file)
    assert module_spec is not None  # it ends in .py
    assert module_spec.loader is not None
    module = importlib.util.module_from_spec(module_spec)
    sys.modules[name] = module
    sys.path.insert(0, str(file.parent))
    try:
        module_spec.loader.exec_module(module)
    except Exception as error:
        raise FunctionError(f"{file.name} cannot be imported: {type(error).__name__}: {error}") from error
    finally:
        sys.path.remove(str(file.parent))
    return module
