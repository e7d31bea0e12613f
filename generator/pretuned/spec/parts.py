"""What the models of a spec are made of: their base, a range of values, [cost], [verify]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field

from pretuned.spec.expressions import Expression
from pretuned.spec.values import Bound, Expr, Name, Tolerances


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


class Verify(Model):
    """How a result is judged: |out - ref| <= atol + rtol * |ref|, with tolerances by the output's type."""

    reference: Name | None = None
    rtol: Tolerances | None = None
    atol: Tolerances | None = None
    inputs: Name | None = None
    compare: Name | None = None
