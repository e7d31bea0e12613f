"""Reading specs: TOML to `KernelSpec`, with every fault of a file reported at once.

Structure is pydantic's to judge, meaning is `pretuned.spec.check`'s. So that a misspelt key neither hides another fault
nor causes a dozen, a file with unknown keys is read once more: under the names that were meant, or without them.
"""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Container, Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pretuned.config.toml import TAG, spelled, unreadable
from pretuned.errors import Fault, SpecError
from pretuned.spec.check import check
from pretuned.spec.check.backward import backward_faults
from pretuned.spec.faults import meant, structural_faults
from pretuned.spec.model import FORMAT, KernelSpec

Origin = Mapping[str, object]  # what no document says: a kernel's name and folder, and the place that declares it


def load_folder(folder: Path, only: Container[str] | None = None) -> dict[str, KernelSpec]:
    """Load every `*.toml` of `folder` (not of its subfolders) and return the specs by kernel name, sorted.

    With `only`, those of these kernels are loaded, and the others may be wrong. Raises SpecError with the faults of all
    files together; a folder without specs is one too.
    """
    if not folder.is_dir():
        message = "no such folder; `kernels` names the folder of the specs"
        raise SpecError([Fault(file=str(folder), path="", message=message)])
    files = sorted(folder.glob("*.toml"))
    if not files:
        message = "holds no NAME.toml; a kernel is NAME.toml beside NAME.cu.jinja"
        raise SpecError([Fault(file=str(folder), path="", message=message)])
    specs = load_files(file for file in files if only is None or kernel_name(file) in only)
    if faults := list(backward_faults(specs, whole=only is None)):
        raise SpecError(faults)
    return specs


def load_files(files: Iterable[Path]) -> dict[str, KernelSpec]:
    """Load spec files and return the specs by kernel name, sorted; faults of all files are raised together."""
    specs: dict[str, KernelSpec] = {}
    faults: list[Fault] = []
    first: dict[str, Path] = {}
    for file in files:
        name = kernel_name(file)
        if name in first:
            message = f"a second kernel named '{name}'; the first is {first[name]}: rename one file"
            faults.append(Fault(file=str(file), path="", message=message))
            continue
        first[name] = file
        try:
            specs[name] = load(file)
        except SpecError as error:
            faults.extend(error.faults)
    if faults:
        raise SpecError(faults)
    return dict(sorted(specs.items()))


def load(file: Path) -> KernelSpec:
    """Load one spec file; raises SpecError that holds every fault of it."""
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise SpecError([Fault(file=file.name, path="", message=f"does not exist in {file.parent}")]) from None
    except (OSError, ValueError, RecursionError) as error:  # ValueError: not UTF-8, not TOML, or an endless integer
        raise SpecError([Fault(file=file.name, path="", message=unreadable(error))]) from None
    return build(document, name=kernel_name(file), folder=file.parent)


def build(document: Mapping[str, Any], *, name: str, folder: Path, declared: str = "") -> KernelSpec:
    """Build and check a spec from the document of a TOML file; raises SpecError that holds every fault.

    `declared` is the place in a module that declares it in Python instead.
    """
    origin = {"name": name, "folder": folder, "declared": declared}
    file = declared or f"{name}.toml"
    unknown = "paths are relative to the module's folder" if declared else "a kernel is named by its file"
    named = sorted(origin.keys() & document.keys())
    faults = [Fault(file=file, path=key, message=f"unknown key; {unknown}") for key in named]
    data = {key: value for key, value in document.items() if key not in named}
    if type(data.get("format")) is not int or data["format"] != FORMAT:
        faults.append(Fault(file=file, path="format", message=_wrong_format(data)))
        data["format"] = FORMAT
    spec, found = _read(data, origin, file)
    if faults or found or spec is None:
        raise SpecError(dict.fromkeys([*faults, *found]))
    return spec


def _wrong_format(data: Mapping[str, Any]) -> str:
    given = data.get("format")
    if isinstance(given, int) and given > FORMAT:
        return f"is {spelled(given)}, and this pretuned reads format {FORMAT}; install a newer one"
    return f"{'is ' + spelled(given) if 'format' in data else 'missing'}; write `format = {FORMAT}`"


def kernel_name(file: Path) -> str:
    """Return the name of the kernel that a spec file is of."""
    return file.name.removesuffix(".toml")


def _read(data: dict[str, Any], origin: Origin, file: str) -> tuple[KernelSpec | None, list[Fault]]:
    """Return the spec, if any, and all faults; of the two ways to read unknown keys, the one that leaves the fewest."""
    spec, errors = _validate(data, origin)
    if spec is not None:
        return spec, check(spec)
    return None, min((_faults(data, errors, origin, file, rename=rename) for rename in (False, True)), key=len)


def _faults(data: dict[str, Any], errors: list[Any], origin: Origin, file: str, *, rename: bool) -> list[Fault]:
    """Return the faults of a document with its unknown keys taken out, or read under the names that were meant."""
    mended, found = copy.deepcopy(data), []
    spec = None
    while spec is None and (unknown := [item for item in errors if item["type"] == "extra_forbidden"]):
        found += structural_faults(unknown, file)
        for item in unknown:  # under a name that was meant there may be others
            _mend(mended, item["loc"], meant(item) if rename else None)
        spec, errors = _validate(mended, origin)
    return [*found, *(structural_faults(errors, file) if spec is None else check(spec))]


def _validate(data: dict[str, Any], origin: Origin) -> tuple[KernelSpec | None, list[Any]]:
    """Return the spec, or what pydantic finds wrong."""
    try:
        return KernelSpec.model_validate({**data, **origin}), []
    except ValidationError as error:
        return None, [{**item, "loc": _in_document(item["loc"])} for item in error.errors(include_url=False)]


def _in_document(path: tuple[int | str, ...]) -> tuple[int | str, ...]:
    """Return a path without the tags that tell the forms of a value apart."""
    return tuple(part for part in path if not str(part).startswith(TAG))


def _mend(data: Any, path: tuple[int | str, ...], meant: str | None) -> None:  # noqa: ANN401 - a TOML document
    """Take the key at `path` out of a document, and put what it held under the name that was `meant`."""
    for key in path[:-1]:
        data = data[key]
    value = data.pop(path[-1])
    if meant is not None:
        data.setdefault(meant, value)
