"""What several commands do first: find the project, its specs, and its generated packages."""

from __future__ import annotations

import importlib
import sys
from argparse import Namespace
from types import ModuleType
from typing import Final

from pretuned.config import Project
from pretuned.diagnostics import Diagnostic, Reporter
from pretuned.errors import ConfigError, Fault, UsageError
from pretuned.frontends.registry import load_project

OWN: Final = "pretuned.kernels"  # the bundled kernels


def project_of(options: Namespace) -> Project:
    """Return the project that the options name; raises ConfigError."""
    return load_project(options.project.resolve())


def packages_of(project: Project) -> list[ModuleType]:
    """Return those of the project's generated packages that are installed, or baked into its sources."""
    found = (_imported(project, table.module) for table in project.modules)
    return [package for package in found if package is not None and hasattr(package, "TABLE")]


def _imported(project: Project, module: str) -> ModuleType | None:
    name = project.import_name(module)
    try:
        return importlib.import_module(name)
    except ImportError:
        place = project.root / module
    if not (place / "__init__.py").is_file():
        return None
    sys.path.insert(0, str(place.parents[name.count(".")]))  # `src`, in a project that is not installed
    try:
        return importlib.import_module(name)
    except ImportError:
        return None
    finally:
        sys.path.pop(0)


def package_named(name: str) -> ModuleType:
    """Import the generated package `name`; raises UsageError if there is none."""
    try:
        package = importlib.import_module(name)
    except ImportError as error:
        raise UsageError(f"'{name}' cannot be imported: {error}") from None
    if not hasattr(package, "TABLE"):
        raise UsageError(f"'{name}' is not a package that pretuned generated")
    return package


def here(options: Namespace) -> Project | None:
    """Return the project that the options name, or None where the folder holds none."""
    try:
        return project_of(options)
    except ConfigError as error:
        if not (options.project / "pyproject.toml").is_file() or _untouched(error.faults):
            return None
        raise


def _untouched(faults: tuple[Fault, ...]) -> bool:
    """Whether the only fault is a pyproject.toml that does not speak of pretuned."""
    return len(faults) == 1 and not faults[0].path


class _Console(Reporter):
    """Prints diagnostics to stderr, apart from what a program reads; what stdout holds back comes first."""

    def report(self, diagnostic: Diagnostic, /) -> None:
        sys.stdout.flush()
        print(diagnostic, file=sys.stderr, flush=True)


console: Final = _Console()
