"""`compile.include`: folders that exist, and no option that has the compiler read what is in no source's key."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import PurePosixPath, PureWindowsPath
from typing import Final

from packaging.utils import canonicalize_name

from pretuned.runtime.cuda_majors import CUDA_MAJORS
from pretuned.spec.check.names import PathFault
from pretuned.spec.model import ImplementationSpec, KernelSpec
from pretuned.spec.packages import PackageError, distribution_of, is_of_package, package_folder

_READS_FILES: Final = re.compile(r"(-I|--include-path|-isystem|-iquote|-include|--pre-include)(?:=|\s*)(.*)", re.DOTALL)
_CUDA: Final = frozenset(name for major in CUDA_MAJORS for name in (major.cccl, major.cudart))


def header_faults(spec: KernelSpec, implementation: ImplementationSpec) -> Iterator[PathFault]:
    """Yield the faults of `compile.include`, and of `compile.options` that name headers."""
    for index, option in enumerate(implementation.compile.options):
        if (found := _READS_FILES.match(option)) is not None:
            yield f"compile.options[{index}]", _refused(option, found[1], found[2].strip())
    seen = set()
    for index, name in enumerate(implementation.compile.include):
        path = f"compile.include[{index}]"
        if message := _not_a_folder(spec, name):
            yield path, message
        elif os.path.normpath(name) in seen:
            yield path, f"'{name}' is listed twice; remove one"
        seen.add(os.path.normpath(name))


def _refused(option: str, flag: str, target: str) -> str:
    if "include" in flag and "path" not in flag:
        return f"'{option}' is read by no build elsewhere; write `#include` into the template"
    folder = target or "include"
    if PurePosixPath(folder).is_absolute() or PureWindowsPath(folder).drive:
        folder = "include"
    written = f'write `include = ["{folder}"]` in [compile], a folder relative to the spec'
    return f"'{option}' would leave headers out of keys and sdists; {written}"


def _not_a_folder(spec: KernelSpec, name: str) -> str | None:
    """Return what is wrong with a folder's name."""
    if is_of_package(name):
        return _not_of_a_package(name)
    if "\\" in name:
        return f"'{name}': write paths with forward slashes"
    if PurePosixPath(name).is_absolute() or PureWindowsPath(name).drive:
        return f'\'{name}\' is absolute; write a path relative to the spec\'s folder, as in "include" or "../include"'
    if (spec.folder / name).is_dir():
        return None
    if (spec.folder / name).exists():
        return f"'{name}' is a file; name the folder that it lies in"
    above = f"../{name}"
    hint = (
        f'; did you mean "{above}"?' if (spec.folder / above).is_dir() else "; paths are relative to the spec's folder"
    )
    return f"there is no folder '{name}'{hint}"


def _not_of_a_package(name: str) -> str | None:
    if canonicalize_name(distribution_of(name)) in _CUDA:  # a header would be found twice, by two names
        return f"'{name}': CUDA's own headers are found without being named; remove it"
    try:
        package_folder(name)
    except PackageError as error:
        return str(error)
    return None
