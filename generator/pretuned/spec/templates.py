"""The one Jinja environment: how a template's text is read and rendered, and which names it uses.

Strict in every direction: an undefined name, None, or an object with no spelling in CUDA C++ is an error rather than
text that compiles to something else. Besides the values of a spec a template has `ceil_div`, `min`, `max`, and Jinja's
`range` and `namespace`.
"""

from __future__ import annotations

import math
import traceback
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined, TemplateNotFound, TemplateSyntaxError, nodes
from jinja2.meta import find_undeclared_variables
from jinja2.utils import Namespace

from pretuned.runtime.table import ceil_div
from pretuned.runtime.text import closest
from pretuned.spec.braces import bare_literal, syntax_error

_MOST_TURNS: Final = 1_000_000


def _range(*bounds: int) -> range:
    """Return Python's `range`; raises RenderError for one that a template would not come to an end of."""
    found = range(*bounds)
    if found and (found[-1] - found[0]) // found.step >= _MOST_TURNS:
        raise RenderError(f"{found} has more than {_MOST_TURNS:,} numbers; let the kernel go around instead")
    return found


HELPERS: Final = {"ceil_div": ceil_div, "min": min, "max": max, "range": _range, "namespace": Namespace}
_INCLUDES: Final = (nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends)


_TEXT: Final = "template"  # what messages call a template that stands in its spec


class RenderError(ValueError):
    """A template cannot be read or rendered; the message names the template and, where known, the line."""


def _finalize(value: object) -> object:
    """Write bools as C++ does and refuse what has no spelling there."""
    match value:
        case bool():
            return "true" if value else "false"
        case int() | str() | StrictUndefined():  # the last raises where Jinja turns it into text
            return value
        case float() if math.isfinite(value):
            return value
    shown = value if isinstance(value, float) else f"a value of type {type(value).__name__}"
    raise RenderError(f"{shown} has no spelling in CUDA C++; render a number, a bool or a type")


def is_text(template: str) -> bool:
    """Return whether a spec's `template` is the text itself: it has several lines. Else it is the name of a file."""
    return "\n" in template


def shown_name(template: str) -> str:
    """Return what messages call a template."""
    return _TEXT if is_text(template) else template


def text_of(folder: Path, template: str) -> str:
    """Return the text of a template as it is written; raises OSError or UnicodeDecodeError."""
    return template if is_text(template) else (folder / template).read_text(encoding="utf-8-sig")


class _Loader(FileSystemLoader):
    """Loads files, and texts that are their own names."""

    def get_source(self, environment: Environment, template: str) -> tuple[str, str, Callable[[], bool]]:
        if is_text(template):
            return template, _TEXT, lambda: True
        return super().get_source(environment, template)


@lru_cache(maxsize=32)
def jinja(folder: Path) -> Environment:
    """Return the environment for templates (and includes) below `folder`; a template that changes is read again."""
    environment = Environment(
        loader=_Loader(folder, encoding="utf-8-sig"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_finalize,
        autoescape=False,  # noqa: S701 - the output is CUDA C++
    )
    environment.globals = dict(HELPERS)
    return environment


def render(folder: Path, template: str, values: Mapping[str, object]) -> str:
    """Return the text of `template` under `values`; raises RenderError with the template's file and line."""
    try:
        return jinja(folder).get_template(template).render(values)
    except Exception as error:  # noqa: BLE001 - a template is its author's code, and may raise anything
        raise RenderError(describe(error, folder, template)) from None


def render_option(option: str, values: Mapping[str, object]) -> str:
    """Return a compile option, which is a template in small, under `values`; raises RenderError."""
    try:
        return jinja(Path()).from_string(option).render(values)
    except Exception as error:  # noqa: BLE001 - as above
        raise RenderError(describe(error, Path(), f"option '{option}'")) from None


def names_in(folder: Path, template: str) -> dict[str, str]:
    """Return every name that `template` and its includes read from outside, with the place that reads it first.

    A place is `FILE:LINE`.

    Raises RenderError for a file that is missing or cannot be parsed.
    """
    names: dict[str, str] = {}
    try:
        _collect(folder, template, names, assigned=frozenset(), seen=set())
    except TemplateNotFound as error:
        raise RenderError(describe(error, folder, template)) from None
    return names


def files_of(folder: Path, template: str) -> set[str]:
    """Return the template with all files that it includes, as Jinja names them; raises RenderError as `names_in`."""
    seen: set[str] = set()
    _collect(folder, template, {}, assigned=frozenset(), seen=seen)
    return {name for name in seen if is_text(name) or (folder / name).is_file()}


def _collect(folder: Path, template: str, names: dict[str, str], *, assigned: frozenset[str], seen: set[str]) -> None:
    """Add the names that `template` reads; `assigned` are those that its includers `set`, which it sees."""
    seen.add(template)
    tree, read = _parsed(folder, template)
    lines = _first_lines(tree)  # without names that are only set, in a branch, for what is included
    for name in sorted((read & lines.keys()) - HELPERS.keys() - assigned):
        names.setdefault(name, f"{shown_name(template)}:{lines[name]}")
    assigned |= {node.name for node in tree.find_all(nodes.Name) if node.ctx == "store"}
    for statement in tree.find_all(_INCLUDES):
        for included in _targets(statement, template):
            if included in seen:
                continue
            try:
                _collect(folder, included, names, assigned=assigned, seen=seen)
            except TemplateNotFound:
                if not (isinstance(statement, nodes.Include) and statement.ignore_missing):
                    files = {file.relative_to(folder).as_posix() for file in folder.glob("**/*.*")} - seen
                    where = f"{shown_name(template)}:{statement.lineno}"
                    raise RenderError(
                        f"{where}: there is no '{included}' to include{closest(included, files)}"
                    ) from None


def _parsed(folder: Path, template: str) -> tuple[nodes.Template, set[str]]:
    """Return the tree of a template and the names that it reads from outside."""
    environment = jinja(folder)
    assert environment.loader is not None  # set by jinja()
    try:
        source = environment.loader.get_source(environment, template)[0]
        tree = environment.parse(source, filename=shown_name(template))
        read = find_undeclared_variables(tree)
    except TemplateNotFound:
        raise
    except (TemplateSyntaxError, UnicodeDecodeError) as error:
        raise RenderError(describe(error, folder, template)) from None
    if (literal := bare_literal(source, tree)) is not None:
        raise RenderError(f"{shown_name(template)}:{literal[0]}: {literal[1]}")
    return tree, read


def _first_lines(tree: nodes.Template) -> dict[str, int]:
    """Return the first line that reads each name."""
    lines: dict[str, int] = {}
    for node in tree.find_all(nodes.Name):
        if node.ctx == "load":
            lines[node.name] = min(node.lineno, lines.get(node.name, node.lineno))
    return lines


def _targets(statement: nodes.Node, template: str) -> Iterator[str]:
    """Yield the files that an include names; a computed name would hide what the template reads."""
    target = getattr(statement, "template", None)
    items = target.items if isinstance(target, nodes.List | nodes.Tuple) else [target]
    for item in items:
        if not (isinstance(item, nodes.Const) and isinstance(item.value, str)):
            where = f"{shown_name(template)}:{statement.lineno}"
            raise RenderError(f'{where}: includes a computed name; write the file\'s, as in "part.cuh"')
        yield item.value


def option_names(option: str) -> set[str]:
    """Return the names that a compile option (a template in small) reads."""
    try:
        return find_undeclared_variables(jinja(Path()).parse(option)) - HELPERS.keys()
    except TemplateSyntaxError as error:
        raise RenderError(f"option '{option}': {(error.message or '').rstrip('.')}") from None


def describe(error: Exception, folder: Path, template: str) -> str:
    """Return the message of an error met in `template` or what it includes, with file and line where they are known."""
    message, template = str(error) or type(error).__name__, shown_name(template)
    match error:
        case TemplateNotFound():
            return f"{template}: there is no template '{error.name}'"
        case TemplateSyntaxError():
            file = Path(error.filename).name if error.filename and error.filename[0] != "<" else template
            line, said = syntax_error(jinja(folder), error.source or "", error)
            return f"{file}:{line}: {said}"
        case UnicodeDecodeError():
            return f"{template}: is not UTF-8"
        case RecursionError():
            return f"{template}: is nested too deep, or includes itself"
    # Jinja maps the lines of rendering code back to the template's in the traceback.
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.endswith(".py")]
    inside = [frame for frame in frames if frame.filename == _TEXT or Path(frame.filename).is_relative_to(folder)]
    return f"{Path(inside[-1].filename).name}:{inside[-1].lineno}: {message}" if inside else f"{template}: {message}"
