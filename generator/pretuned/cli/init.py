"""`pretuned init`: a first kernel and the tables, in a project that exists. Asks nothing and overwrites nothing."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator

from pretuned.build.core import load_specs
from pretuned.config import Project
from pretuned.errors import ExitCode
from pretuned.init.plan import plan


def run(options: Namespace) -> ExitCode:
    """Write what is missing, and print what was done, what was left, and what to do next."""
    root = options.project.resolve()
    made = plan(root, options.module)
    for name, text in made.texts.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("wb" if name.endswith(".toml") and "/" not in name else "xb") as opened:
            opened.write(text.encode())
    print("\n".join([*made.done, *(f"left: {line}" for line in made.left)]))
    print("\n".join(_next(made.project)))
    return ExitCode.SUCCESS


def _next(project: Project) -> Iterator[str]:
    module = project.modules[0].module
    package, kernel = project.import_name(module), min(load_specs(project)[module])
    yield ""
    yield "next:"
    yield "  pretuned check --execute   # runs every configuration on this machine's processor"
    yield "  pretuned tune              # on a machine with a GPU; commit the pretuned.lock.json that it writes"
    yield "  pip install -e .           # bakes the winners, or else the defaults"
    yield f'  python -c "from {package} import {kernel}; help({kernel})"'
    yield f"an editable install has what is baked in the sources: have version control ignore {module}/"
