"""sgemm on tensor cores is float32: at tiles that are cut off, and for infinities, NaN and the smallest numbers."""

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

pytestmark = pytest.mark.gpu
TEMPLATES = Path(__file__).parents[2] / "templates"
SIZES = [(1, 1, 1), (130, 131, 37), (2479, 975, 19), (405, 3492, 79), (257, 260, 130), (33, 70, 3001), (513, 515, 514)]
SAMPLED = 12
INPUTS = {
    "normal": "",
    "special": """
    a, b = generator.standard_normal((m, k)), generator.standard_normal((k, n))
    # The large one is rounded to infinity by TF32; the small ones are just above what loses digits (see its page).
    a[:, k - 1], b[k - 1, n - 1] = 2.0**-110, 3.4e38
    a[0, 0], a[m // 2, k // 2], b[k // 2, 0] = np.inf, np.nan, -np.inf
    return {"a": a, "b": b}
""",
    "tiny": """
    return {"a": generator.standard_normal((m, k)) * 2.0**-125, "b": generator.standard_normal((k, n))}
""",
}


def spec_with(folder, inputs):
    """The bundled kernel, its inputs drawn by a function of that body."""
    for path in TEMPLATES.glob("*.jinja"):
        shutil.copy(path, folder)
    text = (TEMPLATES / "sgemm.toml").read_text()
    if inputs:
        text = text.replace("[verify]", '[verify]\ninputs = "reference.py:inputs"')
        inputs = f"\n\ndef inputs(generator, m, n, k, **_):{inputs}"
    (folder / "sgemm.toml").write_text(text)
    (folder / "reference.py").write_text((TEMPLATES / "reference.py").read_text() + inputs)
    return load_folder(folder, {"sgemm"})["sgemm"]


@pytest.mark.parametrize("kind", INPUTS)
def test_configurations_are_right(tmp_path, kind):
    from pretuned.measure.bench import Bench  # noqa: PLC0415 - as below
    from pretuned.measure.cuda.machine import CudaMachine  # noqa: PLC0415 - takes the GPU

    bench, spec = Bench(CudaMachine(0)), spec_with(tmp_path, INPUTS[kind])
    facts, first = bench.machine.facts, space.default(spec)
    problems = [Problem(specialisation=(), dims=(("k", k), ("m", m), ("n", n))) for m, n, k in SIZES]
    drawn = [first]
    for name in ("tensor", "shallow"):
        listed = [
            one
            for one in space.combinations(name, spec.all_implementations[name])
            if any(space.legal(spec, problem, one, facts) for problem in problems)
        ]
        drawn += random.Random(kind).sample(listed, min(len(listed), SAMPLED))
    sources = {one: source_of(spec, (), one) for one in drawn}
    made = compile_all(list(sources.values()), f"sm_{facts.compute_capability}")
    binaries = {one: made[source.key] for one, source in sources.items()}
    assert all(isinstance(one, Binary) for one in binaries.values()), binaries
    entries = {one: CompiledCandidate.of(one, binary) for one, binary in binaries.items()}
    for problem in problems:
        bench.prepare(PrepareRequest(spec=spec, problem=problem, default=entries[first]))
        legal = {one: entry for one, entry in entries.items() if space.legal(spec, problem, one, facts)}
        assert {one: bench.verify(entry).failure for one, entry in legal.items()} == dict.fromkeys(legal), problem
