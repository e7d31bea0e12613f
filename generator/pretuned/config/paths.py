"""Where a table's paths really lead. As texts they are below the project; links may still lead out of it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

Keys = tuple[str | int, ...]
Modules = Iterable[tuple[Keys, str, str]]  # keys of the table, path of the specs, path of the generated package


def path_faults(root: Path, modules: Modules, lock: str) -> Iterator[tuple[Keys, str]]:
    """Yield (keys, message) for what would be read or written outside `root`, or lost at the next build."""
    for keys, kernels, module in modules:
        if _leaves(root, kernels):
            yield (*keys, "kernels"), _linked(kernels)
        if _leaves(root, module):
            yield (*keys, "module"), _linked(module)
        if PurePosixPath(lock).is_relative_to(PurePosixPath(module)):
            yield ("lock",), f"'{lock}' lies in '{module}', which is replaced at each build; choose another path"
    if _leaves(root, str(PurePosixPath(lock).parent)):
        yield ("lock",), _linked(lock)


def _leaves(root: Path, path: str) -> bool:
    return not Path(os.path.realpath(root / path)).is_relative_to(os.path.realpath(root))


def _linked(path: str) -> str:
    return f"'{path}' is a link that leads out of the project, or lies behind one; put a real folder there"
