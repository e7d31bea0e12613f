"""`pretuned explain`: what an installed package would run, and why."""

from __future__ import annotations

from argparse import Namespace
from types import ModuleType

from pretuned.cli.project import OWN, here, package_named, packages_of
from pretuned.errors import ExitCode, UsageError
from pretuned.runtime.records import Value
from pretuned.runtime.text import assignment, no_such


def run(options: Namespace) -> ExitCode:
    """Print which configuration would run the problem, and on which evidence."""
    packages = _packages(options)
    owner = next((package for package in packages if options.kernel in package.TABLE), None)
    if owner is None:
        known = sorted(name for package in packages for name in package.TABLE)
        raise UsageError(no_such("kernel", options.kernel, known))
    problem: dict[str, Value] = {}
    for name, value in map(_value, options.problem):
        if name in problem:
            raise UsageError(f"'{name}' is given twice")
        problem[name] = value
    try:
        print(owner.explain(options.kernel, device=options.device, **problem))
    except owner.PretunedError as error:
        no_device = not options.device and isinstance(error, RuntimeError)
        hint = "; `--device NAME` asks about a tuned device (`pretuned show` lists them)" if no_device else ""
        raise UsageError(f"{error}{hint}") from None
    return ExitCode.SUCCESS


def _packages(options: Namespace) -> list[ModuleType]:
    if options.package:
        return [package_named(options.package)]
    project = here(options)
    if project is None:
        return [package_named(OWN)]
    packages = packages_of(project)
    if not packages:
        raise UsageError("nothing is baked yet; run `pretuned bake`, install the project, or name a --package")
    return packages


def _value(text: str) -> tuple[str, Value]:
    found = assignment(text)
    if found is None:
        raise UsageError(
            f"write each dim and specialisation as NAME=VALUE, as in n=4096 T=float32; '{text}' is not that"
        )
    return found
