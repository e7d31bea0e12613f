"""A race at other places: the same inputs in other memory, and results that are right there too."""

from __future__ import annotations

from pathlib import Path

import pytest

from pretuned.compile.pool import compile_all
from pretuned.measure.requests import CompiledCandidate, PrepareRequest, RaceRequest
from pretuned.render import source_of
from pretuned.spec import space
from pretuned.spec.loader import load
from pretuned.spec.space import all_problems

pytestmark = pytest.mark.gpu
TEMPLATES = Path(__file__).parents[2] / "templates"


def test_a_candidate_is_right_at_every_place():
    pytest.importorskip("cupy")
    from pretuned.measure.bench import Bench  # noqa: PLC0415 - imports CuPy
    from pretuned.measure.cuda.machine import CudaMachine  # noqa: PLC0415

    machine = CudaMachine(0)
    spec = load(TEMPLATES / "axpby.toml")
    problem, default = all_problems(spec)[2], space.default(spec)
    source = source_of(spec, problem.specialisation, default)
    binary = compile_all([source], f"sm_{machine.facts.compute_capability}", workers=1)[source.key]
    entry = CompiledCandidate.of(default, binary)
    bench = Bench(machine)
    bench.prepare(PrepareRequest(spec=spec, problem=problem, default=entry))
    layouts = []
    for place in (0, 1, 2, 1):
        raced = bench.race(
            RaceRequest(entries=(entry, entry), estimates_us=(5.0, 5.0), rounds=3, judge=True, place=place)
        )
        assert raced.failures == (None, None)
        assert all(time_us > 0 for times_us in raced.times_us for time_us in times_us)
        regions = [region for regions in bench.stage.workspace.sets for region in regions.values()]
        layouts.append([region.address - regions[0].address for region in regions])
    assert layouts[0] != layouts[1] != layouts[2]
    assert layouts[1] == layouts[3]
