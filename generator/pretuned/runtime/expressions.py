"""The arithmetic of expressions: Python's own, but that no result lies beyond 2 ** 62.

A result beyond that has no value, and neither has a division by zero or a negative exponent: the operation raises an
ArithmeticError. A condition without a value does not hold, and a shape or a grid without a value is refused. Generated
code is plain Python; its names are bound to `Integer`, whose operators keep the bound.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

LIMIT = 2**62  # sums of two such integers fit 64 bits, which lets NumPy compute the same
BEYOND_LIMIT = "a result is beyond 2 ** 62"


def bounded(value: int) -> int:
    """Return `value`; raise OverflowError where it is beyond the limit."""
    if -LIMIT <= value <= LIMIT:
        return value
    raise OverflowError(BEYOND_LIMIT)


def power(a: int, b: int) -> int:
    """Return a ** b, without computing what is beyond the limit."""
    if b < 0:
        raise ArithmeticError("an exponent is negative")
    if b > LIMIT.bit_length() and not -1 <= a <= 1:
        raise OverflowError(BEYOND_LIMIT)
    return bounded(int(a) ** int(b))


class Integer(int):
    """An integer whose arithmetic keeps the bound; what it is computed with becomes one."""

    __slots__ = ()

    def __neg__(self) -> Integer:
        """Return -self."""
        value = -int(self)
        return Integer(value if -LIMIT <= value <= LIMIT else bounded(value))

    def __pos__(self) -> Integer:
        """Return +self."""
        return Integer(bounded(int(self)))


def _keep_the_bound(name: str, compute: Callable[[int, int], int]) -> None:
    """Give `Integer` the binary operator `name`, and the one for a plain integer on the left."""

    def forward(self: int, other: int) -> Integer:
        value = compute(self, other)
        return Integer(value if -LIMIT <= value <= LIMIT else bounded(value))

    def reflected(self: int, other: int) -> Integer:
        value = compute(other, self)
        return Integer(value if -LIMIT <= value <= LIMIT else bounded(value))

    setattr(Integer, f"__{name}__", forward)
    setattr(Integer, f"__r{name}__", reflected)


for _name in ("add", "sub", "mul", "floordiv", "mod"):
    _keep_the_bound(_name, getattr(int, f"__{_name}__"))
_keep_the_bound("pow", power)


def operands(values: Mapping[str, int | float | str]) -> dict[str, Any]:
    """Return values as expressions read them; texts and floats, which are only compared, and types as they are."""
    return {name: value if isinstance(value, (str, float)) else Integer(value) for name, value in values.items()}
