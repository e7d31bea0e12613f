"""The specs of committed folders, each of which is read once a process: the bundled kernels take seconds."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from pretuned.spec.loader import load_folder
from pretuned.spec.model import KernelSpec

ROOT = Path(__file__).parents[2]
TEMPLATES = ROOT / "templates"


def specs_in(folder: Path) -> dict[str, KernelSpec]:
    """Return the specs of a committed folder by name; the dict is the caller's own."""
    return dict(_read(folder.resolve()))


def bundled() -> dict[str, KernelSpec]:
    """Return the bundled kernels by name."""
    return specs_in(TEMPLATES)


@cache
def _read(folder: Path) -> dict[str, KernelSpec]:
    return load_folder(folder)
