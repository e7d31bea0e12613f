"""The data of a generated package: its devices, the table of rows, what ships, and the binaries of each source."""

from __future__ import annotations

from collections.abc import Iterator

from pretuned.bake.literals import literal, prose
from pretuned.bake.plan import BakePlan, Compiled, KernelPlan, Shipped, by_source
from pretuned.record.rows import Choice, Row, TunedDevice
from pretuned.record.selections import Certificate, Losses, Selection
from pretuned.render import Source, digest
from pretuned.runtime.costs import names_read, shared
from pretuned.spec.defaults import depends
from pretuned.spec.model import KernelSpec

_DEVICE_FACTS = ("sm_count", "compute_capability", "memory_gbps", "l2_bytes", "shared_bytes", "memory_bytes", "power_w")

_TABLE_KEY = (
    "The table, one row per line, by kernel and device: the specialisation, the sizes that were measured, what to run",
    "there from the fastest on, and the evidence: date, driver, NVRTC. A choice gives implementation, configuration,",
    "time in us, and the interval of its time over the default's. Where they say more: the library whose function it",
    "calls, True where the binary is not the one that was measured, and the times below which 10, 50 and 90% of the",
    "samples lie, in us.",
)
_SELECTIONS_KEY = (
    "The selections decide at problems that have no row, by kernel and device: the specialisation; the configurations,",
    "the default last; their costs, one a line, which predict the time of a call in femtoseconds: the lowest runs, if",
    "it is below the default's by a margin; the margins in per mille, inside the sizes that the costs were fitted to,",
    "and outside; these sizes; at how many problems; the certificate; the evidence. The certificate has the seed of",
    "problems that were drawn after the costs were made, and what the choices lose there, inside these sizes and",
    "outside: number of problems, mean, 95th percentile, worst, the share slower than the default, the worst problem.",
)
_SHIPPED_KEY = (
    "What ships, by kernel: specialisation, implementation, configuration, source (none for a library's function), and",
    "the bytes of alignment that the configuration asks of arguments. The first of each specialisation is the default.",
)
_DEFAULTS_KEY = (
    "Where the default depends on the problem, True marks what else it may be, by the conditions of the kernel's",
    "`default`; a selection ends with the number of its last choices that it may be.",
)
_BINARIES_KEY = (
    "The sources in kernels/ with their binaries: compile options, whether for one architecture only, and for each",
    "binary architecture, NVRTC, and by entry point the registers per thread and static shared bytes per block. Then,",
    "if it includes any, the project's own headers by name, with their files.",
)


def source_name(spec: KernelSpec, source: Source) -> str:
    """Return the stem of a source's files."""
    return f"{spec.name}-{source.key[:12]}"


def sources_of(kernel: KernelPlan) -> dict[str, Source]:
    """Return the sources that ship for a kernel by the stem of their files, sorted."""
    found: dict[str, Source] = {}
    sources = [shipped.source for shipped in kernel.shipped if shipped.source is not None]
    for source in sorted(sources, key=lambda source: source.text):
        found.setdefault(source_name(kernel.spec, source), source)
    return dict(sorted(found.items()))


def header_files(source: Source) -> dict[str, str]:
    """Return the files of a source's headers in kernels/, by their names; equal texts share one."""
    files = {}
    for header in source.headers:
        stem, dot, suffix = header.name.rpartition("/")[2].partition(".")
        files[header.name] = f"include/{stem}-{digest(header.text)[:12]}{dot}{suffix}"
    return files


def device_lines(plan: BakePlan) -> Iterator[str]:
    """Yield the devices that rows were measured on."""
    yield "# What the rows were measured on, one device per line. memory_gbps is in GB/s, power_w in W."
    yield "DEVICES = {"
    for device in plan.devices:
        facts = {name: int(getattr(device, name)) for name in _DEVICE_FACTS}
        yield f"    {literal(device.name)}: {literal(facts)},"
    yield "}"


def table_lines(plan: BakePlan, binaries: Compiled) -> Iterator[str]:
    """Yield the table: one row per line, by kernel and device."""
    devices = {device.name: device for device in plan.devices}
    yield from (f"# {line}" for line in _TABLE_KEY)
    yield "TABLE = {"
    for kernel in plan.kernels:
        yield f"    {literal(kernel.spec.name)}: {{"
        for name in sorted({row.device for row in kernel.rows}):
            yield f"        {literal(name)}: ("
            for row in kernel.rows:
                if row.device == name:
                    yield f"            {_row(kernel, row, devices[name], binaries)},"
            yield "        ),"
        yield "    },"
    yield "}"


def selection_lines(plan: BakePlan, binaries: Compiled) -> Iterator[str]:
    """Yield the selections: their costs one configuration a line, by kernel and device."""
    devices = {device.name: device for device in plan.devices}
    yield from (f"# {line}" for line in _SELECTIONS_KEY)
    yield "SELECTIONS = {"
    for kernel in plan.kernels:
        if not kernel.selections:
            continue
        yield f"    {literal(kernel.spec.name)}: {{"
        for name in sorted({selection.device for selection in kernel.selections}):
            yield f"        {literal(name)}: ("
            for selection in kernel.selections:
                if selection.device == name:
                    yield from _selection(kernel, selection, devices[name], binaries)
            yield "        ),"
        yield "    },"
    yield "}"


def _selection(kernel: KernelPlan, selection: Selection, device: TunedDevice, binaries: Compiled) -> Iterator[str]:
    choices, predicted = [], selection.predicted
    for choice in predicted:
        recompiled = kernel.recompiled(selection, choice, device, binaries) is not None
        head = choice.configuration.implementation, dict(choice.configuration.values)
        choices.append((*head, *_said([choice.library, recompiled])))
    dims = kernel.spec.free_dims
    costs = [choice.cost for choice in predicted]
    parts, formulas = shared(costs, dims)
    reads = names_read(costs, dims)
    yield f"            ({literal(dict(selection.specialisation))},"
    yield f"             {literal(tuple(choices))},"
    yield f"             lambda {', '.join(reads)}: (" if reads else "             lambda: ("
    yield from (f"                 {name} := {text}," for name, text in parts)
    yield from ["                 ("] if parts else []
    for choice, formula in zip(predicted, formulas, strict=True):
        yield f"                 {formula},  # {prose(str(choice.configuration))}"
    yield "             ))[-1]," if parts else "             ),"
    rest = selection.margins, dict(selection.reach), selection.problems, _certificate(selection.certificate)
    evidence = selection.date, selection.driver, selection.compiler
    own = set(selection.default_configurations)
    defaults = [sum(choice.configuration in own for choice in predicted)] if selection.defaults > 1 else []
    yield f"             {', '.join(map(literal, (*rest, evidence, *defaults)))}),"


def _certificate(certificate: Certificate | None) -> tuple[object, ...] | None:
    if certificate is None:
        return None
    outside = None if certificate.outside is None else _losses(certificate.outside)
    return (certificate.seed, _losses(certificate.inside), outside, *_said([certificate.calls]))


def _losses(losses: Losses) -> tuple[object, ...]:
    shares = map(float, (losses.mean, losses.p95, losses.worst, losses.slower))
    return (losses.problems, *shares, dict(losses.worst_at))


def _said(more: list[object]) -> list[object]:
    """Return values without the last ones that say nothing."""
    while more and not more[-1]:
        more.pop()
    return more


def _row(kernel: KernelPlan, row: Row, device: TunedDevice, binaries: Compiled) -> str:
    dims = {name: int(size) for name, size in row.problem.dims}
    choices = tuple(_choice(kernel, row, choice, device, binaries) for choice in row.choices)
    return literal((dict(row.specialisation), dims, choices, (row.date, row.driver, row.compiler)))


def _choice(
    kernel: KernelPlan, row: Row, choice: Choice, device: TunedDevice, binaries: Compiled
) -> tuple[object, ...]:
    """Return a choice as it stands in the table."""
    configuration = choice.configuration
    low, high = choice.ratio
    recompiled = kernel.recompiled(row, choice, device, binaries) is not None
    return (
        configuration.implementation,
        dict(configuration.values),
        float(choice.time_us),
        (float(low), float(high)),
        *_said([choice.library, recompiled, choice.spread_us]),
    )


def shipped_lines(plan: BakePlan) -> Iterator[str]:
    """Yield every configuration that ships, the default first in each specialisation; more of them are marked."""
    yield from (f"# {line}" for line in _SHIPPED_KEY)
    if any(depends(kernel.spec) for kernel in plan.kernels):
        yield from (f"# {line}" for line in _DEFAULTS_KEY)
    yield "_SHIPPED = {"
    for kernel in plan.kernels:
        yield f"    {literal(kernel.spec.name)}: ("
        before: Shipped | None = None
        for shipped in kernel.shipped:
            configuration = shipped.configuration
            further = shipped.default and before is not None and before.specialisation == shipped.specialisation
            before = shipped
            entry = (
                dict(shipped.specialisation),
                configuration.implementation,
                dict(configuration.values),
                "" if shipped.source is None else source_name(kernel.spec, shipped.source),
                dict(shipped.align),
                *_said([further]),
            )
            yield f"        {literal(entry)},"
        yield "    ),"
    yield "}"


def binary_lines(plan: BakePlan, binaries: Compiled) -> Iterator[str]:
    """Yield the sources with their binaries in kernels/."""
    yield from (f"# {line}" for line in _BINARIES_KEY)
    yield "_BINARIES = {"
    found = by_source(binaries)
    for kernel in plan.kernels:
        for name, source in sources_of(kernel).items():
            images = tuple(
                (
                    architecture,
                    binary.compiler,
                    {f: (r.registers, r.shared_bytes) for f, r in sorted(binary.resources.items())},
                )
                for architecture, binary in found.get(source.key, ())
            )
            headers = [header_files(source)] if source.headers else []
            yield f"    {literal(name)}: {literal((tuple(source.options), source.arch_specific, images, *headers))},"
    yield "}"
