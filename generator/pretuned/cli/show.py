"""`pretuned show`: the table of a project, a lock or an installed package."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from pretuned.api.projects import opened
from pretuned.cli.project import OWN, here, package_named, packages_of
from pretuned.config import GPU
from pretuned.device import probe
from pretuned.errors import ExitCode, UsageError
from pretuned.record import lock as lockfile
from pretuned.record.lock import Lock
from pretuned.report.lines import Line, of_lock, of_package
from pretuned.report.selections import SelectionLine, of_selections, selection_table, selections_of
from pretuned.report.text import table
from pretuned.runtime.devices import Device, itself, siblings, too_far

Facts = Mapping[str, Mapping[str, Any]]  # of devices, by name


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownTable:
    """What is shown: a title, rows and selections, and what is known of their devices."""

    title: str
    rows: Sequence[Line]
    selections: Sequence[SelectionLine]
    devices: Facts


def run(options: Namespace) -> ExitCode:
    """Print the table: of what is baked where the project is installed, else of its lock."""
    source = _source(options)
    lines = [line for line in source.rows if _asked(options, line)]
    rules = [line for line in source.selections if _asked(options, line)]
    if options.json:
        found = {"rows": [line.to_json() for line in lines], "selections": [line.to_json() for line in rules]}
        print(json.dumps({"source": source.title, **found}, indent=2))
        return ExitCode.SUCCESS
    print(source.title)
    print()
    print(table(lines) if lines else _nothing(options, source))
    if rules:
        print(f"\n{selection_table(rules)}")
    for note in _notes({line.device for line in lines}, source.devices):
        print(note)
    return ExitCode.SUCCESS


def _asked(options: Namespace, line: Line | SelectionLine) -> bool:
    of_kernel = not options.kernel or line.kernel in options.kernel
    return of_kernel and (not options.device or options.device in line.device)


def _nothing(options: Namespace, source: ShownTable) -> str:
    """Return why there is no row to show: none that is asked for, or none at all."""
    if not source.rows:
        on_host = options.on is not None and options.on != GPU
        tune = f"`pretuned tune --on {options.on}`" if on_host else "`pretuned tune` on a machine with a GPU"
        return f"no rows, so only the defaults run; run {tune}"
    devices, kernels = ({getattr(line, name) for line in source.rows} for name in ("device", "kernel"))
    asked = [f"of {' or '.join(options.kernel)}"] if options.kernel else []
    asked += [f"of a device with '{options.device}' in its name"] if options.device else []
    return f"no rows {' '.join(asked)}; there are rows of {', '.join(sorted(kernels))} on {', '.join(sorted(devices))}"


def _notes(names: set[str], facts: Facts) -> Iterator[str]:
    """Yield whose rows calls take on a GPU of this machine that has none of its own."""
    known = {name: dict(facts[name]) for name in names if name in facts}
    for gpu in probe.gpus() if known else ():
        device = Device(gpu.name, {key: value for key, value in asdict(gpu).items() if isinstance(value, int)})
        if itself(device, known, known) is not None:
            continue
        matches = siblings(device, known, known)
        if not matches:
            yield f"\ncuda:{gpu.index}, {gpu.name}, runs defaults{too_far(device, known, known)}"
            continue
        warned = f", with a warning: {matches[0].doubt}" if matches[0].doubt else ""
        yield f"\ncuda:{gpu.index}, {gpu.name}, takes the rows of {matches[0].name}{warned}"


def _source(options: Namespace) -> ShownTable:
    """Return what is shown."""
    if options.on is not None:
        if options.source is not None:
            raise UsageError(f"`--on` shows the project's lock of that device; leave out '{options.source}'")
        file = opened(options.project, options.on)[0].lock
        return _locked(file.name, lockfile.read(file))
    if options.source is None:
        project = here(options)
        packages = packages_of(project) if project is not None else [package_named(OWN)]
        if project is None or packages:
            return _baked(packages)
        lock = lockfile.read(project.lock)
        return _locked(f"{project.lock.name} (not baked: the project is not installed)", lock)
    path = Path(options.source)
    if path.suffix == ".json":
        if not path.is_file():
            raise UsageError(f"there is no lock '{path}'")
        return _locked(path.name, lockfile.read(path))
    return _baked([package_named(options.source)])


def _locked(title: str, lock: Lock) -> ShownTable:
    devices = {name: asdict(device) for name, device in lock.devices.items() if device.is_gpu}
    return ShownTable(title=title, rows=of_lock(lock), selections=of_selections(lock.selections), devices=devices)


def _baked(packages: Sequence[ModuleType]) -> ShownTable:
    """Return the tables of generated packages; raises UsageError for one that another version of pretuned wrote."""
    rows, selections = list[Line](), list[SelectionLine]()
    for package in packages:
        try:
            rows += of_package(package)
            selections += selections_of(package)
        except (AttributeError, TypeError, ValueError) as error:
            raise UsageError(
                f"{package.__name__}: bake it again, with `pretuned bake` or by installing its project: the table is "
                f"not as this version of pretuned writes it ({error})"
            ) from None
    return ShownTable(
        title="\n".join(map(_title, packages)),
        rows=rows,
        selections=selections,
        devices={name: facts for package in packages for name, facts in package.DEVICES.items()},
    )


def _title(package: ModuleType) -> str:
    """Return a line on what is baked into a package: its binaries by architecture."""
    folder = Path(str(package.__file__)).parent / "kernels"
    kinds: dict[str, int] = {}
    for file in sorted(folder.glob("*.*")):
        if file.suffix in {".cubin", ".ptx"}:
            kind = f"{file.stem.rpartition('.')[2]} {file.suffix[1:]}"
            kinds[kind] = kinds.get(kind, 0) + 1
    shipped = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())) or "no binaries"
    return f"{package.__name__}: {shipped}"
