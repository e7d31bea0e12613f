"""Ways to compute a kernel: one, whose keys stand at the top, or several in [implementations.NAME] tables."""

from __future__ import annotations

from collections.abc import Iterator

from pretuned.config.toml import spelled
from pretuned.runtime.text import closest
from pretuned.spec.check.names import PathFault, identifier
from pretuned.spec.model import MAIN, KernelSpec


def prefix_of(spec: KernelSpec, implementation: str) -> str:
    """Return what the path of an implementation's key begins with: nothing where its keys stand at the top."""
    return f"implementations.{implementation}." if spec.implementations else ""


def implementation_faults(spec: KernelSpec) -> Iterator[PathFault]:
    """Yield a fault wherever the two shapes of a spec are mixed, or no implementation is said to be the default."""
    if not spec.implementations:
        return
    for key in ("template", "scratch", "space", "seeds", "launches"):
        if getattr(spec, key):
            yield key, f"with [implementations.NAME] tables, `{key}` stands in each of them"
    if spec.compile.options or spec.compile.arch_specific:
        yield "compile", "with [implementations.NAME] tables, `compile` stands in each of them"
    if spec.constraints.where:
        yield "constraints.where", "with [implementations.NAME] tables, `where` stands in each of them"
    yield from _chosen(spec)
    for name, implementation in sorted(spec.implementations.items()):
        yield from identifier(f"implementations.{name}", name)
        if name == MAIN and len(spec.implementations) == 1:
            yield "implementations.main", "one implementation needs no table; write its keys at the top"
        if implementation.constraints.requires:
            message = "what the kernel demands stands at the top: [constraints] requires"
            yield f"implementations.{name}.constraints.requires", message


def _chosen(spec: KernelSpec) -> Iterator[PathFault]:
    """The default of the kernel is one implementation's."""
    known = " or ".join(f'"{name}"' for name in sorted(spec.implementations))
    chosen = spec.default.get("implementation")
    if chosen is None:
        yield "default.implementation", f"missing; write `implementation = {known}`: the one that is the baseline"
    elif chosen not in spec.implementations:
        near = closest(str(chosen), spec.implementations)
        yield "default.implementation", f"is {spelled(chosen)}, which is no implementation{near or f'; write {known}'}"
    elif spec.all_implementations[spec.default_implementation].call is not None:
        message = f"is {spelled(chosen)}, a library call; the default runs wherever nothing else does, also without"
        yield "default.implementation", f"{message} the library: name an implementation with a template"
    for name in sorted(spec.default.keys() - {"implementation"}):
        yield f"default.{name}", "with [implementations.NAME] tables, each has its own `default`; leave it out here"
