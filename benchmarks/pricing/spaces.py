"""Recorded spaces as kernels that a tuner can be asked for, at the prices that are wanted."""

from __future__ import annotations

import json
import math
import random
import shutil
import statistics
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from pretuned.exchange import kernel_tuner, t1, t4
from pretuned.exchange.files import FormatError
from pretuned.spec.loader import load
from pretuned.spec.space import all_problems
from sizes import matrix

ROOT = Path(__file__).parents[2]
HUB = ROOT / "tests" / "data" / "benchmark_hub"
STREAM = ROOT / "tests" / "data" / "h100"
HGEMM = ROOT / "benchmarks" / "hochgraf" / "hgemm.toml"
BRUTE_FORCE = ROOT / "benchmarks" / "results" / "hochgraf_gemm_brute_force.json"
COMPILE_S = 0.3
SLOW_LAUNCH_US, SLOW_COMPILE_S = 28_000.0, 3.0
HOPELESS_S, HOPELESS = 90.0, 0.01  # sources that take a minute and more, and their share
TEMPLATE = 'extern "C" __global__ void recorded(float* y) {{ constexpr int values[] = {{ {values} }}; }}\n'


@dataclass(frozen=True)
class PricedSpace:
    """A spec with what its configurations take at a problem, in microseconds; inf for what cannot be launched."""

    name: str
    spec: object
    problems: tuple
    times: object  # (configuration, problem) -> microseconds
    compile_s: float = COMPILE_S
    hopeless: float = 0.0  # the share of sources that take HOPELESS_S
    reference_s: float = 0.05
    scale: float = 1.0
    median_us: float = 0.0
    best: dict = field(default_factory=dict)

    def time_us(self, configuration, problem):
        return self.scale * self.times(configuration, problem)

    def seconds_to_compile(self, source):
        """A source's seconds on one worker: scattered, alike in every run, and a few of slow ones hopeless."""
        if "PRETUNED_TAKES(" in source.text:
            return 0.0
        drawn = random.Random(source.key)
        if drawn.random() < self.hopeless:
            return HOPELESS_S
        return self.compile_s * math.exp(drawn.gauss(-0.08, 0.4))

    def best_us(self, problem):
        return self.scale * self.best[problem]

    def slow(self, time_us):
        """The same space with launches that take `time_us`, the median of all."""
        name = f"{self.name}, {time_us / 1e3:g} ms a launch"
        return replace(self, name=name, scale=time_us / self.median_us)

    def hard(self, seconds, hopeless=0.0):
        """The same space with sources that take `seconds` to compile, and some that take HOPELESS_S."""
        name = f"{self.name}, {seconds:g} s a compile" + (f", {hopeless:.0%} {HOPELESS_S:g} s" if hopeless else "")
        return replace(self, name=name, compile_s=seconds, hopeless=hopeless)


def recorded(name, file, conditions, folder):
    """A T4 recording or a cache of Kernel Tuner, and the T1 file that has its conditions."""
    try:
        results = t4.read(file)
    except FormatError:
        results = kernel_tuner.read(file)
    space = t1.read(conditions)
    first = {}
    for values, time_us in zip(results.configurations, results.times_us, strict=True):
        first.setdefault(values, time_us)
    named = {tuple(sorted(zip(results.names, values, strict=True))): us for values, us in first.items()}
    said = declared(conditions, results.names)
    values = dict(zip(results.names, results.values, strict=True))
    default = {one: next(value for value in values[one] if value == said[one]) for one in values}  # a flag is 1 in T1
    if not math.isfinite(named.get(tuple(sorted(default.items())), math.inf)):
        order = sorted((us, key) for key, us in named.items() if math.isfinite(us))
        default = dict(order[len(order) // 2][1])
    folder = folder / name
    folder.mkdir(parents=True)
    write(folder, name, results, space, default)
    spec = load(folder / f"{name}.toml")
    (problem,) = all_problems(spec)
    best = min(us for us in named.values())
    return PricedSpace(
        name=name,
        spec=spec,
        problems=(problem,),
        times=lambda configuration, _problem: named.get(tuple(configuration.values), math.inf),
        median_us=statistics.median(us for us in named.values() if math.isfinite(us)),
        best={problem: best},
    )


def declared(conditions, names):
    """The defaults of a T1 file."""
    entries = json.loads(conditions.read_text(encoding="utf-8"))["ConfigurationSpace"]["TuningParameters"]
    return {entry["Name"]: entry["Default"] for entry in entries if entry["Name"] in names}


def write(folder, name, results, space, default):
    where = [str(condition) for condition in space.conditions]
    lines = [
        "format = 1",
        "arguments = [",
        '  { name = "y", role = "out", dtype = "float32", shape = [4194304] },',
        "]",
        "[space]",
        *(f"{one} = {json.dumps(list(values))}" for one, values in zip(results.names, results.values, strict=True)),
        "[default]",
        *(f"{one} = {json.dumps(value)}" for one, value in default.items()),
        "[[launches]]",
        'function = "recorded"',
        'grid = ["16384"]',
        "block = [256]",
        "[constraints]",
        f"where = {json.dumps(where)}",
        "[verify]",
        'reference = "reference.py:recorded"',
    ]
    (folder / f"{name}.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    values = ", ".join("{{ " + one + " }}" for one in results.names)
    (folder / f"{name}.cu.jinja").write_text(TEMPLATE.format(values=values), encoding="utf-8")
    (folder / "reference.py").write_text("def recorded(**_):\n    raise NotImplementedError\n", encoding="utf-8")


def hochgraf():
    """Hochgraf's GEMM: 106 configurations at 64 inputs."""
    spec = load(HGEMM)
    problems = tuple(all_problems(spec))
    found = json.loads(BRUTE_FORCE.read_text(encoding="utf-8"))["time_us"]
    known = {problem: found[str(problem)] for problem in problems}

    def times(configuration, problem):
        near = problem if problem in known else nearest(problem, problems)
        return known[near].get(str(configuration), math.inf) * volume(problem) / volume(near)

    best = {problem: min(known[problem].values()) for problem in problems}
    return PricedSpace(name="hochgraf_gemm", spec=spec, problems=problems, times=times, best=best)


def stood_in(spec, folder):
    """The spec with templates that only tell configurations apart: a recording outlasts its kernel's template."""
    folder.mkdir(parents=True)
    for one in spec.all_implementations.values():
        if one.call is None:
            values = ", ".join("{{ " + name + " }}" for name in sorted(one.parameters))
            functions = "".join(TEMPLATE.format(values=values).replace("recorded", f.function) for f in one.launches)
            (folder / one.template).write_text(functions, encoding="utf-8")
    for file in spec.folder.glob("*.py"):  # its reference
        shutil.copy(file, folder)
    return spec.model_copy(update={"folder": folder})


def of_matrix(recording, folder):
    """A bundled kernel's recording: its tuned sizes are asked for, other recorded ones are known."""
    tuned = tuple(recording.problems[at] for at in recording.places("tuned"))
    place = {problem: at for at, problem in enumerate(recording.problems)}
    columns = {configuration: index for index, configuration in enumerate(recording.configurations)}
    table, spec = recording.times, stood_in(recording.spec, folder / str(recording))

    def times(configuration, problem):
        column = columns.get(configuration)
        if column is None:
            return math.inf
        near = problem if problem in place else nearest(problem, place)
        found = table[place[near], column]
        if math.isnan(found):
            found = np.nanmedian(table[place[near]])
        return float(found) * volume(problem) / volume(near)

    best = {problem: float(np.nanmin(table[place[problem]])) for problem in tuned}
    return PricedSpace(name=str(recording), spec=spec, problems=tuned, times=times, best=best)


_nearest = {}


def nearest(problem, others):
    """The problem of `others` that lies nearest, by octaves."""
    key = problem, id(others)
    if key not in _nearest:
        _nearest[key] = min(others, key=lambda other: math.dist(logs(problem), logs(other)))
    return _nearest[key]


def logs(problem):
    return [math.log2(max(1, int(size))) for _, size in problem.dims]


def volume(problem):
    return math.prod(max(1, int(size)) for _, size in problem.dims)


def large(folder):
    """The large spaces that are recorded whole, and two of them made slow."""
    hub = {name: next(HUB.glob(f"{name}_*_T4.json.gz")) for name in ("convolution", "dedispersion")}
    convolution, dedispersion = (recorded(name, file, HUB / f"{name}_T1.json", folder) for name, file in hub.items())
    stream = recorded("stream", STREAM / "stream_T4.json.gz", STREAM / "stream_T1.json", folder)
    return [
        convolution,
        replace(dedispersion.slow(1_000.0), name="dedispersion"),
        stream,
        dedispersion.slow(SLOW_LAUNCH_US),
        convolution.hard(SLOW_COMPILE_S),
        convolution.hard(SLOW_COMPILE_S, HOPELESS),
    ]


def bundled(folder):
    """The recorded matrices of bundled kernels."""
    return [of_matrix(one, folder) for one in matrix.recorded(matrix.RECORDED) if one.kernel != "hgemm"]
