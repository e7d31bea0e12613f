"""`pretuned show`: the table of a project, a lock or an installed package."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from pretuned.cli.project import OWN, UsageError, here, package_named, packages_of
from pretuned.errors import ExitCode
from pretuned.record import lock as lockfile
from pretuned.report.lines import Line, of_lock, of_package
from pretuned.report.text import table


def run(options: Namespace) -> ExitCode:
    """Print the table: of what is baked where the project is installed, else of its lock."""
    title, lines = _source(options)
    lines = [line for line in lines if not options.kernel or line.kernel in options.kernel]
    lines = [line for line in lines if not options.device or options.device in line.device]
    if options.json:
        print(json.dumps({"source": title, "rows": [line.to_json() for line in lines]}, indent=2))
        return ExitCode.SUCCESS
    print(title)
    print()
    print(table(lines) if lines else "no rows, so only the defaults run; run `pretuned tune` on a machine with a GPU")
    return ExitCode.SUCCESS


def _source(options: Namespace) -> tuple[str, Sequence[Line]]:
    if options.source is None:
        project = here(options)
        packages = packages_of(project) if project is not None else [package_named(OWN)]
        if project is None or packages:
            return "\n".join(map(_title, packages)), [line for package in packages for line in of_package(package)]
        return f"{project.lock.name} (not baked: the project is not installed)", of_lock(lockfile.read(project.lock))
    path = Path(options.source)
    if path.suffix == ".json":
        if not path.is_file():
            raise UsageError(f"there is no lock '{path}'")
        return path.name, of_lock(lockfile.read(path))
    package = package_named(options.source)
    return _title(package), of_package(package)


def _title(package: ModuleType) -> str:
    """Return a line on what is baked into a package: its binaries by architecture."""
    folder = Path(str(package.__file__)).parent / "kernels"
    kinds: dict[str, int] = {}
    for file in sorted(folder.glob("*.*")):
        if file.suffix in {".cubin", ".ptx"}:
            kind = f"{file.stem.rpartition('.')[2]} {file.suffix[1:]}"
            kinds[kind] = kinds.get(kind, 0) + 1
    shipped = ", ".join(f"{count} {kind}" for kind, count in kinds.items()) or "no binaries"
    return f"{package.__name__}: {shipped}"
