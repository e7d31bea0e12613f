"""`pretuned.bake`: the generated packages of a project, written without building it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pretuned.api.projects import CallingReporter, Report, ignore, opened, specs_of
from pretuned.backends import named
from pretuned.bake.plan import Extra
from pretuned.build.core import Baked, bake_project
from pretuned.build.hub import LAYOUT
from pretuned.build.place import place, recover
from pretuned.config import Place
from pretuned.errors import UsageError
from pretuned.runtime.records import Value
from pretuned.runtime.text import assignment, no_such
from pretuned.spec.formulas import Formula, formulas
from pretuned.spec.model import KernelSpec
from pretuned.spec.space import Configuration, describe, pairs
from pretuned.tune.events import Listener


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenPackage:
    """A generated package: its folder, and the paths of its files in it."""

    folder: Path
    files: tuple[str, ...]


def bake(
    project: str | Path = ".",
    *,
    output: str | Path | None = None,
    on: Place | str | None = None,
    extra: Sequence[str] = (),
    layout: str | None = None,
    listen: Listener = ignore,
    report: Report = ignore,
) -> tuple[WrittenPackage, ...]:
    """Write the generated packages of a project: from the lock, and from what is tuned here where the mode says so.

    Args:
        project: The folder of pyproject.toml.
        output: Write below this folder. By default into the sources, as an editable install does.
        on: `"cuda"`, `"cuda:1"`, or `"host"`, whose rows are baked only where it is named. By default PRETUNED_TUNE_ON,
            or the first GPU.
        extra: Configurations to ship as well, as in `"softmax:block=256,vec=4"`.
        layout: `"hf-kernel"` for a kernel repository, as Hugging Face's `kernels` loads it, below `output`.
        listen: Called with each `pretuned.Event` of a tuning as it happens.
        report: Called with each `pretuned.Diagnostic`: what was baked, and what is missing.

    Returns:
        One package for each module of the project's table.

    Raises:
        ConfigError: The project's table or an environment variable is wrong.
        SpecError: A kernel spec is wrong, or a kernel does not take what its spec passes.
        UsageError: There is no such kernel, device or layout, or no `output` for a layout.
        LockError: The lock cannot be read, or is not fresh in mode `locked`.
        DeviceError: A compiler is missing, or the table requires rows that are not there.
        TuningError: The reference or the default of a kernel is wrong.
        BakeError: What ships does not compile, or the folder holds other files.
        StorageError: A file cannot be written; the old package is then as it was.
    """
    demand_layout(layout, output)
    found, settings = opened(project, on)
    specs = specs_of(found) if extra else {}
    chosen = [parse_extra(text, specs) for text in extra]
    below = found.root if output is None else Path(output)
    every = on is not None and not named(settings.device.backend).ships
    for module in found.modules if layout is None else ():
        recover(below / module.module)
    reporter = CallingReporter(report)
    baked = bake_project(found, settings, reporter, listen, extra=chosen, every_backend=every, layout=layout)
    return tuple(write(package, below) for package in baked)


def demand_layout(layout: str | None, output: object) -> None:
    """Raise UsageError for a layout that there is not, or one that would be written into the source tree."""
    if layout is not None and layout != LAYOUT:
        raise UsageError(no_such("layout", layout, [LAYOUT]))
    if layout is not None and output is None:
        raise UsageError(
            f"layout {layout}: name the folder to write below (--output); the source tree is no place for it"
        )


def write(package: Baked, below: Path) -> WrittenPackage:
    """Write a package below a folder, whole, in place of the one that was there."""
    folder = below / package.module
    place(package.files, folder)
    return WrittenPackage(folder=folder, files=tuple(sorted(package.files)))


def _demand_in_space(text: str, implementation: str, spec: KernelSpec, given: Mapping[str, Value]) -> None:
    """Raise UsageError for a parameter, or a value of one, that an implementation's space does not have."""
    own = spec.all_implementations[implementation]
    known = {
        parameter: own.space[parameter]
        if isinstance(own.space, dict)
        else tuple(dict.fromkeys(listed[parameter] for listed in own.space))
        for parameter in own.default
    }
    for parameter, value in given.items():
        if parameter not in known:
            raise UsageError(f"--with {text}: {no_such('parameter', parameter, known, of=spec.name)}")
        if value not in known[parameter]:
            listed = ", ".join(describe(((parameter, one),)).partition("=")[2] for one in known[parameter])
            raise UsageError(f"--with {text}: {parameter} is one of {listed} in {spec.file}")


def parse_extra(text: str, specs: Mapping[str, KernelSpec]) -> Extra:
    """Return the kernel and configuration of `KERNEL:k=v,...`; raises UsageError.

    `implementation=NAME` may stand among the values; parameters that are left out are the default's.
    """
    kernel, separator, rest = text.partition(":")
    if not separator:
        raise UsageError(f"--with {text}: write KERNEL:k=v,...")
    if kernel not in specs:
        raise UsageError(f"--with {text}: {no_such('kernel', kernel, specs)}")
    spec = specs[kernel]
    given: dict[str, Value] = {}
    for part in filter(str.strip, rest.split(",")):
        found = assignment(part)
        if found is None:
            raise UsageError(f"--with {text}: '{part.strip()}' is not a k=v")
        if found[0] in given:
            raise UsageError(f"--with {text}: names '{found[0]}' twice")
        given[found[0]] = found[1]
    name = str(given.pop("implementation", spec.default_implementation))
    if name not in spec.all_implementations:
        message = no_such("implementation", name, spec.all_implementations, of=kernel)
        raise UsageError(f"--with {text}: {message}")
    _demand_in_space(text, name, spec, given)
    default = spec.all_implementations[name].default
    if lacking := [parameter for parameter in formulas(default) if parameter not in given]:
        raise UsageError(f"--with {text}: name a value of {lacking[0]} too, whose default depends on the problem")
    values = {parameter: one for parameter, one in default.items() if not isinstance(one, Formula)} | given
    return kernel, Configuration(implementation=name, values=pairs(values))
