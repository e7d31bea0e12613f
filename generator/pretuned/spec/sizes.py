"""The sizes of a spec, and the largest that its arguments hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pretuned.config.toml import INT64_MAX
from pretuned.runtime.types import DTYPES
from pretuned.spec.space import Problem, joint_sizes, pairs
from pretuned.spec.strides import contiguous

if TYPE_CHECKING:
    from pretuned.runtime.records import Value
    from pretuned.spec.model import KernelSpec


def sizes_of(spec: KernelSpec, dim: str, specialisation: Mapping[str, Value] | None = None) -> tuple[int, ...]:
    """Return the sorted, distinct sizes of a free dim: its own, and those of `problems`, or of one specialisation's."""
    joint = joint_sizes(spec, specialisation)
    return tuple(sorted({*(spec.free_dims[dim].sizes or ()), *(problem[dim] for problem in joint)}))


def largest(spec: KernelSpec, dim: str) -> int:
    """Return the largest size of `dim` that its argument's type holds, where it is passed by value, or its lists."""
    most = [one.most for one in spec.lists if one.count == dim]
    passed = (argument for argument in spec.arguments if dim in {argument.name, argument.each})
    types = (DTYPES[argument.dtype] for argument in passed if argument.dtype in DTYPES)
    return min([*most, *(dtype.range[1] for dtype in types if dtype.range is not None)], default=INT64_MAX)


def fits_arguments(spec: KernelSpec, problem: Problem) -> bool:
    """Return whether dims and strides passed by value fit their arguments' types (an int32 ends at 2 ** 31 - 1)."""
    passed = problem.dims
    if spec.stride_names:
        passed += pairs(contiguous(spec, dict(problem.specialisation + problem.dims)) | dict(problem.strides))
    return all(isinstance(size, int) and size <= largest(spec, name) for name, size in passed)
