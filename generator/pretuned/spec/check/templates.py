"""The templates beside a spec: they render, with names that are known, and use every parameter."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import PurePosixPath

from pretuned.runtime.text import closest
from pretuned.runtime.types import DTYPES
from pretuned.spec import space
from pretuned.spec.check.implementations import prefix_of
from pretuned.spec.check.names import PathFault
from pretuned.spec.check.names import parameters as every_parameter
from pretuned.spec.cpp import template_line, without_comments
from pretuned.spec.defaults import defaults
from pretuned.spec.lines import lines_of
from pretuned.spec.lists import LIST
from pretuned.spec.model import ImplementationSpec, KernelSpec
from pretuned.spec.space import Configuration, Pairs
from pretuned.spec.templates import RenderError, is_text, names_in, option_names, render, render_option, shown_name


def template_faults(spec: KernelSpec, implementation: ImplementationSpec) -> Iterator[PathFault]:
    """Yield the faults of `template` and `compile.options`, and the parameters that nothing uses."""
    if not implementation.template:
        yield "template", 'missing; write `template = "NAME.cu.jinja"`, or `call = "cupy:matmul"` for a library'
        return
    parameters = space.parameters(implementation)
    rendered = {*parameters, *spec.specialisations, *spec.constant_dims}
    derived = {name: e.names for name, e in spec.derived.items() if e.names <= {*rendered, *DTYPES}}
    rendered |= derived.keys() | spec.structs.keys() | _declared(spec)
    used = _launched(spec, implementation)
    complete = bool(implementation.launches)
    for index, option in enumerate(implementation.compile.options):
        path = f"compile.options[{index}]"
        try:
            names = option_names(option)
        except RenderError as error:
            complete = False
            yield path, str(error)
            continue
        used |= names.union(*(derived.get(name, ()) for name in names))
        yield from (
            (path, f"undefined name '{name}'{_hint(spec, name, rendered)}") for name in sorted(names - rendered)
        )
    if not is_text(implementation.template) and (message := _missing(spec, implementation.template)):
        yield "template", message
        return
    try:
        reads = names_in(spec.folder, implementation.template)
    except RenderError as error:
        yield "template", str(error)
        return
    for name, line in sorted(reads.items()):
        if name not in rendered and not (name in spec.let and name in every_parameter(spec)):  # a fault of [let]
            yield "template", f"{line}: undefined name '{name}'{_hint(spec, name, rendered)}"
    yield from _undeclared(spec, reads)
    used |= reads.keys() | {read for name in reads for read in derived.get(name, ())}
    for name in sorted(parameters - used) if complete else ():
        message = f"parameter '{name}' is used nowhere: not in the template, launches, options or `align`; remove it"
        yield f"space.{name}", message


def _missing(spec: KernelSpec, template: str) -> str:
    """Return what is wrong with the path of a template; an empty text where a file is there."""
    place = PurePosixPath(template)
    if place.is_absolute() or ".." in place.parts or "\\" in template:
        return f"'{template}' is not a path below the spec's folder; write it with '/', and without '..'"
    if (spec.folder / template).is_file():
        return ""
    files = [file.relative_to(spec.folder).as_posix() for file in spec.folder.glob("**/*.jinja")]
    return f"'{template}' does not exist beside the spec{closest(template, files)}"


def _undeclared(spec: KernelSpec, reads: Collection[str]) -> Iterator[PathFault]:
    """Yield the structs that a template does not print, and so would declare otherwise than calls pack them."""
    for name in sorted(_declared(spec)):
        if name not in reads:
            where = "on a line of its own, before the kernel"
            yield "template", f"does not declare '{name}': write `{{{{ {name} }}}}` {where}"


def _declared(spec: KernelSpec) -> set[str]:
    """Return what the arguments need the template to declare, by printing its name."""
    return ({argument.dtype for argument in spec.scalars} & spec.structs.keys()) | ({LIST} if spec.lists else set())


def _hint(spec: KernelSpec, name: str, rendered: set[str]) -> str:
    if name in spec.stride_names:
        return "; a stride is passed to the kernel as an argument"
    if name in spec.dims:
        return "; a dim is passed to the kernel as an argument"
    if name in spec.let:
        return "; what a call or the device decides is passed to the kernel as an argument"
    return closest(name, rendered) or f"; known are {', '.join(sorted(rendered))}. In C++, write '{{ {{' for two braces"


def _launched(spec: KernelSpec, implementation: ImplementationSpec) -> set[str]:
    """Return the names that decide a launch, what it is given, or how arrays must lie."""
    expressions = [extent for buffer in implementation.scratch for extent in buffer.shape]
    expressions += [extent for one in implementation.tensor_maps for extent in one.box]
    expressions += [
        expression for launch in implementation.launches for expression in (*launch.grid, *launch.block, launch.shared)
    ]
    expressions += [argument.align for argument in spec.arrays if argument.align is not None]
    expressions += [spec.derived[argument.name] for argument in spec.arguments if argument.name in spec.derived]
    return {name for expression in expressions for name in expression.names}


def rendering_faults(spec: KernelSpec) -> Iterator[PathFault]:
    """Yield a fault where an implementation's default does not render, or renders without an entry point.

    What only rendering shows: an unknown filter, a value without a spelling in CUDA C++, an error in an expression.
    """
    templates = {
        name: implementation for name, implementation in spec.all_implementations.items() if implementation.call is None
    }
    for name, implementation in templates.items():
        prefix = prefix_of(spec, name)
        for specialisation, default in _defaults(spec, name):
            values = space.rendered(spec, specialisation, default)
            try:
                source = render(spec.folder, implementation.template, values)
                for option in implementation.compile.options:
                    render_option(option, values)
            except RenderError as error:
                yield f"{prefix}template", str(error)
                break
            plain = without_comments(source)
            if implementation.tensor_maps and "__grid_constant__" not in plain:
                taken = f"const __grid_constant__ CUtensorMap {implementation.tensor_maps[0].name}"
                lacks = f"{implementation.template} has no '__grid_constant__'; take a tensor map as `{taken}`"
                yield f"{prefix}template", f"{lacks}, since TMA reads it where it was passed"
            for index, launch in enumerate(implementation.launches):
                if (message := _entry_fault(spec, implementation, launch.function, plain, values)) is not None:
                    yield f"{prefix}launches[{index}].function", message


def _defaults(spec: KernelSpec, implementation: str) -> Iterator[tuple[Pairs, Configuration]]:
    for specialisation in space.specialisations(spec):
        for default in defaults(spec, specialisation, implementation):
            yield specialisation, default


def _entry_fault(
    spec: KernelSpec, implementation: ImplementationSpec, function: str, plain: str, values: Mapping[str, object]
) -> str | None:
    """Return why a launch cannot name `function`, as far as the text shows it: `plain`, which has no comments."""
    if not re.search(rf"\b{function}\b", plain):
        entries = re.findall(r"\b(\w+)\s*\([^()]*\)\s*\{", plain)
        return f"{shown_name(implementation.template)} has no '{function}'{closest(function, entries)}"
    if (line := template_line(plain, function)) is not None:
        place = lines_of(spec.folder, implementation.template, values)[line - 1] or shown_name(implementation.template)
        return (
            f"{place}: '{function}' is a C++ template, which no launch finds by its name; write a function "
            f'`extern "C" __global__ void {function}(...)`, and parameters of the spec for the template\'s'
        )
    return None
