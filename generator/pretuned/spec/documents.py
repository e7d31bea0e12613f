"""The keys of a kernel spec as types, for those who declare kernels in Python with a type checker or an editor.

They say no more than the models of `pretuned.spec.model` do, and a test holds that they have the same keys.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypedDict

Written = str | int  # an expression
Assigned = bool | int | float | str  # what a tuning parameter or a specialisation may be
Spaces = Mapping[str, Sequence[Assigned] | Mapping[str, int]] | Sequence[Mapping[str, Assigned]]
Judge = str | Callable[..., Any]  # "reference.py:axpy", or the function


class NamedKeys(TypedDict):
    """What an argument or a buffer has in any case."""

    name: str
    dtype: str


class ArgumentKeys(NamedKeys, total=False):
    """The keys of one of `arguments`."""

    role: Literal["in", "out", "inout"] | None
    shape: Sequence[Written] | None
    align: Written | None
    fill: str | Mapping[str, float | str] | None
    value: Any
    default: bool | float | None
    init: Literal[0] | None
    in_place: bool
    optional: bool
    strides: Sequence[Written] | None
    count: str | None
    most: int
    each: str | None


class ScratchKeys(NamedKeys, total=False):
    """The keys of one of `scratch`."""

    shape: Sequence[Written]
    init: Literal[0] | None


class TensorMapKeys(TypedDict, total=False):
    """The keys of one of `tensor_maps`; `name`, `array` and `box` must be there."""

    name: str
    array: str
    box: Sequence[Written]
    swizzle: Literal["none", "32B", "64B", "128B"]
    l2: Literal["none", "64B", "128B", "256B"]
    fill: Literal["zeros", "nan"]


class DimKeys(TypedDict, total=False):
    """The keys of one of `dims`."""

    sizes: Sequence[int] | Mapping[str, int] | None
    values: Sequence[int] | Mapping[str, int] | None
    constant: bool
    keyword: bool


class LaunchKeys(TypedDict, total=False):
    """The keys of one of `launches`; `function`, `grid` and `block` must be there."""

    function: str
    grid: Sequence[Written]
    block: Sequence[Written]
    shared: Written
    arguments: Sequence[str] | None
    cluster: Sequence[Written] | None
    cooperative: bool
    overlap: Literal["pdl"] | None


class CompileKeys(TypedDict, total=False):
    """The keys of `compile`."""

    options: Sequence[str]
    include: Sequence[str]
    arch_specific: bool


class ConstraintKeys(TypedDict, total=False):
    """The keys of `constraints`."""

    where: Sequence[str]
    requires: Sequence[str]


class CostKeys(TypedDict, total=False):
    """The keys of `cost`."""

    terms: Sequence[Written]


class VerifyKeys(TypedDict, total=False):
    """The keys of `verify`."""

    reference: Judge | None
    gpu_reference: Judge | None
    rtol: float | Mapping[str, float] | None
    atol: float | Mapping[str, float] | None
    inputs: Judge | None
    compare: Judge | None


class BackwardKeys(TypedDict, total=False):
    """The keys of `backward`; `kernel` must be there."""

    kernel: str
    names: Mapping[str, str]


class TemplateKeys(TypedDict, total=False):
    """The keys that a kernel and each of its `implementations` have."""

    template: str | None
    scratch: Sequence[ScratchKeys]
    tensor_maps: Sequence[TensorMapKeys]
    space: Spaces
    default: Mapping[str, Assigned | Mapping[str, str]]
    seeds: Sequence[Mapping[str, Assigned]]
    launches: Sequence[LaunchKeys]
    compile: CompileKeys
    constraints: ConstraintKeys
    cost: CostKeys


class ImplementationKeys(TemplateKeys, total=False):
    """The keys of one of `implementations`."""

    call: str | None
    arguments: Sequence[str] | None
    out: Literal["keyword", "copy"]
    init: Sequence[str]


class KernelKeys(TemplateKeys, total=False):
    """The keys of a kernel; `arguments` must be there."""

    format: Literal[1]
    summary: str
    let: Mapping[str, Written]
    arguments: Sequence[ArgumentKeys]
    dims: Mapping[str, DimKeys]
    structs: Mapping[str, Mapping[str, str]]
    problems: Sequence[Mapping[str, int | bool | str | Sequence[int | bool | str]]]
    specialisations: Mapping[str, Mapping[str, Any]]
    verify: VerifyKeys
    backward: BackwardKeys | None
    cache: Literal["cold", "warm"]
    implementations: Mapping[str, ImplementationKeys]
