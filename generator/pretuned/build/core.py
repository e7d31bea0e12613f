"""The build itself, whichever front end asks: specs and lock in, files of the generated packages out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from pretuned.bake.package import files
from pretuned.bake.plan import Extra, Plan, plan
from pretuned.build.requirements import Needs
from pretuned.build.table import Table, demands, resolve
from pretuned.compile.result import Binary
from pretuned.config import HOST, Project, Settings, overlay
from pretuned.errors import BakeError, Fault, LockError, SpecError
from pretuned.outcome import detail
from pretuned.record import lock as lockfile
from pretuned.record.cache import Cache
from pretuned.record.rows import Device, Row
from pretuned.render import located
from pretuned.spec.loader import load_folder
from pretuned.spec.model import KernelSpec
from pretuned.tune.library import Library
from pretuned.tune.progress import Effort, Listener
from pretuned.tune.session import find_target

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Baked:
    """One generated package: its path in the source tree, and relative path -> content of its files."""

    module: str
    files: dict[str, bytes]


def load_specs(project: Project) -> dict[str, dict[str, KernelSpec]]:
    """Return the specs of each module by its path; raises SpecError, also for two kernels of one name.

    Names must differ over all modules, since one lock keeps the rows of all of them.
    """
    found: dict[str, dict[str, KernelSpec]] = {}
    owner: dict[str, str] = {}
    faults: list[Fault] = []
    for module in project.modules:
        try:
            found[module.module] = load_folder(module.kernels)
        except SpecError as error:
            faults.extend(error.faults)
            continue
        for name, spec in found[module.module].items():
            if name in owner:
                message = f"a kernel of this name is in the module '{owner[name]}' too; rename one of them"
                faults.append(Fault(file=spec.file, path="", message=message))
            owner.setdefault(name, module.module)
    if faults:
        raise SpecError(faults)
    return found


def bake_project(
    project: Project,
    settings: Settings,
    say: Say,
    listen: Listener = lambda _event: None,
    *,
    extra: Sequence[Extra] = (),
    host_rows: bool = False,
) -> tuple[Baked, ...]:
    """Return the generated packages of `project`, tuning for the device at hand where the mode says so.

    `say` gets a line for each thing that a user should know; `extra` are configurations to ship besides the rows';
    rows of the host device are baked with `host_rows` only.
    """
    project = overlay(project, settings)
    modules = load_specs(project)
    table = resolve(project, settings, _all(modules), say, listen, host_rows=host_rows)
    plans = {module: _plan(project, settings, specs, table, extra) for module, specs in modules.items()}
    compiler = _compiler(project, [row for row in table.rows if not table.devices[row.device].is_host])
    with Cache(settings.cache) as cache, Library(cache, Effort()) as library:
        binaries = _binaries(library, plans.values(), compiler)
    if project.mode == "locked":
        _demand_digests(table.devices, plans, binaries)
    _tell_compiler(compiler, binaries, say)
    return tuple(Baked(module=module, files=files(found, binaries)) for module, found in plans.items())


def _all(modules: Mapping[str, Mapping[str, KernelSpec]]) -> dict[str, KernelSpec]:
    return {name: spec for specs in modules.values() for name, spec in specs.items()}


def _plan(
    project: Project, settings: Settings, specs: Mapping[str, KernelSpec], table: Table, extra: Sequence[Extra]
) -> Plan:
    here = None if settings.device == HOST else find_target(settings.device, {})
    architectures = [*project.architectures, *([here.device.architecture] if here is not None else [])]
    return plan(
        specs,
        [row for row in table.rows if row.kernel in specs],
        table.devices,
        architectures=architectures if not table.rows else project.architectures,
        cubins=project.cubins,
        extra=[entry for entry in extra if entry[0] in specs],
    )


def _compiler(project: Project, rows: Sequence[Row]) -> str | None:
    """Return the compiler to use: the table's, as exactly as rows of its release tell, else that of most rows."""
    versions = [row.compiler for row in rows]
    if project.cuda is not None:
        versions = [version for version in versions if version.startswith(f"{project.cuda}.")]
    return max(set(versions), key=lambda version: (versions.count(version), version), default=project.cuda)


def _binaries(library: Library, plans: Collection[Plan], compiler: str | None) -> dict[tuple[str, str], Binary]:
    found: dict[tuple[str, str], Binary] = {}
    owners = {shipped.module.key: (k.spec, shipped) for plan in plans for k in plan.kernels for shipped in k.shipped}
    for (module, architecture), binary in library.all([job for p in plans for job in p.jobs], compiler).items():
        if not isinstance(binary, Binary):
            spec, shipped = owners[module]
            said = located(spec, shipped.specialisation, shipped.configuration, detail(binary))
            raise BakeError(f"{spec.name}: what ships does not compile for {architecture}: {said}")
        found[module, architecture] = binary
    return found


def _tell_compiler(wanted: str | None, binaries: Mapping[tuple[str, str], Binary], say: Say) -> None:
    """Say so where another compiler made the binaries than the one that rows were measured with."""
    others = sorted({binary.compiler for binary in binaries.values()} - {wanted})
    if wanted is not None and others and not all(f"{other}.".startswith(f"{wanted}.") for other in others):
        say(
            f"warning: compiled with NVRTC {', '.join(others)} instead of {wanted}: rows whose cubins differ from what "
            "was measured are marked recompiled"
        )


def _demand_digests(
    devices: Mapping[str, Device], plans: Mapping[str, Plan], binaries: Mapping[tuple[str, str], Binary]
) -> None:
    """Raise LockError where what would ship is not, byte for byte, what was verified and measured."""
    for found in plans.values():
        for kernel in found.kernels:
            for row in kernel.rows:
                for choice in row.choices:
                    module = kernel.module(row.specialisation, choice.configuration)
                    built = binaries.get((module.key, devices[row.device].architecture_of(module)))
                    if built is not None and choice.cubin != built.digest:
                        raise LockError(
                            f"mode locked: {row.kernel} at {row.problem}: NVRTC {built.compiler} compiles another "
                            f"cubin than the one that was measured, of NVRTC {row.compiler}; install that NVRTC, or "
                            "run `pretuned tune` with this one"
                        )


def compile_needs(project: Project, settings: Settings) -> Needs:
    """Return what `dependencies()` must provide for this build; imports no CUDA and measures nothing."""
    project = overlay(project, settings)
    specs = _all(load_specs(project))
    bfloat16 = any(
        "bfloat16" in (choice.dtypes or ()) for spec in specs.values() for choice in spec.specialisations.values()
    )
    lock = lockfile.read(project.lock).of_gpus() if project.mode in {"auto", "locked"} else lockfile.Lock()
    tunes_gpu = project.mode in {"auto", "force"} and settings.device != HOST
    target = find_target(settings.device, lock.devices) if tunes_gpu else None
    tuning = target is not None and bool(demands(specs, lock, target, everything=project.mode == "force"))
    compiler = _compiler(project, lock.rows)
    on_host = project.mode in {"auto", "force"} and settings.device == HOST
    return Needs(compile=project.cubins, tune=tuning, compiler=compiler, bfloat16=bfloat16, host=on_host)


__all__ = ["Baked", "bake_project", "compile_needs", "load_specs"]
