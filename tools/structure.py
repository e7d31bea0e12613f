"""Figures of how the package is built, of one checkout or of two beside each other.

    python tools/structure.py [CHECKOUT] [--against EARLIER] [--places FIGURE]

The sources are parsed and nothing is imported, so that any commit can be measured by the same rules. Generated packages
(`kernels/`) are left out. What is counted:

- A class or type alias is defined twice when two modules define its public name.
- A circle is a strongly connected set of modules. An import counts for the module that it names; the packages above
  that module are not counted. "At import" counts what runs when the module is imported, "with types" adds what stands
  under `if TYPE_CHECKING:`, and "with lazy imports" adds what stands in functions.
- A place is a line of a Python file, or of a header where it says so.
"""

from __future__ import annotations

import argparse
import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

SHORT_LINES, LONG_LINES = 60, 350
DTYPE_RECORD = "runtime/types.py"
ADAPTERS = "runtime/adapters/"
HOST = re.compile("is_host|HOST|host_rows|on_host")
ARRAY_LIBRARY = re.compile("cupy|torch")
IMPORTED, TYPED, LAZY = "at import", "with types", "with lazy imports"  # each counts those before it as well


@dataclass(frozen=True)
class Module:
    """One file of the package."""

    name: str
    path: str  # from the package's folder
    text: str
    tree: ast.Module

    @cached_property
    def lines(self) -> list[str]:
        """The text by lines."""
        return self.text.splitlines()


@dataclass(frozen=True)
class Figure:
    """A number, and the places that it counts."""

    number: int
    places: tuple[str, ...] = ()


@dataclass
class _Imports(ast.NodeVisitor):
    """The modules that one module names in imports, by when they are imported."""

    module: Module
    known: frozenset[str]
    found: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    kind: str = IMPORTED

    def visit_Import(self, node: ast.Import) -> None:
        self.found[self.kind] |= {alias.name for alias in node.names} & self.known

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        base = node.module or ""
        if node.level:
            package = self.module.name.split(".")
            above = node.level - self.module.path.endswith("__init__.py")
            base = ".".join([*package[: len(package) - above], *([node.module] if node.module else [])])
        for alias in node.names:
            inner = f"{base}.{alias.name}"
            self.found[self.kind] |= {inner if inner in self.known else base} & self.known - {self.module.name}

    def visit_If(self, node: ast.If) -> None:
        typed = ast.unparse(node.test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}
        self._within(TYPED if typed and self.kind == IMPORTED else self.kind, node.body)
        self._within(self.kind, node.orelse)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._within(LAZY, node.body)

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815 - named by ast

    def _within(self, kind: str, nodes: list[ast.stmt]) -> None:
        before, self.kind = self.kind, kind
        for node in nodes:
            self.visit(node)
        self.kind = before


class Package:
    """The sources of `pretuned` in one checkout."""

    def __init__(self, checkout: Path) -> None:
        self.folder = checkout / "generator" / "pretuned"
        self.modules = [self._module(file) for file in sorted(self.folder.rglob("*.py")) if self._is_ours(file)]

    def _is_ours(self, file: Path) -> bool:
        return file.relative_to(self.folder).parts[0] not in {"kernels", "templates"}

    def _module(self, file: Path) -> Module:
        path = file.relative_to(self.folder)
        parts = path.with_suffix("").parts
        name = ".".join(("pretuned", *(parts[:-1] if parts[-1] == "__init__" else parts)))
        text = file.read_text(encoding="utf-8")
        return Module(name, path.as_posix(), text, ast.parse(text))

    def imports(self, upto: str) -> dict[str, set[str]]:
        """Return which modules each module imports, of the kinds up to `upto`."""
        kinds = (IMPORTED, TYPED, LAZY)[: (IMPORTED, TYPED, LAZY).index(upto) + 1]
        known = frozenset(module.name for module in self.modules)
        graph = {}
        for module in self.modules:
            visitor = _Imports(module, known)
            visitor.visit(module.tree)
            graph[module.name] = set().union(*(visitor.found[kind] for kind in kinds))
        return graph

    def circles(self, upto: str) -> list[list[str]]:
        """Return the sets of modules that import each other, largest first."""
        return sorted(strongly_connected(self.imports(upto)), key=lambda names: (-len(names), names))

    def defined_twice(self) -> dict[str, list[str]]:
        """Return the classes and type aliases that several modules define, with the modules' paths."""
        found: dict[str, dict[str, None]] = defaultdict(dict)
        for module in self.modules:
            for name in type_names(module.tree):
                found[name][module.path] = None
        return {name: list(paths) for name, paths in sorted(found.items()) if len(paths) > 1}

    def functions(self) -> Iterator[tuple[int, str]]:
        """Yield the lines of each function, decorators left out, and where it stands."""
        for module in self.modules:
            for node in ast.walk(module.tree):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
                    yield node.end_lineno - node.lineno + 1, f"{module.path}:{node.lineno} {node.name}"

    def places(self, pattern: re.Pattern[str], *, outside: str = "", inside: str = "") -> list[str]:
        """Return the lines that match, with their places, in files whose path begins with `inside`."""
        return [
            f"{module.path}:{number}: {line.strip()}"
            for module in self.modules
            if module.path.startswith(inside) and not (outside and module.path.startswith(outside))
            for number, line in enumerate(module.lines, 1)
            if pattern.search(line)
        ]

    def unexpanded(self) -> list[str]:
        """Return modules whose docstring holds a brace that nothing fills."""
        return [module.path for module in self.modules if "{" in (ast.get_docstring(module.tree) or "")]


def type_names(tree: ast.Module) -> Iterator[str]:
    """Yield the public names of a module's classes, nested ones included, and of its type aliases."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node.name
    for node in tree.body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        name = target.id if isinstance(target, ast.Name) else ""
        if re.fullmatch("[A-Z][A-Za-z0-9]*[a-z][A-Za-z0-9]*", name):
            yield name


def strongly_connected(graph: dict[str, set[str]]) -> list[list[str]]:
    """Return the strongly connected components of several nodes (Kosaraju's algorithm, without recursion)."""
    reverse: dict[str, set[str]] = {node: set() for node in graph}
    for node, others in graph.items():
        for other in others:
            reverse[other].add(node)
    order: list[str] = []
    for component in _reached(graph, list(graph)):
        order += component
    return [sorted(component) for component in _reached(reverse, order[::-1]) if len(component) > 1]


def _reached(graph: dict[str, set[str]], starts: list[str]) -> Iterator[list[str]]:
    """Yield what each start reaches that none before it reached, in the order in which a walk leaves it."""
    seen: set[str] = set()
    for start in starts:
        left, stack = [], [] if start in seen else [(start, iter(graph[start]))]
        seen.add(start)
        while stack:
            node, others = stack[-1]
            found = next((other for other in others if other not in seen), None)
            if found is None:
                left.append(node)
                stack.pop()
            else:
                seen.add(found)
                stack.append((found, iter(graph[found])))
        if left:
            yield left


def figures(package: Package) -> dict[str, Figure]:
    """Measure a package."""

    def of(places: list[str]) -> Figure:
        return Figure(len(places), tuple(places))

    lines = sorted(((len(module.lines), module.path) for module in package.modules), reverse=True)
    longest = max(package.functions())
    twice = package.defined_twice()
    host = package.places(HOST)
    found = {
        "modules": Figure(len(lines)),
        "lines": Figure(sum(number for number, _ in lines)),
        f"modules under {SHORT_LINES} lines": of([f"{path} {n}" for n, path in lines if n < SHORT_LINES]),
        f"modules over {LONG_LINES} lines": of([f"{path} {n}" for n, path in lines if n > LONG_LINES]),
        "lines of the longest function": Figure(longest[0], (longest[1],)),
        "class and alias names defined twice": of([f"{name}: {', '.join(paths)}" for name, paths in twice.items()]),
    }
    for kind in (IMPORTED, TYPED, LAZY):
        circles = package.circles(kind)
        found[f"import circles, {kind}"] = of([", ".join(circle) for circle in circles])
        found[f"modules in a circle, {kind}"] = Figure(sum(map(len, circles)))
    headers = [path for path in package.folder.rglob("*.h") if "bfloat16" in path.read_text(encoding="utf-8")]
    return found | {
        "bfloat16 outside the dtype record": of(package.places(re.compile("bfloat16"), outside=DTYPE_RECORD)),
        "headers that name bfloat16": of([path.relative_to(package.folder).as_posix() for path in sorted(headers)]),
        "cupy, torch in the runtime outside adapters": of(
            package.places(ARRAY_LIBRARY, inside=_runtime_of(package), outside=ADAPTERS)
        ),
        "cupy, torch in all outside adapters": of(package.places(ARRAY_LIBRARY, outside=ADAPTERS)),
        "lines with a host special case": of(host),
        "files with a host special case": Figure(len({place.partition(":")[0] for place in host})),
        "module docstrings with an unexpanded brace": of(package.unexpanded()),
    }


def _runtime_of(package: Package) -> str:
    """Return where the runtime is: it stood in `bake` once."""
    return "runtime/" if (package.folder / "runtime").is_dir() else "bake/runtime/"


def main() -> None:
    """Print the figures of a checkout, or the places of one figure."""
    parser = argparse.ArgumentParser(description="Print figures of how the package is built.")
    here = Path(__file__).resolve().parents[1]
    parser.add_argument("checkout", nargs="?", type=Path, default=here, help="a repository's root (default: this one)")
    parser.add_argument("--against", type=Path, metavar="EARLIER", help="another checkout, printed before it")
    parser.add_argument("--places", metavar="FIGURE", help="list the places of the figures whose name begins so")
    given = parser.parse_args()
    now = figures(Package(given.checkout))
    if given.places is not None:
        for name, figure in now.items():
            if name.startswith(given.places):
                print(name, figure.number, *figure.places, sep="\n  ")
        return
    before = figures(Package(given.against)) if given.against else {}
    width = max(map(len, now))
    if before:
        print(f"{'':{width}}  {'before':>7}  {'now':>7}")
    for name, figure in now.items():
        earlier = f"{before[name].number:>7,}  " if before else ""
        print(f"{name:{width}}  {earlier}{figure.number:>7,}")


if __name__ == "__main__":
    main()
