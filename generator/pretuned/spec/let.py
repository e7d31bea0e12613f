"""Derived names, `[let]`: each stands for an expression over other names, and is written out where it is read.

A spec writes `d = "d2 // 2"` once, and its shapes, grids and constraints read `d`. When the spec is read, `d2 // 2`
takes its place there, so that everything behind (guards, folding, the generated package) meets expressions over dims
and parameters alone. A definition may read those above it, so there are no circles.
"""

from __future__ import annotations

import ast
import copy
import dataclasses
from collections.abc import Collection, Mapping
from typing import Any, Final, cast

from pydantic import BaseModel

from pretuned.runtime.types import DTYPES
from pretuned.spec.addresses import Alignment
from pretuned.spec.expressions import Expression, LeadingDims, OwnExtent
from pretuned.spec.formulas import Branch, Formula
from pretuned.spec.grammar import DEVICE_ATTRIBUTES, children_of, literal_comparison

MAX_LENGTH: Final = 2000  # characters of a definition with all that it reads written out
MAX_DEPTH: Final = 60
UNSOUND: Final = Expression("1")  # stands in for what is reported, so that one slip is one line


def written_out(let: Mapping[str, Expression], known: Collection[str]) -> dict[str, Expression]:
    """Return each definition over `known` names and the device's alone; UNSOUND for one that cannot be written so.

    Names of `known` cannot be defined, so such definitions are left out.
    """
    found: dict[str, Expression] = {}
    for name, expression in let.items():
        if name in known:
            continue
        whole = substituted(expression, found)
        sound = whole.names <= {*known, *DTYPES, *DEVICE_ATTRIBUTES} and not too_long(whole)
        found[name] = whole if sound else UNSOUND
    return found


def too_long(expression: Expression) -> bool:
    """Return whether an expression is more than a person, or a recursive function, can follow."""
    return len(expression.python) > MAX_LENGTH or _depth(expression.tree) > MAX_DEPTH


def substituted(value: Any, definitions: Mapping[str, Expression]) -> Any:  # noqa: ANN401 - any value of a model
    """Return a value of a spec with the definitions in place of their names in all expressions; `value` if none is."""
    match value:
        case Expression() if not isinstance(value, LeadingDims | OwnExtent) and not value.names.isdisjoint(definitions):
            return Expression(ast.unparse(_Substitution(definitions).visit(copy.deepcopy(value.tree))))
        case BaseModel() if changed := _changed(dict(value), definitions):
            return value.model_copy(update=changed)
        case Alignment() | Formula() | Branch() if changed := _changed(_fields(value), definitions):
            return dataclasses.replace(value, **changed)
        case dict():
            return {**value, **_changed(value, definitions)}
        case tuple():
            return tuple(substituted(item, definitions) for item in value)
    return value


def _fields(value: Alignment | Formula | Branch) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


def _changed(values: Mapping[str, Any], definitions: Mapping[str, Expression]) -> dict[str, Any]:
    found = {name: substituted(value, definitions) for name, value in values.items()}
    return {name: value for name, value in found.items() if value is not values[name] and value != values[name]}


class _Substitution(ast.NodeTransformer):
    """Puts definitions in the place of names; sizeof() takes a type, which none is."""

    def __init__(self, definitions: Mapping[str, Expression]) -> None:
        self._definitions = definitions

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._definitions[node.id].tree if node.id in self._definitions else node

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        # A derived name is a number. The check reports one that is compared with a text or a float, by its name.
        return node if literal_comparison(node) is not None else cast("ast.expr", self.generic_visit(node))

    def visit_Call(self, node: ast.Call) -> ast.expr:
        if ast.unparse(node.func) != "sizeof":
            node.args = [self.visit(argument) for argument in node.args]
        return node


def _depth(node: ast.expr) -> int:
    return 1 + max(map(_depth, children_of(node)), default=0)
