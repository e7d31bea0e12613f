"""`pretuned bake`: write the generated packages without building the project, or compare them with what is there."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from pretuned.backends import named
from pretuned.bake.plan import Extra
from pretuned.build.core import bake_project
from pretuned.build.place import place, recover
from pretuned.cli.project import UsageError, console, place_of, specs_of
from pretuned.config import Project, Settings
from pretuned.errors import ExitCode, counted
from pretuned.runtime.records import Value
from pretuned.runtime.text import assignment, no_such
from pretuned.spec.model import KernelSpec
from pretuned.spec.space import Configuration, pairs


def run(options: Namespace) -> ExitCode:
    """Write the packages into the source tree, as an editable install does, or below `--output`.

    With `--check` nothing is written or tuned: what lies there is compared, and the status is FOUND if it differs.
    """
    project, settings = place_of(options)
    specs = specs_of(project)
    extra: list[Extra] = [parse_extra(text, specs) for text in options.extra]
    if options.check:
        settings = _untuned(project, settings)
    for module in project.modules if not options.check else ():
        recover((options.output or project.root) / module.module)
    differing = 0
    asked = options.on is not None and not named(options.on.backend).ships
    for baked in bake_project(project, settings, console, extra=extra, every_backend=asked):
        folder = (options.output or project.root) / baked.module
        if options.check:
            differing += _compare(baked.files, folder)
        else:
            place(baked.files, folder)
            print(f"{folder}: {counted(len(baked.files), 'file')}")
    return ExitCode.FOUND if differing else ExitCode.SUCCESS


def _untuned(project: Project, settings: Settings) -> Settings:
    """Return the settings under which the lock alone is baked: no time is left to tune what it lacks."""
    if (settings.mode or project.mode) == "force":
        raise UsageError(
            "use --check in another mode: it compares with what the lock gives, and mode force measures everything anew"
        )
    return replace(settings, budget_s=0.0)


def _compare(files: Mapping[str, bytes], folder: Path) -> int:
    """Print how a package on disk differs from `files`, one file per line, and return how many do."""
    there = {file.relative_to(folder).as_posix(): file for file in sorted(folder.rglob("*")) if file.is_file()}
    there = {name: file for name, file in there.items() if "__pycache__" not in file.relative_to(folder).parts}
    found = dict.fromkeys(files.keys() - there.keys(), "missing")
    found |= dict.fromkeys(there.keys() - files.keys(), "not baked")
    found |= {name: "differs" for name in files.keys() & there.keys() if there[name].read_bytes() != files[name]}
    for name, what in sorted(found.items()):
        print(f"{folder}/{name}: {what}")
    if not found:
        print(f"{folder}: {counted(len(files), 'file')}, as they would be baked")
    return len(found)


def parse_extra(text: str, specs: Mapping[str, KernelSpec]) -> Extra:
    """Return the kernel and configuration of `KERNEL:k=v,...`; raises UsageError.

    `implementation=NAME` may stand among the values; parameters that are left out are the default's.
    """
    kernel, separator, rest = text.partition(":")
    if not separator:
        raise UsageError(f"--with {text}: write KERNEL:k=v,...")
    if kernel not in specs:
        raise UsageError(f"--with {text}: {no_such('kernel', kernel, specs)}")
    spec = specs[kernel]
    given: dict[str, Value] = {}
    for part in filter(str.strip, rest.split(",")):
        found = assignment(part)
        if found is None:
            raise UsageError(f"--with {text}: '{part.strip()}' is not a k=v")
        given[found[0]] = found[1]
    name = str(given.pop("implementation", spec.default_implementation))
    if name not in spec.all_implementations:
        message = no_such("implementation", name, spec.all_implementations, of=kernel)
        raise UsageError(f"--with {text}: {message}")
    values = dict(spec.all_implementations[name].default) | given
    return kernel, Configuration(implementation=name, values=pairs(values))
