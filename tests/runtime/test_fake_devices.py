"""The bundled kernels on GPUs that are only described: whatever runs there is legal and fits, by the tuner's own rules.

The table is the committed one with rows and selections of two more devices beside it, whose winners and costs are drawn
at random. What a binary takes of registers and shared memory is made up too, so that many a winner does not fit.
"""

import compileall
import dataclasses
import importlib
import itertools
import math
import random
import struct
from collections import Counter
from pathlib import Path

import ml_dtypes  # noqa: F401 - NumPy knows bfloat16 by it
import pytest

import fake_cuda
import sample
from builders import selection
from kernel_folders import bundled
from pretuned.bake.package import files
from pretuned.bake.plan import plan
from pretuned.compile.result import Resources
from pretuned.measure.launch import arrays, launches, scalars
from pretuned.outcome import LaunchFailed
from pretuned.record import lock
from pretuned.record.freshness import admits
from pretuned.record.rows import TunedDevice
from pretuned.record.selections import PredictedChoice
from pretuned.runtime.types import DTYPES
from pretuned.spec import space
from pretuned.spec.defaults import defaults
from pretuned.spec.guards import guards as guards_of
from pretuned.spec.sizes import fits_arguments, sizes_of
from pretuned.spec.space import Configuration, DeviceFacts, Problem
from pretuned.tune.space import pruning

ROOT = Path(__file__).parents[2]
PAIRS = 4_000
MEMORY_BYTES = 80 * 10**9
A100, L4, RTX = "NVIDIA A100-SXM4-80GB", "NVIDIA L4", "NVIDIA GeForce RTX 4090"
ATTRIBUTES = (16, 75, 76, 38, 97, 8, 36, 37)  # CUdevice_attribute, in the order of the facts below
GPUS = {
    # SMs, capability, L2 bytes, shared bytes a block with opt-in and without, memory clock in kHz, bus width in bits
    "Tesla T4": (40, 7, 5, 4 << 20, 65536, 49152, 5001000, 256),
    L4: (58, 8, 9, 48 << 20, 101376, 49152, 6251000, 192),
    A100: (108, 8, 0, 40 << 20, 166912, 49152, 1593000, 5120),
    RTX: (128, 8, 9, 72 << 20, 101376, 49152, 10501000, 384),
    "NVIDIA B200": (148, 10, 0, 126 << 20, 232448, 49152, 3996000, 8192),
    "NVIDIA H100 80GB HBM3": (132, 9, 0, 50 << 20, 232448, 49152, 2619000, 5120),
    "NVIDIA H100 80GB HBM3 MIG 1g.10gb": (16, 9, 0, 6 << 20, 232448, 49152, 2619000, 640),
    "48 KB a block, no opt-in": (128, 8, 9, 72 << 20, 0, 49152, 10501000, 384),
}
# By defaults for compute capability 8.0 and newer, all of which has more than that.
NEEDED_BYTES = {"hgemm": 98304, "skinny_gemm": 98304}
ROWS_OF = {"NVIDIA A100-SXM4-40GB": A100, RTX: RTX}  # the devices with made-up rows, and whose facts they have
ARCHITECTURES = ("sm_75", "sm_80", "sm_89", "sm_90", "sm_100")  # that defaults are compiled for


def facts_of(gpu):
    sms, major, minor, l2_bytes, with_optin, without, _, _ = GPUS[gpu]
    shared_bytes = with_optin or without
    return DeviceFacts(
        sm_count=sms, compute_capability=10 * major + minor, l2_bytes=l2_bytes, shared_bytes=shared_bytes
    )


def has_enough(gpu, spec):
    """Whether a kernel's default fits, which then takes what nothing else does."""
    return facts_of(gpu).shared_bytes >= NEEDED_BYTES.get(spec.name, 0)


def made_up_rows(specs, name):
    """Yield rows of a device: for each specialisation of a kernel a few winners, wherever they are legal."""
    facts, draw = facts_of(ROWS_OF[name]), random.Random(name)
    for spec in specs.values():
        every = [one for way, of in spec.all_implementations.items() for one in space.combinations(way, of)]
        for specialisation in space.specialisations(spec):
            own = defaults(spec, specialisation)
            others = [one for one in every if one not in own]
            pool = draw.sample(others, min(12, len(others)))
            for problem in space.problems(spec, specialisation):
                default = space.default_at(spec, problem)
                winners = [
                    one
                    for one in pool
                    if space.legal(spec, problem, one, facts)
                    and not isinstance(launches(spec, problem, one, facts), LaunchFailed)
                ][:3]
                ranked = [
                    *(sample.choice(5.0, implementation=c.implementation, **dict(c.values)) for c in winners),
                    sample.choice(9.0, implementation=default.implementation, **dict(default.values)),
                ]
                yield sample.row(spec.name, device_of(name), dict(specialisation), dict(problem.dims), *ranked)


def made_up_selections(specs, name):
    """Yield a selection for each specialisation of a kernel: configurations with costs that let most of them win."""
    draw = random.Random(name)
    for spec in specs.values():
        every = [one for way, of in spec.all_implementations.items() for one in space.combinations(way, of)]
        for specialisation in space.specialisations(spec):
            own = defaults(spec, specialisation)
            shuffled = draw.sample(every, len(every))
            others = (one for one in shuffled if one not in own and admits(spec, specialisation, one))
            costs = {
                one: (("1", draw.randrange(10**6)), *((dim, draw.randrange(100)) for dim in sorted(spec.free_dims)))
                for one in itertools.islice(others, 7)
            }
            costs |= dict.fromkeys(own, (("1", 10**9),))
            choices = [PredictedChoice(configuration=c, candidate="", cubin="", cost=cost) for c, cost in costs.items()]
            yield selection(spec, specialisation, device=name, choices=tuple(choices), defaults=len(own))


def device_of(name):
    facts, (*_, clock_khz, bus_bits) = facts_of(ROWS_OF[name]), GPUS[ROWS_OF[name]]
    return TunedDevice(
        name=name,
        sm_count=facts.sm_count,
        compute_capability=facts.compute_capability,
        l2_bytes=facts.l2_bytes,
        shared_bytes=facts.shared_bytes,
        memory_bytes=MEMORY_BYTES,
        memory_gbps=round(2 * clock_khz * bus_bits / 8 / 1e6),
        power_w=400,
    )


def binaries(planned):
    """Return binaries whose registers and shared memory are drawn, by their names; those of defaults take little."""
    modest = {one.source.key for kernel in planned.kernels for one in kernel.shipped if one.default}
    found = {}
    for key, binary in sample.binaries(planned).items():
        draw = random.Random("".join(key))
        used = Resources(
            registers=draw.choice((32, 64, 100, 168, 255)),
            spill_bytes=0,
            shared_bytes=draw.choice((0, 1024, 40000, 64000, 120000)),
        )
        resources = binary.resources if binary.module in modest else dict.fromkeys(binary.resources, used)
        found[key] = dataclasses.replace(binary, resources=resources)
    return found


class Bundle:
    """The bundled kernels, planned and baked into `folder`, with what is known of them without the runtime."""

    def __init__(self, folder):
        self.folder, self.specs = folder, bundled()
        table = lock.read(ROOT / "pretuned.lock.json").of_gpus()
        rows = [*table.rows, *(row for name in ROWS_OF for row in made_up_rows(self.specs, name))]
        devices = {**table.devices, **{name: device_of(name) for name in ROWS_OF}}
        rules = [*table.selections, *(rule for name in ROWS_OF for rule in made_up_selections(self.specs, name))]
        self.plan = plan(self.specs, rows, devices, selections=rules, architectures=ARCHITECTURES)
        self.kernels = {kernel.spec.name: kernel for kernel in self.plan.kernels}
        self.binaries = binaries(self.plan)
        sample.write({"__init__.py": b""}, folder / "pkg")
        sample.write(files(self.plan, self.binaries, version="0.0.0"), folder / "pkg" / "tuned")
        compileall.compile_dir(folder / "pkg", quiet=1)

    def problem(self, draw, spec):
        """Draw a problem whose arrays a GPU can hold, at edges and small sizes as well as any others."""
        specialisation = draw.choice(list(space.specialisations(spec)))
        while True:
            dims = tuple((name, self.size(draw, spec, name)) for name in sorted(spec.free_dims))
            problem = Problem(specialisation=specialisation, dims=dims)
            fits = sum(array.nbytes for array in arrays(spec, problem)) <= MEMORY_BYTES
            if fits and fits_arguments(spec, problem) and space.admitted(spec, problem):
                return problem

    def size(self, draw, spec, name):
        sizes = sizes_of(spec, name)
        near = draw.choice([*sizes, *(math.isqrt(a * b) for a, b in itertools.pairwise(sizes))]) + draw.randint(-1, 1)
        return draw.choice([0, 1, near, near, int(2 ** draw.uniform(0, 31)), int(2 ** draw.uniform(0, 16))])

    def binary(self, spec, problem, configuration, capability):
        """Return the cubin of a configuration that a device would load, or None if it would be compiled there."""
        key = self.kernels[spec.name].source(problem.specialisation, configuration).key
        names = [a.removeprefix("sm_") for k, a in self.binaries if k == key and a.startswith("sm_")]
        if f"{capability}a" in names:  # for this capability alone
            return self.binaries[key, f"sm_{capability}a"]
        numbers = [int(name) for name in names if name.isdecimal()]
        fitting = [number for number in numbers if number // 10 == capability // 10 and number <= capability]
        return self.binaries[key, f"sm_{max(fitting)}"] if fitting else None

    def refusal(self, spec, problem, configuration, gpu, addresses):
        """Return what is wrong with running a configuration, or an empty string; nothing of the runtime is asked."""
        facts = facts_of(gpu)
        if not space.legal(spec, problem, configuration, facts):
            return "a constraint"
        guards = guards_of(spec, problem.specialisation, configuration, facts)
        if any(addresses[name] % nbytes for name, nbytes in guards.align):
            return "alignment"
        found = launches(spec, problem, configuration, facts)
        if isinstance(found, LaunchFailed):
            return "the grid or block"
        binary = self.binary(spec, problem, configuration, facts.compute_capability)
        return "registers or shared memory" if binary and pruning.refusal(binary, found, facts) else ""


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return Bundle(tmp_path_factory.mktemp("bundled"))


@pytest.fixture
def gpus(cuda, monkeypatch):
    """A machine with all of the GPUs."""
    cuda.devices = [
        {"name": name, 1: 1024, 12: 65536} | dict(zip(ATTRIBUTES, facts, strict=True)) for name, facts in GPUS.items()
    ]
    monkeypatch.setenv("PRETUNED_WARN", "0")
    return cuda.devices


@pytest.fixture
def runtime(bundle, gpus, load):
    """The parts of the bundled package's runtime, by name."""
    load(bundle.folder)
    names = ("", ".devices", ".driver", ".lookup", ".overrides", ".problem")
    return {name.lstrip("."): importlib.import_module(f"pkg.tuned._runtime{name}") for name in names}


def decide(runtime, spec, problem, gpu, addresses, asked):
    """Return what the runtime decides, with the rows of the device that is asked for, if one is."""
    overrides = runtime["overrides"].Overrides()
    if asked is not None:
        overrides.want_device(asked, "", "asked for")
    kernel = runtime[""].KERNELS[spec.name]
    device = runtime["devices"].in_hand(runtime["driver"].driver("a test"), list(GPUS).index(gpu))
    values = space.choices(spec, problem.specialisation) | dict(problem.dims)
    called = runtime["problem"].CalledProblem(kernel, device, dict(problem.specialisation), values)
    return runtime["lookup"].decide(kernel, called, lambda name, nbytes: addresses[name] % nbytes == 0, overrides)


def test_whatever_runs_is_legal_and_fits(bundle, runtime, record_property):
    """For random devices, problems, addresses and, now and then, the rows of another device; none raises."""
    draw, told = random.Random(20261120), {gpu: Counter() for gpu in GPUS}
    specs, devices = list(bundle.specs.values()), [device.name for device in bundle.plan.devices]
    for _ in range(PAIRS):
        spec = draw.choice(specs)
        gpu = draw.choice([gpu for gpu in GPUS if has_enough(gpu, spec)])
        problem, asked = bundle.problem(draw, spec), draw.choice(devices) if draw.random() < 0.3 else None
        addresses = {
            array.name: (1 << 40) + draw.choice([0, 0, 0, 1, 2, 4]) * DTYPES[array.dtype].size_bytes
            for array in arrays(spec, problem)
        }
        decision = decide(runtime, spec, problem, gpu, addresses, asked)
        chosen = Configuration(
            implementation=decision.shipped.implementation, values=space.pairs(decision.shipped.configuration)
        )
        assert not bundle.refusal(spec, problem, chosen, gpu, addresses), (gpu, str(problem), str(chosen), decision.why)
        told[gpu].update(kinds(decision, asked))
        told[gpu]["default" if chosen == space.default_at(spec, problem) else "winner"] += 1
    record_property("figure", table(told))
    passed_over = sum((Counter({kind: count[kind] for kind in OVER}) for count in told.values()), Counter())
    rare = {"alignment"}  # which hgemm's tensor maps alone ask for
    assert all(passed_over[kind] > (0 if kind in rare else 20) for kind in OVER)  # or nothing was put to the test
    assert all(told[gpu]["selection"] > PAIRS // 20 for gpu in (A100, RTX)), "between the sizes a selection decides"
    assert told["48 KB a block, no opt-in"]["shared memory"] > told[RTX]["shared memory"]


OVER = {
    "condition": "does not hold",
    "alignment": "is not aligned",
    "shared memory": "bytes of shared memory",
    "registers": "registers a block",
}


def kinds(decision, asked):
    """Yield whose rows answered, whether a selection decided, and what was passed over for."""
    found = [kind for kind in ("exact", "nearest") if decision.why[0].startswith(kind)] if decision.tuned else []
    yield from ["asked for"] if asked and decision.tuned else found or ["no row"]
    yield from ["selection"] if decision.selection is not None else []
    yield from (kind for kind, words in OVER.items() for line in decision.why if words in line)


def table(told):
    columns = ["exact", "nearest", "asked for", "no row", "selection", "winner", "default", *OVER]
    lines = [
        f"bundled kernels on {len(told)} fake devices, {PAIRS:,} random problems: whose rows answered, what ran, and"
    ]
    lines += ["what winners were passed over for", f"{'':34}{''.join(f'{name:>14}' for name in columns)}"]
    lines += [f"{gpu:34}{''.join(f'{count[name]:14}' for name in columns)}" for gpu, count in told.items()]
    return "\n".join(lines)


def signatures(spec, implementation):
    """Return how the entry points of an implementation take their arguments, as the driver is to know it."""
    way, found = spec.all_implementations[implementation], {}
    codes = {argument.name: DTYPES[argument.dtype].code for argument in spec.arguments if argument.role is None}
    codes |= {tensor_map.name: "128s" for tensor_map in way.tensor_maps}
    for launch in way.launches:
        order = launch.arguments or [argument.name for argument in spec.arguments]
        found[launch.function] = tuple(codes.get(name, "Q") for name in order)
    return found


def as_passed(spec, name, value):
    """Return a number as the kernel gets it, in its own type."""
    (dtype,) = (argument.dtype for argument in spec.arguments if argument.name == name)
    return struct.unpack("f", struct.pack("f", value))[0] if dtype == "float32" else value


@pytest.mark.parametrize("gpu", GPUS)
def test_calls_launch_what_the_tuner_would(bundle, gpus, cupy, cuda, load, monkeypatch, gpu):
    """With the grid, block, shared memory and numbers that tuning measured; nothing is compiled for it."""
    gpus[:] = [one for one in gpus if one["name"] == gpu]
    tuned, draw = load(bundle.folder), random.Random(gpu)
    for spec in (spec for spec in bundle.specs.values() if has_enough(gpu, spec)):
        for _ in range(8):
            problem = bundle.problem(draw, spec)
            known = {**dict(problem.dims), **dict(problem.specialisation)}
            inputs = [cupy.ndarray(a.shape, a.dtype) for a in arrays(spec, problem) if a.role != "out"]
            numbers = {one.name: one.value for one in scalars(spec, problem)}
            explained = tuned.explain(spec.name, **known)
            values = space.pairs(explained.configuration)
            chosen = Configuration(implementation=explained.implementation, values=values)
            for function, codes in signatures(spec, chosen.implementation).items():
                monkeypatch.setitem(fake_cuda.SIGNATURES, function, codes)
            del cuda.launches[:]
            keywords = {name: known[name] for name, one in spec.specialisations.items() if one.values is not None}
            given = [value for name, value in numbers.items() if name not in known]
            getattr(tuned, spec.name)(*inputs, *given, **keywords)
            wanted = [one for one in launches(spec, problem, chosen, facts_of(gpu)) if 0 not in one.grid]
            for launched, one in zip(cuda.launches, wanted, strict=True):
                assert (launched.function, launched.grid, launched.block) == (one.function, one.grid, one.block)
                assert launched.shared_bytes == one.shared_bytes
                passed = dict(zip(one.arguments, launched.arguments, strict=True))
                assert {name: passed[name] for name in numbers if name in passed} == {
                    name: as_passed(spec, name, value) for name, value in numbers.items() if name in passed
                }
    assert cupy.compiled == []
