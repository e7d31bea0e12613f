"""The build itself, whichever front end asks: specs and lock in, files of the generated packages out."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from functools import partial
from pathlib import Path

from pretuned.backends import named
from pretuned.bake.package import files
from pretuned.bake.plan import BakePlan, Compiled, Extra, Job, plan
from pretuned.build import contract, hub, metadata
from pretuned.build.freshness import Freshness
from pretuned.build.requirements import Needs, installed, requirements
from pretuned.build.table import BakedRows, resolve
from pretuned.collecting import collecting_seldom
from pretuned.compile.result import Binary
from pretuned.config import ModuleTable, Project, Settings, overlay, place_of
from pretuned.device import probe
from pretuned.diagnostics import Reporter
from pretuned.errors import BakeError, Fault, LockError, SpecError
from pretuned.files import TEMPORARY
from pretuned.outcome import detail
from pretuned.record import cache as cachefile
from pretuned.record import lock as lockfile
from pretuned.record.cache import Cache
from pretuned.record.rows import Row, TunedDevice
from pretuned.remedies import remedy
from pretuned.render import includes, located
from pretuned.runtime.prelude import is_of_cccl
from pretuned.runtime.types import DTYPES
from pretuned.spec.declarations import changes, load_all, named_folders
from pretuned.spec.headers import folder_files, plain
from pretuned.spec.model import KernelSpec
from pretuned.spec.space import describe
from pretuned.tune.binaries import BinaryStore
from pretuned.tune.events import Listener
from pretuned.tune.request import find_device
from pretuned.tune.spending import Spending
from pretuned.version import __version__


@dataclass(frozen=True, slots=True, kw_only=True)
class Baked:
    """One generated package: its path in the source tree, and relative path -> content of its files."""

    module: str
    files: dict[str, bytes]


def load_specs(project: Project, only: Container[str] | None = None) -> dict[str, dict[str, KernelSpec]]:
    """Return the specs of each module by its path; raises SpecError, also for two kernels of one name.

    Names must differ over all modules, since one lock keeps the rows of all of them. With `only`, no others are read.
    """
    found: dict[str, dict[str, KernelSpec]] = {}
    owner: dict[str, str] = {}
    faults: list[Fault] = []
    for module in project.modules:
        try:
            found[module.module] = load_all(module.kernels, module.declarations, only)
        except SpecError as error:
            faults.extend(error.faults)
            continue
        for name, spec in found[module.module].items():
            if name in owner:
                message = f"a kernel of this name is in the module '{owner[name]}' too; rename one of them"
                faults.append(Fault(file=spec.file, path="", message=message))
            owner.setdefault(name, module.module)
            faults += _outside(project, spec)
    if faults:
        raise SpecError(faults)
    return found


def demand_same_declarations(project: Project) -> None:
    """Raise SpecError where a module declares other kernels each time that it is executed."""
    modules = [module.declarations for module in project.modules if module.declarations is not None]
    if faults := [fault for module in modules for fault in changes(module)]:
        raise SpecError(faults)


def _outside(project: Project, spec: KernelSpec) -> Iterator[Fault]:
    """Yield a fault for each folder of headers that no sdist could carry."""
    root = project.root.resolve()
    for folder in spec.include_folders:
        place = folder.resolve()
        if place == root or not place.is_relative_to(root):
            where = "is the project itself" if place == root else f"lies outside the project ({root})"
            message = f"'{os.path.relpath(folder, spec.folder)}' {where}; name a folder of headers inside it"
            yield Fault(file=spec.file, path="compile.include", message=message)


@collecting_seldom()
def bake_project(
    project: Project,
    settings: Settings,
    reporter: Reporter,
    listen: Listener = lambda _event: None,
    *,
    extra: Sequence[Extra] = (),
    every_backend: bool = False,
    layout: str | None = None,
) -> tuple[Baked, ...]:
    """Return the generated packages of `project`, tuning for the device at hand where the mode says so.

    `extra` are configurations to ship besides the rows'; those of other devices than GPUs are baked with
    `every_backend` only. With the layout `hub.LAYOUT` the packages are kernel repositories.
    """
    repositories = {one.module: hub.repository(project, one.module) for one in project.modules if layout == hub.LAYOUT}
    project = overlay(project, settings)
    modules = load_specs(project)
    table = resolve(project, settings, Freshness(_all(modules)), reporter, listen, every_backend=every_backend)
    compiler = _compiler(project, table.lock.of_gpus().compilers)
    if project.cubins and (reason := _no_compiler(project, compiler)):
        reporter.warning(f"{reason}: no machine code is baked, the kernels ship as sources")
        project = replace(project, cubins=False)
    plans = {module: _plan(project, settings, specs, table, extra) for module, specs in modules.items()}
    with Cache(settings.cache) as cache, BinaryStore(cache, Spending()) as library:
        binaries = _binaries(library, plans.values(), compiler)
        if project.cubins:
            contract.demand(plans.values(), binaries, library, reporter)
    if project.mode == "locked":
        _demand_digests(table.devices, plans, binaries)
    _report_compiler(compiler, binaries, reporter)
    tables = {table.module: table for table in project.modules}
    return tuple(_baked(found, binaries, tables[name], repositories.get(name)) for name, found in plans.items())


def _baked(plan: BakePlan, binaries: Compiled, table: ModuleTable, repository: hub.Repository | None) -> Baked:
    def described(content: Mapping[str, bytes]) -> dict[str, bytes]:
        return {metadata.FILE: metadata.dumps(metadata.describe(plan, binaries, content, __version__))}

    if repository is None:
        content = files(plan, binaries, version=__version__, torch=table.torch, jax=table.jax)
        return Baked(module=table.module, files=content | described(content))
    make = partial(files, plan, binaries, version=__version__)
    architectures = [architecture for _, architecture in plan.jobs]
    laid_out = hub.lay_out(repository, make, described, architectures, operators=table.torch is not None)
    return Baked(module=repository.module, files=laid_out)


def _all(modules: Mapping[str, Mapping[str, KernelSpec]]) -> dict[str, KernelSpec]:
    return {name: spec for specs in modules.values() for name, spec in specs.items()}


def _plan(
    project: Project, settings: Settings, specs: Mapping[str, KernelSpec], table: BakedRows, extra: Sequence[Extra]
) -> BakePlan:
    here = find_device(place_of(project, settings.device), {})
    architectures = [
        *project.architectures,
        *([here.record.architecture] if here is not None and here.record.is_gpu else []),
    ]
    return plan(
        specs,
        [row for row in table.rows if row.kernel in specs],
        table.devices,
        selections=[rule for rule in table.selections if rule.kernel in specs],
        architectures=project.architectures if table.rows or table.selections else architectures,
        cubins=project.cubins,
        extra=[entry for entry in extra if entry[0] in specs],
    )


def _compiler(project: Project, versions: Sequence[str]) -> str | None:
    """Return the compiler to use: the table's, as exactly as rows of its release tell, else that of most rows."""
    if project.cuda is not None:
        versions = [version for version in versions if version.startswith(f"{project.cuda}.")]
    return max(set(versions), key=lambda version: (versions.count(version), version), default=project.cuda)


def _no_compiler(project: Project, compiler: str | None) -> str:
    """Return why a build on this machine compiles nothing, or an empty string; a locked one is never let off.

    A lock or a table that names a compiler has it installed whatever the driver is: it compiles for other machines.
    """
    driver = probe.driver()
    if project.mode == "locked":
        return ""
    if sys.platform == "darwin":
        return "there is no NVRTC for macOS"
    return probe.too_old(driver) if driver is not None and compiler is None else ""


def _binaries(library: BinaryStore, plans: Collection[BakePlan], compiler: str | None) -> dict[tuple[str, str], Binary]:
    found: dict[tuple[str, str], Binary] = {}
    if not _jobs(plans):  # without asking which compiler is here
        return found
    owners = {
        shipped.source.key: (kernel.spec, shipped)
        for plan in plans
        for kernel in plan.kernels
        for shipped in kernel.shipped
        if shipped.source is not None
    }
    for (module, architecture), binary in library.all(_jobs(plans), compiler).items():
        if not isinstance(binary, Binary):
            spec, shipped = owners[module]
            said = located(spec, shipped.specialisation, shipped.configuration, detail(binary))
            advice = remedy(binary, spec)
            raise BakeError(
                f"{spec.name}: what ships does not compile for {architecture}: {said}{f'; {advice}' if advice else ''}"
            )
        found[module, architecture] = binary
    return found


def _report_compiler(wanted: str | None, binaries: Compiled, reporter: Reporter) -> None:
    """Warn where another compiler made the binaries than the one that rows were measured with."""
    others = sorted({binary.compiler for binary in binaries.values()} - {wanted})
    if wanted is not None and others and not all(f"{other}.".startswith(f"{wanted}.") for other in others):
        reporter.warning(
            f"compiled with NVRTC {', '.join(others)} instead of {wanted}: rows whose cubins differ from what "
            "was measured are marked as recompiled"
        )


def _demand_digests(devices: Mapping[str, TunedDevice], plans: Mapping[str, BakePlan], binaries: Compiled) -> None:
    """Raise LockError where what would ship is not, byte for byte, what was verified and measured."""
    for found in plans.values():
        for kernel in found.kernels:
            for entry in kernel.entries:
                for choice in entry.choices:
                    built = kernel.recompiled(entry, choice, devices[entry.device], binaries)
                    if built is not None:
                        where = str(entry.problem) if isinstance(entry, Row) else describe(entry.specialisation)
                        raise LockError(
                            f"mode locked: {entry.kernel} at {where}: NVRTC {built.compiler} compiles another "
                            f"cubin than the one that was measured, of NVRTC {entry.compiler}; install that NVRTC, or "
                            "run `pretuned tune` with this one"
                        )


def _jobs(plans: Iterable[BakePlan]) -> list[Job]:
    return [job for plan in plans for job in plan.jobs]


def build_requirements(project: Project, settings: Settings) -> list[str]:
    """Return what the build of `project` must have installed first, for a build back end to ask for; see `Needs`."""
    needs = compile_needs(project, settings)
    return requirements(needs, probe.driver(), installed(needs.packages))


def compile_needs(project: Project, settings: Settings) -> Needs:
    """Return what `dependencies()` must provide for this build; imports no CUDA and measures nothing."""
    project = overlay(project, settings)
    modules = load_specs(project)
    specs = _all(modules)
    lock = lockfile.read(project.lock).of_gpus() if project.mode in {"auto", "locked"} else lockfile.Lock()
    tunes, backend = project.mode in {"auto", "force"}, named(settings.device.backend)
    device = find_device(place_of(project, settings.device), lock.devices) if tunes and backend.ships else None
    freshness = Freshness(specs)
    tuning = device is not None and bool(
        freshness.requests(
            lock, device, everything=project.mode == "force", max_loss=project.max_loss, most=project.max_configurations
        )
    )
    compiler = _compiler(project, lock.compilers)
    compiles = project.cubins and (tuning or not _is_compiled(project, settings, modules, freshness, lock, compiler))
    return Needs(
        compile=compiles,
        tune=tuning,
        compiler=compiler,
        ml_dtypes=any(map(_takes_ml_dtypes, specs.values())),
        cccl=compiles and any(is_of_cccl(name) for spec in specs.values() for name in includes(spec)),
        packages=backend.packages if tunes else (),
    )


def _takes_ml_dtypes(spec: KernelSpec) -> bool:
    """Return whether arrays of a kernel have a type that NumPy has from ml_dtypes."""
    names = {argument.dtype for argument in spec.arrays}
    for choice in spec.specialisations.values():
        names.update(choice.dtypes or (), choice.mapping.values())
    return any(DTYPES[name].module == "ml_dtypes" for name in names & DTYPES.keys())


def _is_compiled(
    project: Project,
    settings: Settings,
    modules: Mapping[str, Mapping[str, KernelSpec]],
    freshness: Freshness,
    lock: lockfile.Lock,
    compiler: str | None,
) -> bool:
    """Whether the user cache holds all that a build without tuning ships of `lock`, as `compiler` made it."""
    if compiler is None or settings.cache is None or not (settings.cache / cachefile.FILE).is_file():
        return False
    baked = freshness.status(lock).baked
    table = BakedRows(rows=baked.rows, selections=baked.selections, devices=baked.devices)
    plans = [_plan(project, settings, specs, table, ()) for specs in modules.values()]
    with Cache(settings.cache) as cache, BinaryStore(cache, Spending()) as library:
        return not library.missing(_jobs(plans), compiler)


def sources(project: Project) -> list[Path]:
    """Return the files besides pyproject.toml that the generated packages are made from.

    Those are specs, templates, the lock, the usage file, and the folders of headers that specs name.

    An sdist has to carry them. Paths are absolute and sorted; lock and usage file are left out where there is none.
    """
    files = {file for module in project.modules for file in module.kernels.rglob("*") if file.is_file()}
    files |= {file for file in (project.lock, project.usage) if file is not None and file.is_file()}
    folders = {folder for module in project.modules for folder in named_folders(module.kernels, module.declarations)}
    root = plain(project.root)
    files |= {file for folder in folders if root in folder.parents for file in folder_files(folder)}
    return sorted(file for file in files if "__pycache__" not in file.parts and not _is_temporary(file))


def _is_temporary(file: Path) -> bool:
    return any(fnmatch(part, TEMPORARY) for part in file.parts)


__all__ = ["Baked", "bake_project", "build_requirements", "compile_needs", "load_specs", "sources"]
