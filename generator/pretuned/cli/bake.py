"""`pretuned bake`: write the generated packages without building the project."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from contextlib import suppress

from pretuned.bake.plan import Extra
from pretuned.build.core import bake_project
from pretuned.build.place import place
from pretuned.cli.project import UsageError, place_of, say, specs_of
from pretuned.config import HOST
from pretuned.errors import closest
from pretuned.spec.expressions import Value
from pretuned.spec.model import KernelSpec
from pretuned.spec.space import Configuration, pairs


def run(options: Namespace) -> int:
    """Write the packages into the source tree, as an editable install does, or below `--output`."""
    project, settings = place_of(options)
    specs = specs_of(project)
    extra: list[Extra] = [parse_extra(text, specs) for text in options.extra]
    for baked in bake_project(project, settings, say, extra=extra, host_rows=options.on == HOST):
        folder = (options.output or project.root) / baked.module
        place(baked.files, folder)
        print(f"{folder}: {len(baked.files)} files")
    return 0


def parse_extra(text: str, specs: Mapping[str, KernelSpec]) -> Extra:
    """Return the kernel and configuration of `KERNEL:k=v,...`; raises UsageError.

    `implementation=NAME` may stand among the values; parameters that are left out are the default's.
    """
    kernel, separator, rest = text.partition(":")
    if not separator or kernel not in specs:
        raise UsageError(f"--with {text}: there is no kernel '{kernel}'{closest(kernel, specs)}; write KERNEL:k=v,...")
    spec = specs[kernel]
    given = dict(_assignment(text, part.strip()) for part in rest.split(",") if part.strip())
    name = str(given.pop("implementation", spec.default_way))
    if name not in spec.ways:
        raise UsageError(f"--with {text}: {kernel} has no implementation '{name}'{closest(name, spec.ways)}")
    values = dict(spec.ways[name].default) | given
    return kernel, Configuration(implementation=name, values=pairs(values))


def _assignment(text: str, part: str) -> tuple[str, Value]:
    name, separator, value = part.partition("=")
    if not separator:
        raise UsageError(f"--with {text}: '{part}' is no k=v")
    if value in {"true", "false"}:
        return name, value == "true"
    with suppress(ValueError):
        return name, int(value)
    return name, value
