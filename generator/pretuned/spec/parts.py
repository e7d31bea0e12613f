"""What the models of a spec are made of: their base, a range of values, and the tables beside `arguments`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool

from pretuned.runtime.types import DTYPES
from pretuned.spec.addresses import Alignment
from pretuned.spec.expressions import Expression, ExpressionError
from pretuned.spec.values import Bound, Expr, Name, Parameters, Requirement, Sizes, Tolerances, Zero


class Model(BaseModel):
    """Base of the spec's models: frozen, no unknown keys, TOML's hyphens for Python's underscores."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        arbitrary_types_allowed=True,
        alias_generator=lambda name: name.replace("_", "-"),
        populate_by_name=True,
    )


class FillRange(Model):
    """What an input is filled with: evenly distributed from `from` to `to`, both included.

    Integers, or expressions over dims, constant dims and specialisations by value; of floating types floats as well.
    """

    from_: Bound = Field(alias="from")
    to: Bound

    @property
    def bounds(self) -> tuple[Expression | float, Expression | float]:
        """Both of them."""
        return self.from_, self.to


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedStride:
    """Which stride a name stands for, and what it is where the array is contiguous."""

    argument: str
    axis: int
    contiguous: Expression


def contiguous_stride(shape: Sequence[Expression], axis: int) -> Expression:
    """Return the stride along an axis where all elements lie side by side."""
    below = [extent.python for extent in shape[axis + 1 :]]
    return Expression.parse(" * ".join(text if text.isidentifier() else f"({text})" for text in below) or 1)


class CostSpec(Model):
    """What a call takes time for, beside what launches say: expressions over dims and parameters, at least 0."""

    terms: tuple[Expr, ...] = ()


class BackwardSpec(Model):
    """The kernel of this kernel's gradient; `names` says what those of its arguments are that have other names."""

    kernel: Name
    names: dict[str, Name] = Field(default_factory=dict)


class Verify(Model):
    """How a result is judged: |out - ref| <= atol + rtol * |ref|, with tolerances by the output's type."""

    reference: Name | None = None
    gpu_reference: Name | None = None
    rtol: Tolerances | None = None
    atol: Tolerances | None = None
    inputs: Name | None = None
    compare: Name | None = None


class Scratch(Model):
    """A buffer that the dispatcher provides for one call; its shape may use parameters and `device`."""

    name: Name
    dtype: Name
    shape: tuple[Expr, ...]
    init: Zero = None


class Dim(Model):
    """A named size: measured at its `sizes`, or, with `constant`, matched exactly against its `values`.

    It needs no `sizes` where the spec has `problems`. With `keyword` the call gives it, and no array's shape does.
    """

    sizes: Sizes | None = None
    values: Sizes | None = None
    constant: StrictBool = False
    keyword: StrictBool = False


class Specialisation(Model):
    """A choice of the caller: a type read off the arrays, a type that follows from another, or a keyword."""

    model_config = ConfigDict(extra="allow")  # with `from`, the other keys are type names

    dtypes: Annotated[tuple[Name, ...], Field(min_length=1)] | None = None
    values: Parameters | None = None
    alike: Literal["size"] | None = None
    from_: Name | None = Field(default=None, alias="from")

    @property
    def stands_for(self) -> dict[str, Name]:
        """By each type that a call may have: the one that is compiled and tuned, the first of its size if `alike`."""
        listed = self.dtypes or ()
        if self.alike is None:
            return {dtype: dtype for dtype in listed}
        first: dict[int, Name] = {}
        return {
            dtype: first.setdefault(DTYPES[dtype].size_bytes, dtype) if dtype in DTYPES else dtype for dtype in listed
        }

    @property
    def mapping(self) -> dict[str, Any]:
        """With `from`: the type for each type of the specialisation it follows."""
        return dict(self.model_extra or {})


class Presence(Specialisation):
    """Whether an optional array is there: `has_NAME`, which specs have by themselves."""

    values: Parameters | None = (False, True)


class Compile(Model):
    """Options for the compiler, rendered as templates; `arch_specific` asks for sm_90a instead of sm_90.

    `include` are folders of the project's own headers, relative to the spec's folder.
    """

    options: tuple[Name, ...] = ()
    include: tuple[Name, ...] = ()
    arch_specific: StrictBool = False


class Constraints(Model):
    """`where` prunes the space (naming a dim makes it a guard); `requires` is what the kernel itself demands."""

    where: tuple[Expr, ...] = ()
    requires: tuple[Requirement, ...] = ()

    @property
    def demands(self) -> tuple[Expression, ...]:
        """What `requires` says of dims and specialisations."""
        return tuple(one for one in self.requires if isinstance(one, Expression))

    @property
    def addresses(self) -> tuple[Alignment, ...]:
        """What `requires` says of addresses."""
        return tuple(one for one in self.requires if isinstance(one, Alignment))


def room(counts: Iterable[tuple[str | None, int]], dims: Collection[str]) -> tuple[Expression, ...]:
    """Return what lists demand of the dims that count their arrays, by their `count` and `most`.

    None of what is not a dim, or cannot be a name.
    """
    found = dict[str, Expression]()
    for name, most in sorted(counts, key=lambda pair: -pair[1]):  # the least comes last
        if name is not None and name in dims:
            with suppress(ExpressionError):
                found[name] = Expression.parse(f"1 <= {name} <= {most}")
    return tuple(found[name] for name in sorted(found))
