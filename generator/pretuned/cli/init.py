"""`pretuned init`: a first kernel and the tables, in a project that exists. Asks nothing and overwrites nothing."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pretuned.build.core import load_specs
from pretuned.cli.project import console
from pretuned.config import Project
from pretuned.config.toml import FILE, read_toml
from pretuned.errors import ExitCode, UsageError
from pretuned.init.advice import lacks_array_library
from pretuned.init.edits import plan_edits
from pretuned.runtime.cuda_majors import NEWEST

if TYPE_CHECKING:
    from pretuned.exchange.to_spec import SpecFiles


def run(options: Namespace) -> ExitCode:
    """Write what is missing, and print what was done, what is left to do, and what comes next."""
    root = options.project.resolve()
    kernel = _of_t1(options.from_t1) if options.from_t1 is not None else None
    edits = plan_edits(root, options.module, kernel.texts if kernel is not None else None)
    _demand_module(options.module, edits.project)
    for name, text in edits.texts.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("xb" if "/" in name else "wb") as opened:
            opened.write(text.encode())
    for line in edits.done:
        print(line)
    for diagnostic in edits.diagnostics:
        console.report(diagnostic)
    if kernel is not None:
        print("\n".join(("", "to complete:", *(f"  {point}" for point in kernel.open_points))))
    print("\n".join(_next(edits.project, kernel.kernel if kernel is not None else None)))
    return ExitCode.SUCCESS


def _demand_module(asked: str | None, project: Project) -> None:
    """Raise UsageError for a module that a table which is there already does not name."""
    known = [table.module for table in project.modules]
    if asked is not None and Path(asked) not in map(Path, known):
        there = " and ".join(map(repr, known))
        raise UsageError(f"--module {asked}: {FILE} has pretuned's table already, with {there}; change it there")


def _of_t1(path: Path) -> SpecFiles:
    from pretuned.exchange.to_spec import spec_files  # noqa: PLC0415 - it imports NumPy, which init does without

    return spec_files(path)


def _next(project: Project, kernel: str | None) -> Iterator[str]:
    module = project.modules[0].module
    package, kernel = project.import_name(module), kernel or min(load_specs(project)[module])
    yield ""
    yield "next:"
    yield "  pretuned check --execute   # runs every configuration on this machine's processor"
    yield "  pretuned tune              # on a machine with a GPU; commit the pretuned.lock.json that it writes"
    yield "  pip install -e .           # bakes the winners, or else the defaults"
    yield f'  python -c "from {package} import {kernel}; help({kernel})"'
    yield ""
    yield f"An editable install writes the generated package to {module}/, which .gitignore has now."
    if lacks_array_library(project.root, read_toml(project.root / FILE)):
        yield (
            "Add the array library that callers use to `dependencies`, as in "
            f'"{NEWEST.cupy}>=14" or "torch": pretuned adds none.'
        )
