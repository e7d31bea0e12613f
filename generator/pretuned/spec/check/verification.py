"""[verify]: the functions that it names, and what its tolerances are for."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Final

from pretuned.runtime.text import closest
from pretuned.runtime.types import DTYPES
from pretuned.spec.check.dtypes import unknown_dtype
from pretuned.spec.check.names import PathFault
from pretuned.spec.model import KernelSpec
from pretuned.spec.space import dtypes_of

FUNCTIONS: Final = ("reference", "gpu_reference", "inputs", "compare")  # keys of [verify] that name one
REFERENCES: Final = frozenset({"reference", "gpu_reference"})
NAMESPACE: Final = "xp"  # the module whose arrays a reference is passed; a name of the spec's own goes before it

# What `inputs` and `compare` are passed besides the dims and specialisations.
_TAKEN: Final = {
    "inputs": ("generator",),
    "compare": ("name", "out", "ref", "inputs", "outputs", "references", "standard"),
}


def verification_faults(spec: KernelSpec) -> Iterator[PathFault]:
    """Yield the faults of [verify]."""
    for key in FUNCTIONS:
        target = getattr(spec.verify, key)
        if target is not None:
            for message in _function(spec, target):
                yield f"verify.{_spelled(key)}", message
    if spec.verify.gpu_reference is not None and spec.verify.reference is None:
        yield "verify.gpu-reference", "is compared with `reference`, which is missing; name that as well"
    for key, taken in _TAKEN.items():
        for name in sorted({*taken} & {*spec.dims, *spec.specialisations}) if getattr(spec.verify, key) else ():
            yield (
                f"verify.{key}",
                f"is passed '{name}' by pretuned, and by the dim or specialisation of that name; rename it",
            )
    for key in ("rtol", "atol"):
        yield from _tolerance(spec, f"verify.{key}", getattr(spec.verify, key))


def _tolerance(spec: KernelSpec, path: str, given: float | dict[str, float] | None) -> Iterator[PathFault]:
    """Yield what of a tolerance would be ignored."""
    if isinstance(given, dict):
        for dtype in given:
            if dtype not in DTYPES:
                yield f"{path}.{dtype}", unknown_dtype(dtype)
            elif dtype == "bool":
                yield f"{path}.{dtype}", "booleans are right or wrong; leave it out"
        return
    dtypes = {name for output in spec.outputs for name in dtypes_of(spec, output.dtype)}
    if given is not None and dtypes and not any(DTYPES[name].floating for name in dtypes):
        key, integer = path.rpartition(".")[2], min(dtypes, key=lambda name: (name == "bool", name))
        message = "one number is for floating outputs, and this kernel has none"
        yield path, message if integer == "bool" else f"write `{key} = {{ {integer} = {given:g} }}`: {message}"


def passed(spec: KernelSpec, key: str) -> list[str]:
    """Return the names that the function of a key of [verify] may take."""
    first: tuple[str, ...] = _TAKEN.get(key, ())
    last: tuple[str, ...] = ()
    if key in REFERENCES:
        known = {*spec.dims, *spec.specialisations, *DTYPES}
        derived = (name for name, expression in spec.derived.items() if expression.names <= known)
        extents = (argument.name for argument in spec.arguments if argument.each)
        first = (*(argument.name for argument in (*spec.whole(spec.inputs), *spec.scalars)), *extents, *derived)
        last = (NAMESPACE,)
    return list(dict.fromkeys((*first, *spec.dims, *spec.specialisations, *last)))


def _spelled(key: str) -> str:
    """Return a key of [verify] as it is written in TOML."""
    return key.replace("_", "-")


def not_passed(name: str, known: Iterable[str]) -> str:
    """Return what is wrong with a parameter that nothing is passed for."""
    names = list(known)
    hint = closest(name, names) or f"; it may take {', '.join(names)}"
    return f"takes '{name}', which is not passed{hint}"


def _function(spec: KernelSpec, target: str) -> Iterator[str]:
    """Yield what is wrong with a `file.py:function`, which is looked up without running the file."""
    file, _, function = target.partition(":")
    if not function.isidentifier() or not file.endswith(".py"):
        yield f"'{target}' names no function; write \"reference.py:{spec.name}\""
        return
    place = spec.folder / file
    if not place.is_file():
        beside = [other.name for other in spec.folder.glob("*.py")]
        yield f"'{file}' does not exist beside the spec{closest(file, beside)}"
        return
    try:
        tree = ast.parse(place.read_bytes())
    except SyntaxError as error:
        yield f"'{file}' cannot be imported: {error.msg} (line {error.lineno})"
        return
    except (OSError, ValueError, RecursionError, MemoryError) as error:
        yield f"'{file}' cannot be imported: {error}"
        return
    bound = set(_bound(tree.body))
    if function not in bound and "*" not in bound:
        yield f"'{file}' defines no '{function}'{closest(function, bound)}"


def signature_faults(spec: KernelSpec) -> Iterator[PathFault]:
    """Yield what calls of [verify]'s functions would fail at: a parameter that nothing is passed for, or no result.

    A function that is imported or decorated shows what it takes when it is called.
    """
    for key in FUNCTIONS:
        file, _, function = (getattr(spec.verify, key) or "").partition(":")
        tree, names = ast.parse((spec.folder / file).read_bytes() if file else b""), passed(spec, key)
        kinds = ast.FunctionDef | ast.AsyncFunctionDef
        found = [one for one in tree.body if isinstance(one, kinds) and one.name == function]
        for definition in (one for one in found[-1:] if not one.decorator_list):
            where = f"{file}:{definition.lineno}: {function}"
            if isinstance(definition, ast.AsyncFunctionDef):
                yield f"verify.{_spelled(key)}", f"{where} is `async`; write `def {function}`"
            elif any(isinstance(node, ast.Yield | ast.YieldFrom) for node in _own(definition.body)):
                yield f"verify.{_spelled(key)}", f"{where} yields; return the result instead"
            for name in sorted(_demanded(definition.args) - {*names}):
                yield f"verify.{_spelled(key)}", f"{where} {not_passed(name, names)}"


def _own(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yield what a function's body is made of, without the functions in it."""
    for node in nodes:
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from _own(ast.iter_child_nodes(node))


def _demanded(arguments: ast.arguments) -> set[str]:
    """Return the parameters that must be passed."""
    positional = arguments.args[: len(arguments.args) - min(len(arguments.defaults), len(arguments.args))]
    keywords = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return {one.arg for one in positional} | {one.arg for one, default in keywords if default is None}


def _bound(statements: Iterable[ast.stmt]) -> Iterator[str]:
    """Yield the names that a module's statements bind to what may be called; `*` for a star import."""
    for statement in statements:
        match statement:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                yield from (alias.asname or alias.name.partition(".")[0] for alias in aliases)
            case ast.Assign(targets=targets):
                yield from (target.id for target in targets if isinstance(target, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case ast.If() | ast.Try():
                yield from _bound(statement.body)
                yield from _bound(statement.orelse)
                for handler in getattr(statement, "handlers", ()):
                    yield from _bound(handler.body)
