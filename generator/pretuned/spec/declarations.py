"""Kernels of a folder, whether files or a module declares them: a module is executed, and then read as files are."""

from __future__ import annotations

import tomllib
from collections.abc import Container, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from pretuned.child import Child, Died, Expired
from pretuned.errors import Fault, SpecError
from pretuned.spec.check.backward import backward_faults
from pretuned.spec.executing import Declaration, Declared
from pretuned.spec.headers import include_folders
from pretuned.spec.kernel import DeclaredKernel
from pretuned.spec.loader import build, kernel_name, load_files, load_folder
from pretuned.spec.model import FORMAT, KernelSpec

LIMIT_S: Final = 60.0  # for a module, which a build executes a few times


def load_all(folder: Path, module: Path | None, only: Container[str] | None = None) -> dict[str, KernelSpec]:
    """Load the kernels of `folder` and return the specs by name, sorted: of its files, and those `module` declares.

    With `only`, those of these kernels are loaded, and the others may be wrong. Raises SpecError with all faults.
    """
    if module is None:
        return load_folder(folder, only)
    faults: list[Fault] = []
    specs: dict[str, KernelSpec] = {}
    files = {kernel_name(file): file for file in sorted(folder.glob("*.toml"))}
    try:
        specs = load_files(file for name, file in files.items() if only is None or name in only)
    except SpecError as error:
        faults += error.faults
    found = executed(module)
    faults += found.faults
    for one in found.kernels:
        if only is not None and one.name not in only:
            continue
        if one.name in files:
            message = f"a second kernel named '{one.name}'; the first is {files[one.name].name}: rename one"
            faults.append(Fault(file=one.place, path="", message=message))
            continue
        try:
            specs[one.name] = _built(one, folder)
        except SpecError as error:
            faults += error.faults
    if faults := faults or list(backward_faults(specs, whole=only is None)):
        raise SpecError(faults)
    return dict(sorted(specs.items()))


def names_of(folder: Path, module: Path | None) -> list[str]:
    """Return the names of a folder's kernels, sorted, whatever is wrong with them; a module is executed for it.

    Raises SpecError where the module does not say which it declares.
    """
    found = Declared() if module is None else executed(module)
    if found.faults:
        raise SpecError(found.faults)
    return sorted({*map(kernel_name, folder.glob("*.toml")), *(one.name for one in found.kernels)})


def named_folders(folder: Path, module: Path | None) -> Iterator[Path]:
    """Yield the folders of headers that the kernels of a folder name, also those with faults elsewhere."""
    for file in folder.glob("*.toml"):
        with suppress(OSError, ValueError, RecursionError):
            yield from include_folders(tomllib.loads(file.read_text(encoding="utf-8-sig")), folder)
    for one in () if module is None else executed(module).kernels:
        yield from include_folders(one.document, folder)


def executed(module: Path, seed: int = 0) -> Declared:
    """Execute a module that declares kernels and return what came of it; `seed` is that of the hashes of texts."""
    if not module.is_file():
        message = f"does not exist in {module.parent}; `declarations` names the module that declares kernels"
        return Declared(faults=(Fault(file=module.name, path="", message=message),))
    child = Child("pretuned.spec.executing:serve", {"PYTHONHASHSEED": str(seed)})
    try:
        match child.ask(module.resolve(), timeout_s=LIMIT_S):
            case Declared() as found:
                return found
            case Died(reason=reason):
                message = f"its process ended while it was executed: {reason}"
            case Expired(after_s=after_s):
                message = f"has not ended after {after_s:g} s; a build executes it each time, so have it only declare"
            case other:
                raise AssertionError(other)
    finally:
        child.kill()
    return Declared(faults=(Fault(file=module.name, path="", message=message),))


def changes(module: Path) -> Iterator[Fault]:
    """Yield a fault for each kernel that a module declares otherwise when it is executed once more.

    Two processes differ in the hashes of texts, the time and what they draw at random, which a build cannot rest on.
    """
    first, second = ({one.name: one for one in executed(module, seed).kernels} for seed in (0, 1))
    for name in sorted(first.keys() | second.keys()):
        if name not in first or name not in second:
            place = (first.get(name) or second[name]).place
            yield Fault(file=place, path="", message="is not declared each time that the module is executed")
            continue
        one, other = first[name], second[name]
        if (path := _difference(one.document, other.document)) is not None:
            message = (
                "is another one each time that the module is executed; leave out what chance, time or the order of a "
                "set decides, or use sorted(...)"
            )
            yield Fault(file=one.place, path=path, message=message)


def _difference(one: Any, other: Any, path: str = "") -> str | None:  # noqa: ANN401 - documents
    """Return the path of the first value in which two documents differ; None where they are the same in order too."""
    if isinstance(one, dict) and isinstance(other, dict) and list(one) == list(other):
        below = ((f"{path}.{key}" if path else key, one[key], other[key]) for key in one)
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        below = ((f"{path}[{index}]", *pair) for index, pair in enumerate(zip(one, other, strict=True)))
    else:
        return None if type(one) is type(other) and one == other else path
    return next((found for where, a, b in below if (found := _difference(a, b, where)) is not None), None)


def checked(kernel: DeclaredKernel, folder: str | Path = ".") -> KernelSpec:
    """Return the spec of a kernel that was declared in Python, whose files lie in `folder`, after all checks.

    Raises SpecError that holds every fault. `verify` names its functions by file here: only the module that a project's
    table names has its functions found.
    """
    place = f"{Path(kernel.file).name}:{kernel.line} ({kernel.name})"
    faults = tuple(Fault(file=place, path=path, message=message) for path, message in kernel.faults)
    one = Declaration(name=kernel.name, document=dict(kernel.document), place=place, faults=faults)
    return _built(one, Path(folder))


def _built(one: Declaration, folder: Path) -> KernelSpec:
    if one.faults:
        raise SpecError(one.faults)
    return build({"format": FORMAT, **one.document}, name=one.name, folder=folder, declared=one.place)
