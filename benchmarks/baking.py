"""Kernels as a package of their own, baked for one GPU in the way of a project."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

TABLE = """\
[build-system]
requires = ["hatchling", "pretuned"]
build-backend = "hatchling.build"
[project]
name = "{name}"
version = "0"
[tool.hatch.build.hooks.pretuned]
module = "{name}"
architectures = ["sm_{capability}"]
mode = "{mode}"
"""


def texts(kernels: Path, names: Iterable[str]) -> dict[str, str]:
    """Return the files of some kernels of a folder, with the references beside them."""
    files = [*(f"{name}{suffix}" for name in names for suffix in (".toml", ".cu.jinja")), "reference.py"]
    return {file: (kernels / file).read_text() for file in files}


def baked(
    folder: Path,
    name: str,
    kernels: Mapping[str, str],
    capability: str,
    *,
    tuned: bool = False,
    torch: str | None = None,
    jax: bool = False,
) -> Any:
    """Bake `kernels`, texts by file name, as the package `name` in an empty folder, and return it.

    `capability` is the compute capability as CuPy writes it, such as `90`. Without `tuned`, the package has the
    defaults alone, which takes seconds less. `torch` is the namespace of operators of PyTorch, if there are to be any;
    with `jax` there are functions for JAX.
    """
    (folder / "kernels").mkdir()
    for file, text in kernels.items():
        (folder / "kernels" / file).write_text(text)
    mode = "auto" if tuned else "off"
    table = TABLE.format(name=name, capability=capability, mode=mode)
    table += "" if torch is None else f'torch = "{torch}"\n'
    (folder / "pyproject.toml").write_text(f"{table}jax = true\n" if jax else table)
    subprocess.run([sys.executable, "-m", "pretuned", "bake"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    sys.path.insert(0, str(folder))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(folder))
