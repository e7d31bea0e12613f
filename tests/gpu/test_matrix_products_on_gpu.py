"""hgemm and skinny_gemm, every implementation: right where tiles are cut off; hgemm with an epilogue of its own."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from pretuned.compile.pool import compile_all
from pretuned.compile.result import Binary
from pretuned.measure.requests import CompiledCandidate, PrepareRequest
from pretuned.render import source_of
from pretuned.spec import space
from pretuned.spec.loader import load_folder
from pretuned.spec.space import Problem

cupy = pytest.importorskip("cupy")

pytestmark = pytest.mark.gpu
TESTS = Path(__file__).parents[1]
TEMPLATES = TESTS.parent / "templates"
# One element and one tile more or less, fewer than a tile, a step of k that is cut off, and more tiles than SMs.
WHOLE = [(1, 8, 8), (63, 72, 1000), (129, 264, 520), (257, 1000, 2048), (2056, 4104, 200), (3000, 3080, 1032)]
ODD = [(1, 1, 1), (129, 255, 77), (513, 17, 129)]
FEW_ROWS = [
    (1, 64, 64),
    (5, 72, 1000),
    (17, 264, 520),
    (33, 1000, 2048),
    (64, 4104, 200),
    (70, 129, 8192),
    (8, 7000, 640),
]
FEW_ODD_ROWS = [(1, 1, 1), (1, 690, 5837), (2, 300, 1031), (3, 70, 517), (4, 129, 8200), (31, 255, 77), (64, 17, 129)]
SAMPLED = 12  # configurations of an implementation


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The bundled templates beside the kernel that extends them."""
    found = tmp_path_factory.mktemp("kernels")
    bundled = [path for names in ("hgemm*", "skinny_gemm*", "*.cuh.jinja") for path in TEMPLATES.glob(names)]
    for path in (*bundled, *(TESTS / "data" / "hgemm").iterdir()):
        if path.is_file() and path.name != "reference.py":
            shutil.copy(path, found)
    texts = [(one / "reference.py").read_text() for one in (TEMPLATES, TESTS / "data" / "hgemm")]
    (found / "reference.py").write_text("\n".join(texts))
    return found


@pytest.fixture(scope="module")
def bench():
    from pretuned.measure.bench import Bench  # noqa: PLC0415 - as below
    from pretuned.measure.cuda.machine import CudaMachine  # noqa: PLC0415 - takes the GPU

    return Bench(CudaMachine(0))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(
    ("kernel", "sizes"),
    [("hgemm", WHOLE + ODD), ("scaled", WHOLE + ODD), ("skinny_gemm", FEW_ROWS + FEW_ODD_ROWS)],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_configurations_are_right_where_tiles_are_cut_off(folder, bench, kernel, sizes, dtype):
    spec, specialisation = load_folder(folder)[kernel], (("T", dtype),)
    facts = bench.machine.facts
    problems = [Problem(specialisation=specialisation, dims=(("k", k), ("m", m), ("n", n))) for m, n, k in sizes]
    defaults = {problem: space.default_at(spec, problem) for problem in problems}
    plain = compiled(spec, specialisation, set(defaults.values()), f"sm_{facts.compute_capability}")
    for name, implementation in spec.all_implementations.items():
        of_hopper = "wgmma" in name
        if of_hopper and facts.compute_capability != 90:
            continue
        listed = [
            one
            for one in space.combinations(name, implementation)
            if any(space.legal(spec, problem, one, facts) for problem in problems)
        ]
        drawn = random.Random(name).sample(listed, min(len(listed), SAMPLED))
        entries = compiled(spec, specialisation, drawn, f"sm_{facts.compute_capability}{'a' * of_hopper}")
        for problem in problems:
            bench.prepare(PrepareRequest(spec=spec, problem=problem, default=plain[defaults[problem]]))
            legal = {one: entry for one, entry in entries.items() if space.legal(spec, problem, one, facts)}
            assert {one: bench.verify(entry).failure for one, entry in legal.items()} == dict.fromkeys(legal), problem


def compiled(spec, specialisation, configurations, architecture):
    sources = {one: source_of(spec, specialisation, one) for one in configurations}
    made = compile_all(list(sources.values()), architecture)
    binaries = {one: made[source.key] for one, source in sources.items()}
    assert all(isinstance(one, Binary) for one in binaries.values()), binaries
    return {one: CompiledCandidate.of(one, binary) for one, binary in binaries.items()}
