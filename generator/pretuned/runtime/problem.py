"""A problem as a call or `explain` states it, and what the spec's expressions say of it."""

from __future__ import annotations

from .expressions import operands

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .devices import Device
    from .records import Values
    from .table import Formula, Kernel

    Operands = dict[str, Any]  # what expressions read, by name: `Integer`s, names of types, the device
    Extent = tuple[int, int, int]

_names: dict[Formula, tuple[str, ...]] = {}  # that expressions read


class CalledProblem:
    """A problem on a device.

    `values` holds dims, specialisation, the types that follow and strides, `operands` the same as expressions read
    them. `key` are the values of the specialisation, `sizes` those of the other dims, both in the kernel's order.
    `shapes` are those of the arrays that a call brings, once they were found right.
    """

    __slots__ = ("device", "key", "operands", "shapes", "sizes", "specialisation", "values")

    def __init__(self, kernel: Kernel, device: Device, specialisation: Values, values: Values) -> None:
        self.device, self.specialisation, self.values = device, specialisation, values
        self.key = tuple([specialisation[name] for name in kernel.specialisation_names])
        self.sizes = tuple([int(values[name]) for name in kernel.free_dims])
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.operands: Operands = {**operands(values), "device": device}

    def lie(self, strides: dict[str, int]) -> None:
        """Note how far apart the rows of arrays lie, in elements, by the names of their strides."""
        self.values.update(strides)
        self.operands.update(operands(strides))


def evaluate(function: Formula, known: Operands) -> int:
    """Return the value of an expression, given what it reads."""
    names = _names.get(function)
    result: int = function(*[known[name] for name in (read_by(function) if names is None else names)])
    return result


def read_by(function: Formula) -> tuple[str, ...]:
    """Return the names that an expression reads."""
    code = function.__code__
    names = _names[function] = code.co_varnames[: code.co_argcount]
    return names


def holds(condition: Formula, known: Operands) -> bool:
    """Return whether a condition holds; one without a value does not."""
    try:
        return bool(evaluate(condition, known))
    except ArithmeticError:
        return False


def default_at(kernel: Kernel, known: Operands) -> Values:
    """Return the values that the default takes at a problem, of the parameters that depend on it."""
    if not kernel.default:  # as of nearly all kernels
        return {}
    return {
        name: next(value for condition, value in branches if condition is None or holds(condition, known))
        for name, branches in kernel.default.items()
    }


def sizes_of(function: Formula, known: Operands) -> tuple[int, ...]:
    """Return the values of several expressions, such as a shape."""
    several: Any = evaluate(function, known)
    return tuple([int(size) for size in several])


def extent(function: Formula, known: Operands) -> Extent:
    """Return a grid or block as (x, y, z)."""
    several: Any = evaluate(function, known)
    x, y, z = several
    return int(x), int(y), int(z)
