"""The kinds of value in a spec, each with one message for everything that is not of its kind.

pydantic's own unions report a line for every member that a value is not; a reader of TOML wants one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, Discriminator, Field, StrictStr, Tag, WithJsonSchema

from pretuned.config.toml import INT64_MAX, TAG, spelled
from pretuned.runtime.text import assignment
from pretuned.spec import ranges
from pretuned.spec.addresses import Alignment, is_alignment
from pretuned.spec.expressions import Expression, ExpressionError, LeadingDims, OwnExtent
from pretuned.spec.formulas import EXAMPLE, Formula

_TEXT: Final = re.compile(r"""(?! )[^"'\\,;=\x00-\x1f\x7f-\U0010ffff]{1,80}(?<! )""")
MOST_ARRAYS: Final = 256  # of a list: half of what a launch passes by value
FILLS: Final = ("normal", "uniform", "ones", "integers")


def _expected(kind: str, value: object) -> ValueError:
    return ValueError(f"expected {kind}, found {spelled(value)}")


def _expression(value: object) -> Expression:
    if isinstance(value, Expression):
        return value
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise _expected("an integer or an expression in quotes", value)
    try:
        return Expression.parse(value)
    except ExpressionError as error:
        raise ValueError(str(error)) from None


def _extent(value: object) -> Expression:
    if not isinstance(value, str) or ("..." not in value and "[]" not in value):
        return _expression(value)
    try:
        return LeadingDims.parse(value) if "..." in value else OwnExtent.parse(value)
    except ExpressionError as error:
        raise ValueError(str(error)) from None


def _requirement(value: object) -> Expression | Alignment:
    if isinstance(value, Alignment):
        return value
    if isinstance(value, str) and is_alignment(value):
        try:
            return Alignment.parse(value)
        except ExpressionError as error:
            raise ValueError(str(error)) from None
    return _expression(value)


def _bound(value: object) -> Expression | float:
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"is {spelled(value)}; must be finite")
        return value
    if isinstance(value, bool) or not isinstance(value, int | str | Expression):
        raise _expected("a number or an expression in quotes", value)
    return _expression(value)


def _filled(value: Any) -> str | None:  # noqa: ANN401 - whatever stands in the file
    if isinstance(value, str):
        return f"{TAG}name"
    return f"{TAG}range" if isinstance(value, Mapping | BaseModel) else None


def _fill_name(value: object) -> object:
    if value not in FILLS:
        listed = ", ".join(spelled(name) for name in FILLS)
        raise ValueError(f"is {spelled(value)}; expected {listed}, or a range as in `{{ from = 0, to = 255 }}`")
    return value


def size(value: object) -> int:
    """Return a size of a dim, or say what is wrong with it in a ValueError."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise _expected("an integer", value)
    if value < 1:
        raise ValueError(f"is {value}; a size is at least 1")
    if value > INT64_MAX:
        raise ValueError(f"is {spelled(value)}; a size fits 64 bits")
    return value


def _joint(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


def any_of(value: object) -> tuple[object, ...]:
    """Return the values of a specialisation that an entry of `problems` names: one or several."""
    return value if isinstance(value, tuple) else (value,)


def _most(value: object) -> int:
    if (number := size(value)) > MOST_ARRAYS:
        raise ValueError(f"is {number}; a list has at most {MOST_ARRAYS} arrays, whose addresses are passed by value")
    return number


def _parameter(value: object) -> bool | int | float | str:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"is {spelled(value)}; must be finite")
        return value
    if not isinstance(value, int):
        raise _expected("an integer, a bool, a text or a float", value)
    if abs(value) > INT64_MAX:
        raise ValueError(f"is {spelled(value)}; a parameter fits 64 bits")
    return value


def _default(value: object) -> bool | int | float | str | Formula:
    if isinstance(value, Formula):
        return value
    if not isinstance(value, Mapping):
        return _parameter(value)
    if value.keys() != {"at"} or not isinstance(value["at"], str):
        raise ValueError(f"expected a value of the space, or `{EXAMPLE}`; found {spelled(dict(value))}")
    try:
        formula = Formula.parse(value["at"])
    except ExpressionError as error:
        raise ValueError(str(error)) from None
    for branch in formula.branches:
        _parameter(branch.value)
    return formula


def _text(value: str) -> str:
    """Return a text as a parameter has it: what the environment and command lines can name as well."""
    if not _TEXT.fullmatch(value):
        raise ValueError(f"is {spelled(value)}; a text is 1 to 80 printable characters of ASCII without \" ' \\ , ; =")
    _, read = assignment(f"x={value}") or ("", value)
    if type(read) is not str:
        raise ValueError(f"is {spelled(value)}, which reads as {spelled(read)}; write that without quotes")
    return value


def _scalar(value: object) -> bool | int | float | complex | None:
    if isinstance(value, list | tuple):
        return _complex(value)
    if value is not None and not isinstance(value, int | float | complex):
        raise _expected("a number or a bool", value)
    return value


def _complex(parts: list[object] | tuple[object, ...]) -> complex:
    """Return the complex number of a list of its real and its imaginary part, as TOML writes one."""
    numbers = [one for one in parts if isinstance(one, int | float) and not isinstance(one, bool)]
    if len(numbers) != len(parts) or len(parts) != 2:  # noqa: PLR2004 - the two parts
        raise _expected("a number, or the two parts of a complex one as in `[1.0, -0.5]`", parts)
    try:
        return complex(*numbers)
    except OverflowError:
        raise ValueError(f"is {spelled(parts)}; its parts are beyond float64") from None


def _tuned(value: object) -> TuningValue | None:
    if isinstance(value, Mapping):
        fields = {name: tuple(one) if isinstance(one, list | tuple) else (one,) for name, one in value.items()}
        made = {name: tuple(_tuned_number(one) for one in several) for name, several in fields.items()}
        return {
            name: several if isinstance(value[name], list | tuple) else several[0] for name, several in made.items()
        }
    if isinstance(value, list | tuple):
        return _complex(value)
    return None if value is None else _tuned_number(value)


def _tuned_number(value: object) -> TuningNumber:
    if isinstance(value, str | Expression):
        return _expression(value)
    found = _scalar(value)
    if found is None:
        raise _expected("a number or a bool", value)
    return found


def _zero(value: object) -> int | None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value != 0):
        raise ValueError(f"is {spelled(value)}; expected 0, the only value that is supported")
    return value


def _tolerance(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _expected("a number", value)
    if not (value >= 0 and math.isfinite(value)):
        raise ValueError(f"is {spelled(value)}; must be at least 0 and finite")
    return value


def _shape_of(table: str, other: str, expected: str) -> Discriminator:
    """Tell a table from anything else before pydantic tries both."""

    def tag(value: Any) -> str | None:  # noqa: ANN401 - whatever stands in the file
        if isinstance(value, Mapping):
            return f"{TAG}{table}"
        return f"{TAG}{other}" if other == "number" or isinstance(value, list | tuple) else None

    return Discriminator(tag, custom_error_type="value_kind", custom_error_message=f"expected {expected}")


def _kind(validate: Any, **schema: Any) -> tuple[BeforeValidator, WithJsonSchema]:  # noqa: ANN401 - JSON
    """Return a kind of value: what checks it, and its JSON schema for editors."""
    return BeforeValidator(validate), WithJsonSchema(schema)


def _listed(**item: Any) -> tuple[BeforeValidator, WithJsonSchema]:  # noqa: ANN401 - JSON
    """Return that a list may be written as a range, and the schema of both: each key speaks of one of them."""
    return _kind(ranges.listed, type=["array", "object"], items=item, minItems=1, **ranges.SCHEMA)


Expr = Annotated[Expression, *_kind(_expression, type=["string", "integer"])]
Extent = Annotated[Expression, *_kind(_extent, type=["string", "integer"])]
Requirement = Annotated[Expression | Alignment, *_kind(_requirement, type=["string", "integer"])]
LaunchExtent = Annotated[tuple[Expr, ...], Field(min_length=1, max_length=3)]
Size = Annotated[int, *_kind(size, type="integer", minimum=1)]
# In a table of `problems`: a dim's size, or a specialisation's value or values. It is judged where these are known.
_CHOSEN: Final = {"type": ["integer", "boolean", "string"]}
Joint = Annotated[
    Any,
    *_kind(_joint, type=["integer", "boolean", "string", "array"], items=_CHOSEN, minItems=1),
]
Most = Annotated[int, *_kind(_most, type="integer", minimum=1, maximum=MOST_ARRAYS)]
Sizes = Annotated[tuple[Size, ...], Field(min_length=1), *_listed(type="integer", minimum=1)]
# What a tuning parameter or a specialisation may be.
_ANY: Final = {"type": ["integer", "boolean", "number", "string"]}
FORMULA: Final[dict[str, Any]] = {
    "type": [*_ANY["type"], "object"],
    "properties": {"at": {"type": "string"}},
    "required": ["at"],
    "additionalProperties": False,
}
Parameter = Annotated[bool | int | float | str, *_kind(_parameter, **_ANY)]
Parameters = Annotated[tuple[Parameter, ...], Field(min_length=1), *_listed(**_ANY)]
DefaultValue = Annotated[bool | int | float | str | Formula, *_kind(_default, **FORMULA)]
_PARTS: Final[dict[str, Any]] = {"items": {"type": "number"}, "minItems": 2, "maxItems": 2}  # of a complex number
ScalarValue = Annotated[
    bool | int | float | complex | None, *_kind(_scalar, type=["number", "boolean", "array"], **_PARTS)
]
TuningNumber = bool | int | float | complex | Expression
TuningValue = TuningNumber | dict[str, TuningNumber | tuple[TuningNumber, ...]]
TunedValue = Annotated[
    TuningValue | None, *_kind(_tuned, type=["number", "boolean", "string", "object", "array"], **_PARTS)
]
Zero = Annotated[int | None, *_kind(_zero, const=0)]
Bound = Annotated[Expression | float, *_kind(_bound, type=["number", "string"])]
FillName = Annotated[str, *_kind(_fill_name, enum=list(FILLS))]
FILL_KINDS = Discriminator(
    _filled,
    custom_error_type="value_kind",
    custom_error_message="expected a name, or a range as in `{ from = 0, to = 255 }`",
)
Name = StrictStr

Tolerance = Annotated[float, *_kind(_tolerance, type="number", minimum=0)]
Tolerances = Annotated[
    Annotated[Tolerance, Tag(f"{TAG}number")] | Annotated[dict[str, Tolerance], Tag(f"{TAG}types")],
    _shape_of("types", "number", "a number, or a table of numbers by dtype"),
]
Space = Annotated[
    Annotated[dict[str, Parameters], Tag(f"{TAG}lists")]
    | Annotated[tuple[dict[str, Parameter], ...], Tag(f"{TAG}rows")],
    _shape_of("lists", "rows", "a table of lists, as in `block = [128, 256]`, or a list of configurations"),
]
