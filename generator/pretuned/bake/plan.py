"""What a generated package ships, and what has to be compiled for it.

Of every kernel: the configurations that rows and selections name, the default for every specialisation, and what was
asked for beside them. Defaults are compiled for every architecture, and as PTX for the oldest; winners for the
architecture of the device that they won on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pretuned.compile.result import Binary
from pretuned.errors import BakeError
from pretuned.record.freshness import admits, in_space
from pretuned.record.rows import Choice, Row, TunedDevice
from pretuned.record.selections import PredictedChoice, Selection
from pretuned.render import Source, source_of
from pretuned.runtime.costs import check
from pretuned.runtime.gradients import Backward
from pretuned.spec import space
from pretuned.spec.backward import backward_of
from pretuned.spec.defaults import defaults
from pretuned.spec.guards import guards
from pretuned.spec.model import KernelSpec
from pretuned.spec.needs import need_of
from pretuned.spec.space import Configuration, Pairs
from pretuned.spec.templates import RenderError

OLDEST: Final = 80  # of the architectures, where none is known

Extra = tuple[str, Configuration]
Job = tuple[Source, str]  # what to compile, for which architecture

Compiled = Mapping[tuple[str, str], Binary]  # binaries by source key and architecture


@dataclass(frozen=True, slots=True, kw_only=True)
class Shipped:
    """A configuration that ships for one specialisation.

    `source` is None for a library call. `align` is bytes by argument, where more than the element's size; `default`
    marks what the kernel's default may be, and `everywhere` what is compiled for every architecture: defaults, and what
    was asked for.
    """

    specialisation: Pairs
    configuration: Configuration
    source: Source | None
    align: tuple[tuple[str, int], ...]
    default: bool
    everywhere: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelPlan:
    """One kernel: rows and selections (in the order of the tables), and what ships.

    In each specialisation the default ships first, or all that it may be. `backward` names the kernel of its gradient.
    """

    spec: KernelSpec
    rows: tuple[Row, ...]
    selections: tuple[Selection, ...]
    shipped: tuple[Shipped, ...]
    backward: Backward | None = None

    @property
    def entries(self) -> tuple[Row | Selection, ...]:
        """Rows and selections."""
        entries: list[Row | Selection] = [*self.rows, *self.selections]
        return tuple(entries)

    def source(self, specialisation: Pairs, configuration: Configuration) -> Source | None:
        """Return the source of a configuration that ships; None for a library call."""
        wanted = specialisation, configuration
        return next(
            shipped.source for shipped in self.shipped if (shipped.specialisation, shipped.configuration) == wanted
        )

    def recompiled(
        self, entry: Row | Selection, choice: Choice | PredictedChoice, device: TunedDevice, compiled: Compiled
    ) -> Binary | None:
        """Return the binary that ships for a choice of a row or a selection, if it is another than was measured."""
        source = self.source(entry.specialisation, choice.configuration)
        binary = None if source is None else compiled.get((source.key, device.architecture_of(source)))
        return None if binary is None or binary.digest == choice.cubin else binary


@dataclass(frozen=True, slots=True, kw_only=True)
class BakePlan:
    """A whole package. `jobs` are the distinct (source, architecture) to compile, `devices` those that rows name."""

    kernels: tuple[KernelPlan, ...]
    devices: tuple[TunedDevice, ...]
    jobs: tuple[Job, ...]


def by_source(binaries: Compiled) -> dict[str, list[tuple[str, Binary]]]:
    """Return the binaries of each source by its key, with the architectures that they were asked for, in their order.

    What a binary says of itself may come from a cache that anybody has written.
    """
    found: dict[str, list[tuple[str, Binary]]] = {}
    for (key, architecture), binary in sorted(binaries.items(), key=lambda one: one[0]):
        found.setdefault(key, []).append((architecture, binary))
    return found


def plan(
    specs: Mapping[str, KernelSpec],
    rows: Sequence[Row],
    devices: Mapping[str, TunedDevice],
    *,
    selections: Sequence[Selection] = (),
    architectures: Sequence[str] = (),
    cubins: bool = True,
    extra: Sequence[Extra] = (),
) -> BakePlan:
    """Return what ships for `specs`.

    What `rows` and `selections` have of other kernels, at sizes that the spec no longer has, or of specialisations that
    it no longer has, is left out. `devices` gives every row's device; `architectures` (`sm_90`) are those to build
    defaults for besides the devices'. `extra` is (kernel, configuration) to ship as well. Raises BakeError for a row, a
    selection or an extra that the specs do not admit.
    """
    for name, _ in extra:
        if name not in specs:
            raise BakeError(f"--with names the kernel '{name}', which is not one of {', '.join(sorted(specs))}")
    kernels = tuple(
        replace(
            _kernel(
                spec,
                [row for row in rows if row.kernel == name],
                [selection for selection in selections if selection.kernel == name],
                [configuration for kernel, configuration in extra if kernel == name],
            ),
            backward=None if spec.backward is None else backward_of(spec, specs[spec.backward.kernel]),
        )
        for name, spec in sorted(specs.items())
    )
    named = sorted({entry.device for kernel in kernels for entry in kernel.entries})
    if missing := [name for name in named if name not in devices]:
        raise BakeError(f"rows name the device '{missing[0]}', of which nothing is known")
    real = [device.architecture for device in devices.values() if device.is_gpu]
    wanted = {number_of(architecture) for architecture in (*real, *architectures)}
    return BakePlan(
        kernels=kernels,
        devices=tuple(devices[name] for name in named),
        jobs=_jobs(kernels, devices, sorted(wanted)) if cubins else (),
    )


def _kernel(
    spec: KernelSpec, rows: Sequence[Row], selections: Sequence[Selection], extra: Sequence[Configuration]
) -> KernelPlan:
    problems, specialisations = set(space.all_problems(spec)), list(space.specialisations(spec))
    kept = sorted((row for row in rows if row.problem in problems), key=_order)
    chosen = sorted(
        (selection for selection in selections if selection.specialisation in specialisations),
        key=lambda selection: (selection.device, repr(selection.specialisation)),
    )
    for selection in chosen:
        _readable(spec, selection)
    shipped: dict[tuple[Pairs, Configuration], Shipped] = {}
    admitted = {c: [s for s in space.specialisations(spec) if admits(spec, s, c)] for c in extra}
    for configuration, found in admitted.items():
        _known(spec, configuration, "--with")
        if not found:
            raise BakeError(f"--with {spec.name}: {configuration} is legal for no specialisation")
    for specialisation in specialisations:
        named = {choice.configuration for row in kept if row.specialisation == specialisation for choice in row.choices}
        named |= {
            one.configuration for found in chosen if found.specialisation == specialisation for one in found.choices
        }
        named |= {configuration for configuration, found in admitted.items() if specialisation in found}
        own = defaults(spec, specialisation)
        for configuration in (*own, *sorted(named.difference(own), key=lambda c: (c.implementation, c.values))):
            _known(spec, configuration, "a row or a selection")
            everywhere = configuration in own or specialisation in admitted.get(configuration, [])
            shipped[specialisation, configuration] = _shipped(
                spec, specialisation, configuration, default=configuration in own, everywhere=everywhere
            )
    return KernelPlan(spec=spec, rows=tuple(kept), selections=tuple(chosen), shipped=tuple(shipped.values()))


def _readable(spec: KernelSpec, selection: Selection) -> None:
    """Raise BakeError for a selection that a generated package could not read."""
    of = f"the selection of {spec.name} on {selection.device}"
    if selection.default_configurations != defaults(spec, selection.specialisation):
        raise BakeError(f"{of} does not end with the default; tune {spec.name} again")
    for choice in selection.choices:
        try:
            check(choice.cost, spec.free_dims)
        except ValueError as error:
            raise BakeError(f"{of}, {choice.configuration}: {error}") from None
    if unknown := sorted({name for name, _ in selection.reach} - spec.free_dims.keys()):
        raise BakeError(f"{of}: its reach names '{unknown[0]}', which is not a dim that calls decide")


def _order(row: Row) -> tuple[str, str, tuple[int, ...]]:
    """By device, specialisation and size; specialisations as text, since their values are of several types."""
    return row.device, repr(row.specialisation), tuple(int(size) for _, size in row.problem.dims)


def _known(spec: KernelSpec, configuration: Configuration, source: str) -> None:
    """Raise BakeError for a configuration that is not of the spec's space."""
    implementation = spec.all_implementations.get(configuration.implementation)
    if implementation is None:
        known = ", ".join(spec.all_implementations)
        raise BakeError(
            f"{source} of {spec.name} names the implementation '{configuration.implementation}'; there are {known}"
        )
    if not in_space(spec, configuration):
        raise BakeError(f"{source} of {spec.name} names {configuration}, which is not in the space of {spec.file}")


def _shipped(
    spec: KernelSpec, specialisation: Pairs, configuration: Configuration, *, default: bool, everywhere: bool
) -> Shipped:
    call = spec.all_implementations[configuration.implementation].call
    try:
        source = source_of(spec, specialisation, configuration) if call is None else None
    except RenderError as error:
        raise BakeError(f"{spec.name}: {error}") from None
    return Shipped(
        specialisation=specialisation,
        configuration=configuration,
        source=source,
        align=guards(spec, specialisation, configuration).align,
        default=default,
        everywhere=everywhere,
    )


def number_of(architecture: str) -> int:
    """Return 90 for `sm_90`, `sm_90a` and `compute_90`."""
    digits = architecture.rpartition("_")[2].rstrip("af")
    if not digits.isdigit():
        raise BakeError(f"'{architecture}' is not an architecture; write sm_80, sm_90, ...")
    return int(digits)


def _jobs(kernels: Iterable[KernelPlan], devices: Mapping[str, TunedDevice], wanted: Sequence[int]) -> tuple[Job, ...]:
    jobs: dict[tuple[str, str], Job] = {}
    oldest = min(wanted, default=OLDEST)
    for kernel in kernels:
        won: dict[tuple[Pairs, Configuration], set[int]] = {}
        for entry in kernel.entries:
            for choice in entry.choices:
                theirs = won.setdefault((entry.specialisation, choice.configuration), set())
                if devices[entry.device].is_gpu:  # others' choices ship as sources
                    theirs.add(number_of(devices[entry.device].architecture))
        for shipped in kernel.shipped:
            if shipped.source is None:
                continue
            source, specific = shipped.source, shipped.source.arch_specific
            need = need_of(kernel.spec, shipped.specialisation, shipped.configuration)
            least = need.capability if need is not None else 0
            numbers = wanted if shipped.everywhere else sorted(won[shipped.specialisation, shipped.configuration])
            real = [f"sm_{n}{'a' if specific else ''}" for n in numbers if n >= least]
            portable = [f"compute_{max(oldest, least)}"] if shipped.default and not specific else []
            jobs |= {(source.key, architecture): (source, architecture) for architecture in (*real, *portable)}
    return tuple(job for _, job in sorted(jobs.items()))
