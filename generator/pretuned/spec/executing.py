"""Executing a module that declares kernels, in a process of its own: `serve` is what that process runs.

Theory of operation. A module is its author's code, and may do anything: print, exit, fork, change its folder, never
end. So it is executed by a `pretuned.child.Child`, and what comes back is plain data. The process stands in the
module's folder, which is first on its path, with one seed for the hashes of texts, whatever the environment says: what
depends on the order of a set is the same in every build. It writes no bytecode into the sources. A fork of it that
comes out of the module ends there.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from pretuned.errors import Fault
from pretuned.spec.kernel import FUNCTIONS, DeclaredKernel

LIST: Final = "kernels"  # the name that a module gives its list
_WRITE: Final = f"write `{LIST} = [pretuned.kernel(...)]`"


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """A kernel that a module declares: its name, its document, the place for messages, and what is no data in it."""

    name: str
    document: dict[str, Any]
    place: str
    faults: tuple[Fault, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """What executing a module gave. `faults` are those of the module; its kernels have their own."""

    kernels: tuple[Declaration, ...] = ()
    faults: tuple[Fault, ...] = ()


def serve() -> Callable[[Path], Declared]:
    """Return what answers the requests of a child: the absolute path of a module, and what it declares."""
    return execute


def execute(file: Path) -> Declared:
    """Execute the module in `file`, and return what it declares."""
    owner = os.getpid()
    os.chdir(file.parent)
    sys.path.insert(0, str(file.parent))
    sys.dont_write_bytecode = True
    try:
        found = _listed(_executed(file), file)
    except BaseException as error:  # noqa: BLE001 - SystemExit and KeyboardInterrupt are the module's too
        found = Declared(faults=(_raised(file, error),))
    if os.getpid() != owner:
        os._exit(0)  # it has no business with the parent's connection
    return found


def _executed(file: Path) -> ModuleType:
    """Import a file by its path, under its own name but where that would hide a module of the standard library."""
    name = f"_{file.stem}" if file.stem in {*sys.stdlib_module_names, *sys.modules} else file.stem
    module_spec = importlib.util.spec_from_file_location(name, file)
    assert module_spec is not None  # it ends in .py
    assert module_spec.loader is not None
    module = importlib.util.module_from_spec(module_spec)
    sys.modules[name] = module
    module_spec.loader.exec_module(module)
    return module


def _listed(module: ModuleType, file: Path) -> Declared:
    """Return what stands in the module's list, and what is wrong with it."""
    listed = getattr(module, LIST, None)
    if not isinstance(listed, list | tuple) or not listed:
        message = f"declares no kernels; {_WRITE}"
        if listed is not None:
            what = "is empty" if isinstance(listed, list | tuple) else f"is of type {type(listed).__name__}"
            message = f"`{LIST}` {what}; {_WRITE}"
        return Declared(faults=(Fault(file=file.name, path="", message=message),))
    faults = list(_unlisted(module, listed, file))
    kernels: dict[str, Declaration] = {}
    for index, kernel in enumerate(listed):
        if not isinstance(kernel, DeclaredKernel):
            message = f"is of type {type(kernel).__name__}; write pretuned.kernel(...)"
            faults.append(Fault(file=file.name, path=f"{LIST}[{index}]", message=message))
            continue
        place = f"{file.name}:{kernel.line} ({kernel.name})" if kernel.name else f"{file.name}:{kernel.line}"
        own = [Fault(file=place, path=path, message=message) for path, message in kernel.faults]
        own += _with_targets(kernel, place, file.parent)
        if not kernel.name:
            faults += own
        elif kernel.name in kernels:
            message = f"a second kernel named '{kernel.name}'; the first is {kernels[kernel.name].place}: rename one"
            faults.append(Fault(file=place, path="", message=message))
        else:
            kernels[kernel.name] = Declaration(
                name=kernel.name, document=dict(kernel.document), place=place, faults=tuple(own)
            )
    return Declared(kernels=tuple(kernels.values()), faults=tuple(faults))


def _unlisted(module: ModuleType, listed: list[object] | tuple[object, ...], file: Path) -> Iterator[Fault]:
    """Yield a fault for each kernel that the module declares under a name of its own, and does not list."""
    known = set(map(id, listed))
    for kernel in vars(module).values():
        if isinstance(kernel, DeclaredKernel) and id(kernel) not in known and kernel.file == str(file):
            known.add(id(kernel))  # under another name too
            message = f"'{kernel.name}' is declared and not listed; add it to `{LIST}`"
            yield Fault(file=f"{file.name}:{kernel.line}", path="", message=message)


def _with_targets(kernel: DeclaredKernel, place: str, folder: Path) -> Iterator[Fault]:
    """Write each function of [verify] as the file and the name by which a worker imports it; yield what cannot be."""
    verify = kernel.document.get("verify")
    if not isinstance(verify, dict):
        return
    for key, value in list(verify.items()):
        if f"verify.{key}" in FUNCTIONS and callable(value):
            target = _target(value, folder)
            verify[key] = target
            if target.startswith("is "):
                yield Fault(file=place, path=f"verify.{key}", message=target)


def _target(function: Callable[..., Any], folder: Path) -> str:
    """Return `reference.py:axpy`, or what is wrong with a function that no worker could import."""
    name = str(getattr(function, "__qualname__", type(function).__name__))
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    file = Path(getattr(module, "__file__", None) or os.devnull).resolve()
    if getattr(module, name, None) is not function:
        return f"is '{name}', which its module does not have under this name; write a `def` at the module's top level"
    if not file.is_relative_to(folder.resolve()):
        return f"is '{name}' of {file}; define it in a file of {folder.name}, which every build of the project has"
    return f"{file.relative_to(folder.resolve()).as_posix()}:{name}"


def _raised(file: Path, error: BaseException) -> Fault:
    """Return what ended a module's execution, with the last line of its folder that it passed."""
    if isinstance(error, SyntaxError) and error.filename is not None and error.lineno is not None:
        name = os.path.relpath(error.filename, file.parent)
        return Fault(file=f"{name}:{error.lineno}", path="", message=f"cannot be executed: {error.msg}")
    frames = [one for one in traceback.extract_tb(error.__traceback__) if file.parent in Path(one.filename).parents]
    last = frames[-1] if frames else None
    name = file.name if last is None else f"{Path(last.filename).relative_to(file.parent).as_posix()}:{last.lineno}"
    what = f"raised {type(error).__name__}{f': {error}' if str(error) else ''}"
    if isinstance(error, SystemExit):
        what = f"ends the process (sys.exit), so that nothing is declared; {_WRITE}"
    elif isinstance(error, ModuleNotFoundError) and error.name is not None:
        what += (
            "; a build has what [build-system] requires: add it there, or import it only in the functions that need it"
        )
    elif last is not None and last.line:
        what += f", in `{last.line}`"
    return Fault(file=name, path="", message=what)
