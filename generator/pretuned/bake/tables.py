"""The data of a generated package: its devices, the table of rows, what ships, and the binaries of each module."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pretuned.bake.literals import literal
from pretuned.bake.plan import KernelPlan, Plan
from pretuned.compile.result import Binary
from pretuned.record.rows import Choice, Row, TunedDevice
from pretuned.render import Source
from pretuned.spec.buckets import bounds, sizes_of
from pretuned.spec.model import KernelSpec

Binaries = Mapping[tuple[str, str], Binary]  # by module key and architecture
_DEVICE_FACTS = ("sm_count", "compute_capability", "memory_gbps", "l2_bytes", "shared_bytes", "memory_bytes", "power_w")

_TABLE_KEY = (
    "The table, one row a line, by kernel and device: the specialisation, the sizes at which the bucket begins, the",
    "sizes that were measured, what to run from the fastest on, and the evidence. A choice gives implementation,",
    "configuration, time in us, the interval of its time over the default's, the directions beyond the sizes in which",
    "it has beaten the default as well, and 'recompiled' where the binary is not the one that was measured, or the",
    "library whose function it calls. The evidence is date, driver and NVRTC.",
)
_SHIPPED_KEY = (
    "What ships, by kernel: specialisation, implementation, configuration, module (none for a library's function), and",
    "the bytes of alignment that the configuration asks of arguments. The first of each specialisation is the default.",
)
_MODULES_KEY = (
    "The modules in kernels/: compile options, whether made for one architecture only, and the binaries: architecture,",
    "NVRTC, and for each entry point registers a thread and static shared bytes a block.",
)


def module_name(spec: KernelSpec, module: Source) -> str:
    """Return the stem of a module's files."""
    return f"{spec.name}-{module.key[:12]}"


def modules_of(kernel: KernelPlan) -> dict[str, Source]:
    """Return the modules that ship for a kernel by the stem of their files, sorted."""
    found: dict[str, Source] = {}
    modules = [shipped.module for shipped in kernel.shipped if shipped.module is not None]
    for module in sorted(modules, key=lambda module: module.text):
        found.setdefault(module_name(kernel.spec, module), module)
    return dict(sorted(found.items()))


def device_lines(plan: Plan) -> Iterator[str]:
    """Yield the devices that rows were measured on."""
    yield "# What the rows were measured on, one device a line. memory_gbps is in GB/s, power_w in W."
    yield "DEVICES: Devices = {"
    for device in plan.devices:
        facts = {name: int(getattr(device, name)) for name in _DEVICE_FACTS}
        yield f"    {literal(device.name)}: {literal(facts)},"
    yield "}"


def table_lines(plan: Plan, binaries: Binaries) -> Iterator[str]:
    """Yield the table: a row a line, by kernel and device."""
    devices = {device.name: device for device in plan.devices}
    yield from (f"# {line}" for line in _TABLE_KEY)
    yield "TABLE: Table = {"
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


def _row(kernel: KernelPlan, row: Row, device: TunedDevice, binaries: Binaries) -> str:
    dims = {name: int(size) for name, size in row.problem.dims}
    lower = {name: bounds(sizes_of(kernel.spec, name), size)[0] for name, size in dims.items()}
    choices = tuple(_choice(kernel, row, choice, device, binaries) for choice in row.choices)
    return literal((dict(row.specialisation), lower, dims, choices, (row.date, row.driver, row.compiler)))


def _choice(
    kernel: KernelPlan, row: Row, choice: Choice, device: TunedDevice, binaries: Binaries
) -> tuple[object, ...]:
    configuration = choice.configuration
    module = kernel.module(row.specialisation, configuration)
    note = choice.library
    if module is not None:
        binary = binaries.get((module.key, f"{device.architecture}{'a' if module.arch_specific else ''}"))
        note = "recompiled" if binary is not None and binary.digest != choice.cubin else ""
    low, high = choice.ratio
    return (
        configuration.implementation,
        dict(configuration.values),
        float(choice.time_us),
        (float(low), float(high)),
        tuple(choice.beyond),
        note,
    )


def shipped_lines(plan: Plan) -> Iterator[str]:
    """Yield every configuration that ships, the default first in each specialisation."""
    yield from (f"# {line}" for line in _SHIPPED_KEY)
    yield "_SHIPPED: dict[str, tuple[Shipped, ...]] = {"
    for kernel in plan.kernels:
        yield f"    {literal(kernel.spec.name)}: ("
        for shipped in kernel.shipped:
            configuration = shipped.configuration
            entry = (
                dict(shipped.specialisation),
                configuration.implementation,
                dict(configuration.values),
                "" if shipped.module is None else module_name(kernel.spec, shipped.module),
                dict(shipped.align),
            )
            yield f"        {literal(entry)},"
        yield "    ),"
    yield "}"


def module_lines(plan: Plan, binaries: Binaries) -> Iterator[str]:
    """Yield the modules: compile options, whether for one architecture only, and the binaries in kernels/."""
    yield from (f"# {line}" for line in _MODULES_KEY)
    yield "_MODULES: Modules = {"
    for kernel in plan.kernels:
        for name, module in modules_of(kernel).items():
            images = tuple(
                (
                    architecture,
                    binary.compiler,
                    {f: (r.registers, r.shared_bytes) for f, r in sorted(binary.resources.items())},
                )
                for (key, architecture), binary in sorted(binaries.items())
                if key == module.key
            )
            yield f"    {literal(name)}: {literal((tuple(module.options), module.arch_specific, images))},"
    yield "}"
