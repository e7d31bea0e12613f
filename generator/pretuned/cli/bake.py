"""`pretuned bake`: write the generated packages without building the project, or compare them with what is there."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from pretuned.api.baking import bake, demand_layout, parse_extra
from pretuned.api.projects import opened, specs_of
from pretuned.backends import named
from pretuned.build.core import bake_project
from pretuned.cli.display import shown
from pretuned.cli.project import console
from pretuned.config import Project, Settings, read_settings
from pretuned.errors import ExitCode, UsageError, counted
from pretuned.report.progress_log import IN_BUILDS


def run(options: Namespace) -> ExitCode:
    """Write the packages into the source tree, as an editable install does, or below `--output`.

    With `--check` nothing is written or tuned: what lies there is compared, and the status is FOUND if it differs.
    """
    if options.check:
        return _check(options)
    asked = {"output": options.output, "on": options.on, "extra": options.extra, "layout": options.layout}
    with shown(read_settings().progress, kinds=IN_BUILDS) as listen:
        packages = bake(options.project, **asked, listen=listen, report=console.report)
    for package in packages:
        print(f"{package.folder}: {counted(len(package.files), 'file')}")
    return ExitCode.SUCCESS


def _check(options: Namespace) -> ExitCode:
    """Compare what lies in the folders with what the lock gives."""
    demand_layout(options.layout, options.output)
    project, settings = opened(options.project, options.on)
    specs, settings = specs_of(project), _untuned(project, settings)
    extra = [parse_extra(text, specs) for text in options.extra]
    asked = options.on is not None and not named(options.on.backend).ships
    baked = bake_project(project, settings, console, extra=extra, every_backend=asked, layout=options.layout)
    differing = sum(_compare(package.files, (options.output or project.root) / package.module) for package in baked)
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
