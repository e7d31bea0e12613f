"""hgemm's templates keep their sums in registers, and take an epilogue from a template that extends them."""

import itertools
import random
import shutil
from pathlib import Path

import pytest

from kernel_folders import bundled
from pretuned.compile.pool import compile_all
from pretuned.compile.result import Binary
from pretuned.render import source_of
from pretuned.spec import space
from pretuned.spec.loader import load_folder
from pretuned.spec.space import DeviceFacts, Problem

nvrtc = pytest.importorskip("cupy.cuda").nvrtc

TESTS = Path(__file__).parents[1]
TEMPLATES = TESTS.parent / "templates"
H100 = DeviceFacts(sm_count=132, compute_capability=90, shared_bytes=232_448, l2_bytes=50 << 20)
A100 = DeviceFacts(sm_count=108, compute_capability=80, shared_bytes=166_912, l2_bytes=40 << 20)
RTX_4090 = DeviceFacts(sm_count=128, compute_capability=89, shared_bytes=101_376, l2_bytes=72 << 20)
HALF = (("T", "float16"),)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["wgmma", "wgmma_split", "wgmma_plain"])
def test_sums_stay_in_registers(name):
    spec = bundled()["hgemm"]
    problem = Problem(specialisation=HALF, dims=(("k", 4096), ("m", 256), ("n", 256)))
    listed = space.combinations(name, spec.all_implementations[name])
    legal = [one for one in listed if space.legal(spec, problem, one, H100)]
    sources = {one: source_of(spec, HALF, one) for one in random.Random(name).sample(legal, 4)}
    made = compile_all(list(sources.values()), "sm_90a")
    found = {one: made[source.key] for one, source in sources.items()}
    assert all(isinstance(one, Binary) for one in found.values()), found
    assert {one: binary.resources["hgemm"].spill_bytes for one, binary in found.items()} == dict.fromkeys(found, 0)


@pytest.mark.parametrize("device", [A100, RTX_4090, H100], ids=["A100", "RTX 4090", "H100"])
def test_a_default_is_legal_everywhere_and_keeps_the_device_busy(device):
    spec = bundled()["hgemm"]
    sizes = (1, 8, 77, 256, 1023, 4096)
    for m, n, k in itertools.product(sizes, repeat=3):
        problem = Problem(specialisation=HALF, dims=(("k", k), ("m", m), ("n", n)))
        default = space.default_at(spec, problem)
        assert space.legal(spec, problem, default, device), (problem, default)
        bm, bn = dict(default.values)["bm"], dict(default.values)["bn"]
        assert -(-m // bm) * -(-n // bn) >= 100 or (bm, bn) == (32, 32), "another tile would give more blocks"


def test_an_epilogue_goes_into_all(tmp_path):
    for path in (*TEMPLATES.glob("hgemm_*"), *TEMPLATES.glob("*.cuh.jinja"), *(TESTS / "data" / "hgemm").iterdir()):
        shutil.copy(path, tmp_path)
    spec = load_folder(tmp_path)["scaled"]
    for name, architecture in (("mma", "sm_80"), ("wgmma", "sm_90a"), ("wgmma_plain", "sm_90a")):
        one = next(space.combinations(name, spec.all_implementations[name]))
        source = source_of(spec, HALF, one)
        assert "alpha * sum" in source.text
        made = compile_all([source], architecture)[source.key]
        assert isinstance(made, Binary), made
