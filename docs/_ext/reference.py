"""The parts of the reference that are generated from the code, as Markdown.

Each function here returns one part; `PARTS` names them. Whatever the code has and this module cannot describe is an
error, so that a new key, function or attribute cannot be left out of the documentation.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pareto_plot
from examples import EXAMPLES
from pretuned.cli.parser import parser
from pretuned.errors import ExitCode
from pretuned.record import canonical
from pretuned.runtime.types import DTYPES
from pretuned.schema.descriptions import ENVIRONMENT
from pretuned.schema.generate import SCHEMAS
from pretuned.spec import grammar

FUNCTIONS: Final = {
    "ceil_div": "`ceil_div(a, b)`: a divided by b, rounded up",
    "min": "`min(a, b, ...)`: the least of two or more values",
    "max": "`max(a, b, ...)`: the greatest of two or more values",
    "sizeof": "`sizeof(T)`: the bytes of one element of a type or of a specialisation over types",
}
DEVICE: Final = {
    "device.sm_count": "streaming multiprocessors",
    "device.shared_bytes": "shared memory that one block may have, in bytes (dynamic, opted in)",
    "device.compute_capability": "90 for compute capability 9.0",
    "device.l2_bytes": "size of the L2 cache in bytes",
    "device.resident_blocks": "in `launches[].grid` alone: the most blocks of that launch that it holds at once",
}
# How a table of the spec is written, by the path of its model.
SECTIONS: Final = {
    "": "Top level",
    "arguments": "`arguments`",
    "dims": "`[dims]`",
    "specialisations": "`[specialisations]`",
    "constraints": "`[constraints]`",
    "verify": "`[verify]`",
    "backward": "`[backward]`",
    "scratch": "`scratch`",
    "tensor-maps": "`tensor-maps`",
    "launches": "`[[launches]]`",
    "compile": "`[compile]`",
    "cost": "`[cost]`",
    "implementations": "`[implementations.NAME]`",
}


# Before which keys the line of a selection is broken, and the columns that they begin in.
LINE_BREAKS: Final = {
    "certificate": 1,
    "inside": 17,
    "outside": 17,
    "reach": 1,
    "choices": 1,
    "cost": 14,
    "candidate": 14,
    "space": 1,
    "compiler": 1,
}

ROOT: Final = Path(__file__).parents[2]
Schema = Mapping[str, Any]
_DIGEST: Final = re.compile(r'"([0-9a-f]{6})[0-9a-f]{26,}"')
_QUOTED: Final = re.compile(r"(?<!\w)'([^']+)'(?!\w)")  # which descriptions have for code: editors show plain text


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Return a Markdown table."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"


def kind(schema: Schema) -> str:  # noqa: C901, PLR0911 - a case for each form of a schema
    """Return what an entry of a JSON schema may be, in words."""
    match schema:
        case {"anyOf": list(options)} | {"oneOf": list(options)}:
            return " or ".join(dict.fromkeys(kind(option) for option in options))
        case {"enum": list(values)}:
            return "one of " + ", ".join(f"`{value}`" for value in values)
        case {"const": value}:
            return f"`{value}`"
        case {"type": "array", "items": Mapping() as items}:
            return f"list of {_plural(kind(items))}"
        case {"type": "array"}:
            return "list"
        case {"type": "object", "additionalProperties": Mapping() as values}:
            return f"table of {_plural(kind(values))}"
        case {"type": "object"}:
            return "table"
        case {"type": ["string", "integer"]}:
            return "expression"
        case {"type": list(names)}:
            return " or ".join(_WORDS[str(name)] for name in names)
        case {"type": str(name)}:
            return _WORDS[name]
    raise ValueError(f"no words for the schema {schema}")


_WORDS: Final = {
    "array": "list",
    "boolean": "bool",
    "integer": "integer",
    "number": "number",
    "object": "table",
    "string": "text",
}


def _plural(words: str) -> str:
    return {"text": "texts", "table": "tables", "list": "lists"}.get(
        words, words if words.startswith(("one of", "list of", "table of")) or " " in words else f"{words}s"
    )


# Where a schema's own words would be hard to read.
KINDS: Final = {
    "space": "table of lists or ranges, or list of tables",
    "implementations.space": "table of lists or ranges, or list of tables",
    "dims.sizes": "list of integers, or range",
    "dims.values": "list of integers, or range",
    "specialisations.values": "list of integers, bools or texts, or range",
    "specialisations": "table of tables",
    "structs": "table of tables",
    "default": "table of values, or of `{ at = ... }`",
    "implementations.default": "table of values, or of `{ at = ... }`",
    "problems": "list of tables",
    "seeds": "list of tables",
    "implementations.seeds": "list of tables",
    "verify.rtol": "number, or table by dtype",
    "verify.atol": "number, or table by dtype",
}


def _default(schema: Schema, *, required: bool) -> str:
    if required:
        return "required"
    value = schema.get("default")
    if value is None or value in ("", [], {}) or isinstance(value, dict):
        return ""
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def keys(section: str, schema: Schema) -> str:
    """Return the table of a table's keys: what each is, its default, what it means and an example."""
    rows = []
    for key, entry in schema["properties"].items():
        path = f"{section}.{key}".lstrip(".")
        default = _default(entry, required=key in schema.get("required", ()))
        meaning = _QUOTED.sub(r"`\1`", entry["description"])
        rows.append((f"`{key}`", KINDS.get(path) or kind(entry), default, meaning, f"`{EXAMPLES[path]}`"))
    return table(("key", "value", "default", "meaning", "example"), rows)


def spec() -> str:
    """Return the tables of all keys of a kernel spec, a section for each table of the file."""
    return "\n".join(f"### {SECTIONS[path]}\n\n{keys(path, schema)}" for path, schema in sections(SCHEMAS["spec"]()))


def sections(schema: Schema) -> Iterator[tuple[str, Schema]]:
    """Yield the tables of a file's schema with their keys: the top level, and what stands under its keys."""
    yield "", schema
    for key, entry in schema["properties"].items():
        found = _described(entry)
        if found is not None:
            yield key, found


def _described(entry: Schema) -> Schema | None:
    """Return the schema of the tables that stand under a key, of a list's items or of a table's values, if any."""
    if "properties" in entry:  # which ranges and formulas have without a word, as one value in another form
        return entry if all("description" in one for one in entry["properties"].values()) else None
    inner = entry.get("items", entry.get("additionalProperties"))
    return _described(inner) if isinstance(inner, dict) else None


def dtypes() -> str:
    """Return the table of element types."""
    rows = [
        (
            f"`{name}`",
            f"`{dtype.cuda}`",
            f"`<{dtype.header}>`" if dtype.header else "",
            str(dtype.size_bytes),
            "yes" if dtype.code else "no",
            f"{dtype.rtol:g}" if dtype.floating else "0 (equal)",
        )
        for name, dtype in DTYPES.items()
    ]
    return table(("dtype", "in the template", "header", "bytes", "as a scalar by value", "default `rtol`"), rows)


def expressions() -> str:
    """Return the functions and attributes that expressions may use, and the bounds of the language."""
    functions = table(("function",), [(FUNCTIONS[name],) for name in sorted(grammar.FUNCTIONS)])
    attributes = table(
        ("attribute", "meaning"), [(f"`{name}`", DEVICE[name]) for name in sorted(grammar.DEVICE_ATTRIBUTES)]
    )
    bounds = (
        f"An expression has at most {grammar.MAX_LENGTH} characters and is nested at most {grammar.MAX_DEPTH} deep."
    )
    return f"{functions}\n{attributes}\n{bounds}\n"


def project_table() -> str:
    """Return the tables of the project's keys, and of one entry of `[[modules]]`."""
    whole = SCHEMAS["project"]()["properties"]["tool"]["properties"]["pretuned"]
    inner = keys("project.modules", whole["properties"]["modules"]["items"])
    return f"{keys('project', whole)}\nAn entry of `modules`:\n\n{inner}"


def commands() -> str:
    """Return the help of every command."""
    root = parser()
    parts = [f"```text\n{root.format_help().rstrip()}\n```\n"]
    parts += [
        f"## pretuned {name}\n\n```text\n{command.format_help().rstrip()}\n```\n"
        for name, command in subcommands(root).items()
    ]
    return "\n".join(parts)


def subcommands(root: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return the parser of each command by its name."""
    actions = [action for action in root._actions if isinstance(action, argparse._SubParsersAction)]  # noqa: SLF001 - argparse has no other way
    return dict(actions[0].choices)


def environment() -> str:
    """Return the table of environment variables."""
    return table(("variable", "read", "meaning"), [(f"`{name}`", *words) for name, words in ENVIRONMENT.items()])


def exit_codes() -> str:
    """Return the table of exit codes."""
    return table(("status", "meaning"), [(str(int(code)), f"{code.meaning}.") for code in ExitCode])


def trial_sizes() -> str:
    """Return which sizes `check --execute` tries."""
    from pretuned.tune import trials  # noqa: PLC0415 - it imports NumPy, which only this part needs

    rows = [(str(count), ", ".join(map(str, sizes))) for count, sizes in trials.PRIMES.items()]
    rows.append((f"{len(rows) + 1} and more", ", ".join(map(str, trials.MANY)) + ", again from the first"))
    sizes = table(("dims that are not constant", "first sizes tried"), rows)
    steps = ", ".join(map(str, trials.MULTIPLES[1:]))
    return (
        f"{sizes}\nThey are made smaller where all arrays of a call, constant dims counted, have more than "
        f"{trials.ELEMENTS:,} elements. A configuration runs at {trials.AWKWARD} problems with such sizes, in both "
        f"orders. Of these sizes, and of those near them that are odd multiples of {steps}, the first are taken at "
        "which it is legal.\n"
    )


def layers() -> str:
    """Return the folders and modules of the package from top to bottom, each with what its docstring says first."""
    document = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = document["tool"]["importlinter"]["contracts"]
    (found,) = [contract["layers"] for contract in contracts if contract["type"] == "layers"]
    rows = [
        (f"`{name.strip().removeprefix('pretuned.')}`", _first_words(name.strip()))
        for layer in found
        for name in layer.split("|")
    ]
    return table(("folder or module", "what it holds"), rows)


def _first_words(module: str) -> str:
    """Return the first paragraph of a module's docstring, without running the module."""
    place = ROOT / "generator" / Path(*module.split("."))
    file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    words = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return " ".join(words.partition("\n\n")[0].split())


def mistakes() -> str:
    """Return the mistakes of tests/messages, each with what was written and what is printed about it."""
    table = tomllib.loads((ROOT / "tests" / "messages" / "messages.toml").read_text(encoding="utf-8"))
    parts = []
    for part in table["parts"]:
        parts.append(f"## {part['title']}\n")
        parts += [_mistake(entry) for entry in part["mistakes"] if entry["now"]]
    return "\n".join(parts)


def _mistake(entry: Mapping[str, Any]) -> str:
    changes = [_signed("-", texts[0]) + _signed("+", texts[1]) for _, *texts in entry.get("edit", ()) if len(texts) > 1]
    edited = f"````diff\n{''.join(changes)}````\n\n" if changes else ""
    by = f"`{entry['run']}` prints:" if "run" in entry else "The call raises:"
    heading = f"### {entry['what'][0].upper()}{entry['what'][1:]}"
    return f"{heading}\n\n{edited}{by}\n\n````text\n{entry['now'].strip()}\n````\n"


def selection_line() -> str:
    """Return the shortest selection of the repository's lock, on several lines and with its digests cut short."""
    lock = json.loads((ROOT / "pretuned.lock.json").read_text(encoding="utf-8"))
    shortest = min(lock["selections"], key=lambda selection: len(canonical.line(selection)))
    text = _DIGEST.sub(r'"\1..."', canonical.line(shortest))
    for key, indent in LINE_BREAKS.items():
        text = text.replace(f', "{key}": ', f',\n{" " * indent}"{key}": ')
    text = text.replace('}, {"implementation"', '},\n             {"implementation"')
    return f"```text\n{text}\n```"


def _signed(sign: str, text: str) -> str:
    return "".join(f"{sign} {line}\n" for line in text.strip("\n").split("\n") if line)


PARTS: Final[Mapping[str, Callable[[], str]]] = {
    "spec": spec,
    "dtypes": dtypes,
    "expressions": expressions,
    "project-table": project_table,
    "commands": commands,
    "environment": environment,
    "exit-codes": exit_codes,
    "trial-sizes": trial_sizes,
    "layers": layers,
    "mistakes": mistakes,
    "selection-line": selection_line,
    "pareto": pareto_plot.front,
}
