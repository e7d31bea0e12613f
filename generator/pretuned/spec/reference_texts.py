"""What of a Python file a function is made of: its own text and that of the module's names that it reads. Pure.

A project has the references of all its kernels in one file. What one kernel is judged by changes where its own function
does, not where another's is added; blank lines and docstrings change nothing. Lines are taken as they are written: a
tree would be spelt otherwise by another version of Python, and a lock serves all of them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator


def functions_text(source: str, functions: Iterable[str]) -> str:
    """Return what `functions` of a module's `source` are made of; all of it where that cannot be told.

    That is their definitions, those of the names at the top of the module that they read, what these read in turn, and
    every statement that is neither a definition, an import nor a docstring: it may do anything.
    """
    try:
        statements = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return source
    defined: dict[str, list[int]] = {}
    for place, statement in enumerate(statements):
        for name in _defined(statement):
            defined.setdefault(name, []).append(place)
    wanted = [name for name in dict.fromkeys(functions) if name in defined]
    kept = {place for place, one in enumerate(statements) if not (_is_docstring(one) or list(_defined(one)))}
    wanted += [name for place in kept for name in _read(statements[place])]
    seen: set[str] = set()
    while wanted:
        if (name := wanted.pop()) in seen or name not in defined:
            continue
        seen.add(name)
        for place in defined[name]:
            kept.add(place)
            wanted += _read(statements[place])
    lines = source.splitlines()
    return "\n".join(
        written for place in sorted(kept) for line in _lines(statements[place]) if (written := lines[line - 1].rstrip())
    )


def _defined(statement: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement at the top of a module defines, and does nothing else."""
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Import(names=names) | ast.ImportFrom(names=names) if names[0].name != "*":
            yield from ((alias.asname or alias.name).partition(".")[0] for alias in names)
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            yield name


def _read(statement: ast.stmt) -> list[str]:
    return [node.id for node in ast.walk(statement) if isinstance(node, ast.Name)]


def _is_docstring(statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr(value=ast.Constant(value=str())):
            return True
    return False


def _lines(statement: ast.stmt) -> list[int]:
    """Return the numbers of a statement's lines, decorators included and docstrings left out."""
    decorators = getattr(statement, "decorator_list", [])
    first = min([statement.lineno, *(one.lineno for one in decorators)])
    left_out = {
        line
        for node in ast.walk(statement)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and _is_docstring(node.body[0])
        for line in range(node.body[0].lineno, (node.body[0].end_lineno or node.body[0].lineno) + 1)
    }
    return [line for line in range(first, (statement.end_lineno or first) + 1) if line not in left_out]
