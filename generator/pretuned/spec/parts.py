"""What the models of a spec are made of: their base, a range of values, [cost], [verify]."""

from __future__ import annotations

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
