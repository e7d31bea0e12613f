"""C++ that Jinja takes for its own: operands of inline PTX behind a brace, nested initialisers, a brace before a hash.

Nearly every such text is an error of Jinja's syntax. One is not: of a number in two braces Jinja would print the number
alone. What a template prints is a name of the spec or is computed from names; a number needs no braces, so that one in
braces is refused.
"""

from __future__ import annotations

import re
from typing import Final

from jinja2 import Environment, TemplateSyntaxError, nodes

RAW: Final = "put {% raw %} and {% endraw %} around it"

_OPENING: Final = re.compile(r"\{[%{#]")
_CLOSING: Final = {"{%": "%}", "{{": "}}", "{#": "#}"}
_BEGINS: Final = {"{%": "a tag", "{{": "an expression", "{#": "a comment"}
_ENDS: Final = {"if": "endif", "for": "endfor", "macro": "endmacro", "call": "endcall", "filter": "endfilter"}
_PRINTED: Final = re.compile(r"\{\{(.*?)\}\}")
_SHOWN: Final = 60  # characters of a line


def syntax_error(environment: Environment, source: str, error: TemplateSyntaxError) -> tuple[int, str]:
    """Return the line of an error in a template's syntax, and what to do about it."""
    message = (error.message or "").rstrip(".")
    if message.startswith("Unexpected end of template") and (unclosed := _unclosed(environment, source)) is not None:
        line, tag = unclosed
        return line, f"'{{% {tag} %}}' is not closed; write '{{% {_ENDS[tag]} %}}' where it ends"
    place = _opening(source, error.lineno, of_tag="tag name" in message or "unknown tag" in message)
    if place is None:
        return error.lineno, message
    mark = source[place : place + 2]
    return source.count("\n", 0, place) + 1, (
        f"'{mark}' begins {_BEGINS[mark]} of Jinja, which '{_CLOSING[mark]}' ends: {message}; if this is C++, write "
        f"'{mark[0]} {mark[1]}' or {RAW}: {_excerpt(source, place)}"
    )


def bare_literal(source: str, tree: nodes.Template) -> tuple[int, str] | None:
    """Return line and message of the first `{{ }}` that names nothing, None without one.

    Texts may stand there: `{{ "{{" }}` is how Jinja prints its own braces.
    """
    for output in tree.find_all(nodes.Output):
        for node in output.nodes:
            if isinstance(node, nodes.TemplateData) or any(map(_speaks, (node, *node.find_all(nodes.Node)))):
                continue
            written = _PRINTED.search(_line(source, node.lineno))
            inside = written[1].strip() if written else "..."
            return node.lineno, (
                f"'{written[0] if written else '{{...}}'}' prints no name of the spec, and Jinja takes its braces "
                f"away; if this is C++, write '{{ {{{inside}}} }}' or {RAW}; if it is not, write it without braces"
            )
    return None


def _speaks(node: nodes.Node) -> bool:
    """Whether an expression with this node in it may be meant for Jinja: it is a name or a text."""
    return isinstance(node, nodes.Name) or (isinstance(node, nodes.Const) and isinstance(node.value, str))


def _opening(source: str, line: int, *, of_tag: bool) -> int | None:
    """Return where what is wrong at `line` begins: the last `{%`, `{{` or `{#` that begins there or reaches there."""
    found = None
    position = 0
    while (match := _OPENING.search(source, position)) and source.count("\n", 0, match.start()) < line:
        end = source.find(_CLOSING[match.group()], match.end())
        if end < 0:
            return match.start()
        if source.count("\n", 0, end) + 1 >= line and (match.group() == "{%" or not of_tag):
            found = match.start()
        position = end + 2
    return found


def _unclosed(environment: Environment, source: str) -> tuple[int, str] | None:
    """Return line and name of the innermost tag that no other closes."""
    opened: list[tuple[int, str]] = []
    in_tag = False
    for line, kind, value in environment.lex(source):
        if in_tag and kind == "name":
            if value in _ENDS:
                opened.append((line, value))
            elif value in _ENDS.values() and opened:
                opened.pop()
        in_tag = kind == "block_begin" or (in_tag and kind == "whitespace")
    return opened[-1] if opened else None


def _line(source: str, number: int) -> str:
    return source.split("\n")[number - 1]


def _excerpt(source: str, place: int) -> str:
    """Return the line around `place`, cut short."""
    line = _line(source, source.count("\n", 0, place) + 1).strip()
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}..."
