"""TOML files of authors: reading them, dotted paths, values as TOML spells them, and what pydantic found, in words."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any, Final

from pretuned.errors import ConfigError, Fault

FILE: Final = "pyproject.toml"
INT64_MAX: Final = 2**63 - 1  # what a TOML integer, and what a kernel takes, may be
# pydantic puts the tag of a union's member into the path of an error; `dotted` takes those that start so out again.
TAG: Final = "\0"

_KINDS: Final = {
    "string_type": "a string",
    "bool_type": "true or false",
    "int_type": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "a table",
    "model_type": "a table",
    "dataclass_type": "a table",
    "model_attributes_type": "a table",
}


def unreadable(error: Exception) -> str:
    """Return what keeps a file from being read as TOML, in words."""
    text = re.sub(r"^Cannot declare \((.+?),?\) twice", _twice, str(error))
    text = text.replace("Cannot overwrite a value", "a key stands there for a second time")
    return f"cannot be read as TOML: {text}"


def _twice(found: re.Match[str]) -> str:
    name = ".".join(re.findall(r"'([^']*)'", found[1]))
    return f"[{name}] stands there for a second time; write each table once"


def read_toml(file: Path) -> dict[str, Any]:
    """Return a TOML file's document, an empty one where there is no such file; raises ConfigError."""
    try:
        return tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError([Fault(file=file.name, path="", message=unreadable(error))]) from None


def value_at(document: Any, path: str) -> Any:  # noqa: ANN401 - a TOML document
    """Return what stands at a dotted path, or None."""
    for key in path.split("."):
        document = document.get(key) if isinstance(document, dict) else None
    return document


def table_at(document: Any, path: str) -> dict[str, Any] | None:  # noqa: ANN401 - a TOML document
    """Return the table at a dotted path, or None."""
    found = value_at(document, path)
    return found if isinstance(found, dict) else None


def text_at(document: Any, path: str) -> str:  # noqa: ANN401 - a TOML document
    """Return the string at a dotted path, or an empty one."""
    found = value_at(document, path)
    return found if isinstance(found, str) else ""


def dotted(path: tuple[int | str, ...]) -> str:
    """Return a path as a reader of TOML would write it: `arguments[0].dtype`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif not part.startswith(TAG):
            text += f".{part}" if text else part
    return text


def spelled(value: object) -> str:
    """Return `value` as TOML spells it, shortened where it is long."""
    match value:
        case bool():
            return str(value).lower()
        case str():
            text = f'"{value}"'
        case list() | tuple():
            text = f"[{', '.join(map(spelled, value))}]"
        case dict():
            text = "{ " + ", ".join(f"{key} = {spelled(item)}" for key, item in value.items()) + " }" if value else "{}"
        case complex():
            text = f"[{value.real}, {value.imag}]"
        case int() if abs(value) > INT64_MAX:
            text = "an integer beyond 64 bits"
        case _:
            text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."  # noqa: PLR2004 - half a line


def in_words(error: Any) -> str:  # noqa: ANN401, PLR0911 - pydantic's ErrorDetails
    """Return what pydantic found wrong with a value, in the words of the file's author."""
    given = spelled(error["input"])
    match error["type"]:
        case "value_error":
            return str(error["ctx"]["error"])
        case "literal_error":
            return f"is {given}; expected {error['ctx']['expected']}"
        case "greater_than_equal":
            return f"is {given}; expected {error['ctx']['ge']:g} or more"
        case "greater_than":
            return f"is {given}; expected more than {error['ctx']['gt']:g}"
        case "less_than":
            return f"is {given}; expected less than {error['ctx']['lt']:g}"
        case "less_than_equal":
            return f"is {given}; expected {error['ctx']['le']:g} or less"
        case "string_pattern_mismatch":
            return f"is {given}"
        case "too_long":
            return f"has {error['ctx']['actual_length']} entries; at most {error['ctx']['max_length']} are allowed"
        case kind if kind in _KINDS:
            return f"expected {_KINDS[kind]}, found {given}"
        case _:
            return f"{error['msg']}, found {given}"
