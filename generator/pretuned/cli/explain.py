"""`pretuned explain`: what an installed package would run, and why."""

from __future__ import annotations

from argparse import Namespace
from contextlib import suppress
from types import ModuleType

from pretuned.cli.project import OWN, UsageError, here, package_named, packages_of
from pretuned.errors import ExitCode
from pretuned.runtime.text import closest


def run(options: Namespace) -> ExitCode:
    """Print which configuration would run the problem, and on which evidence."""
    packages = _packages(options)
    owner = next((package for package in packages if options.kernel in package.TABLE), None)
    if owner is None:
        known = sorted(name for package in packages for name in package.TABLE)
        hint = closest(options.kernel, known)
        raise UsageError(f"there is no kernel '{options.kernel}'{hint}; there are {', '.join(known) or 'none'}")
    problem = dict(_assignment(text) for text in options.problem)
    try:
        print(owner.explain(options.kernel, device=options.device, **problem))
    except owner.PretunedError as error:
        raise UsageError(str(error)) from None
    return ExitCode.SUCCESS


def _packages(options: Namespace) -> list[ModuleType]:
    if options.package:
        return [package_named(options.package)]
    project = here(options)
    if project is None:
        return [package_named(OWN)]
    packages = packages_of(project)
    if not packages:
        raise UsageError("the project is not installed, so nothing is baked yet: `pip install .`, or name a --package")
    return packages


def _assignment(text: str) -> tuple[str, int | bool | str]:
    name, separator, value = text.partition("=")
    if not separator or not name.isidentifier():
        raise UsageError(f"'{text}' is no NAME=VALUE; write each dim and specialisation, as in n=4096 T=float32")
    if value in {"true", "false"}:
        return name, value == "true"
    with suppress(ValueError):
        return name, int(value)
    return name, value
