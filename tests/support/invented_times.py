"""An invented GPU: what configurations of the bundled kernels take on it, by waves, tails and bytes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from pretuned.compile.result import Resources
from pretuned.measure.launch import arrays, launches
from pretuned.outcome import LaunchFailed
from pretuned.spec import space
from pretuned.spec.loader import load
from pretuned.spec.model import KernelSpec
from pretuned.spec.space import Configuration, DeviceFacts, Pairs, Problem

TEMPLATES = Path(__file__).parents[2] / "templates"
OWN = Path(__file__).parents[1] / "data" / "invented"
FACTS = DeviceFacts(sm_count=132, compute_capability=90, shared_bytes=232448, l2_bytes=50 << 20)


@cache
def bundled(name: str) -> KernelSpec:
    """Return the spec of a bundled kernel, or what stands in its place here, so that kernels may change."""
    own = OWN / f"{name}.toml"
    return load(own if own.exists() else TEMPLATES / own.name)


def resources(_configuration: Configuration) -> dict[str, Resources]:
    """Return no entry points: what a block takes is then what its threads and launches say."""
    return {}


def time_us(spec: KernelSpec, problem: Problem, configuration: Configuration) -> float:
    """Return what a call takes: memory at 3 TB/s, and for each wave of blocks the work of one; inf where it fails."""
    if not space.legal(spec, problem, configuration, FACTS):
        return math.inf
    launched = launches(spec, problem, configuration, FACTS)
    if isinstance(launched, LaunchFailed):
        return math.inf
    total = 1.0 + sum(array.nbytes for array in arrays(spec, problem)) / 3e6
    work = math.prod(int(size) for name, size in problem.dims if name in ("k", "cols"))
    for launch in launched:
        blocks, threads = math.prod(launch.grid), math.prod(launch.block)
        at_once = FACTS.sm_count * min(32, 2048 // (32 * math.ceil(threads / 32)))
        total += 0.002 * work * math.ceil(blocks / at_once) * (1 + threads / 256) + 0.05 * math.ceil(blocks / 132)
    last = int(problem.dims[-1][1])
    return total + (0.8 if last % 8 else 0.0)


def times(
    spec: KernelSpec, problems: Iterable[Problem], configurations: Iterable[Configuration]
) -> dict[Problem, dict[Configuration, float]]:
    """Return what each configuration takes at each problem, failures left out."""
    listed = list(configurations)
    found = {}
    for problem in problems:
        measured = {configuration: time_us(spec, problem, configuration) for configuration in listed}
        found[problem] = {one: us for one, us in measured.items() if math.isfinite(us)}
    return found


def configurations(spec: KernelSpec, specialisation: Pairs) -> list[Configuration]:
    """Return all configurations that are legal at some problem of a spec that `bundled` gave, the default first."""
    assert spec is bundled(spec.name)
    return list(_listed(spec.name, specialisation))


@cache
def _listed(name: str, specialisation: Pairs) -> tuple[Configuration, ...]:
    spec = bundled(name)
    found = {
        one: None
        for problem in space.problems(spec, specialisation)
        for one in space.configurations(spec, problem, FACTS)
    }
    return tuple(found)
