"""sgemm's template for tensor cores keeps its sums in registers, and takes an epilogue from one that extends it."""

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

TEMPLATES = Path(__file__).parents[2] / "templates"
H100 = DeviceFacts(sm_count=132, compute_capability=90, shared_bytes=232_448, l2_bytes=50 << 20)
FEW_TILES = Problem(specialisation=(), dims=(("k", 4096), ("m", 64), ("n", 64)))
EXTENDED = """\
{% extends "sgemm_tensor.cu.jinja" %}
{% block epilogue %}
struct Epilogue {
    float alpha;
    __device__ float operator()(float sum, long long row, long long column) const { return alpha * sum; }
};
{% endblock %}
{% block parameters %}, float alpha{% endblock %}
{% block epilogue_values %}alpha{% endblock %}
"""


def legal(spec, device):
    listed = space.combinations("tensor", spec.all_implementations["tensor"])
    return [one for one in listed if space.legal(spec, FEW_TILES, one, device)]


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
def test_sums_stay_in_registers(architecture):
    spec = bundled()["sgemm"]
    listed = [one for one in legal(spec, H100) if architecture == "sm_90" or dict(one.values)["split"] == 1]
    sources = {one: source_of(spec, (), one) for one in random.Random(architecture).sample(listed, 4)}
    made = compile_all(list(sources.values()), architecture)
    found = {one: made[source.key] for one, source in sources.items()}
    assert all(isinstance(one, Binary) for one in found.values()), found
    spilt = {one: binary.resources["sgemm"].spill_bytes for one, binary in found.items()}
    assert max(spilt.values()) < 64, spilt  # a few addresses, for a third block of an SM


def test_an_epilogue_goes_into_it(tmp_path):
    for path in (*TEMPLATES.glob("*.jinja"), TEMPLATES / "reference.py"):
        shutil.copy(path, tmp_path)
    text = (TEMPLATES / "sgemm.toml").read_text()
    argument = '{ name = "k", dtype = "int64" },\n  { name = "alpha", dtype = "float32", value = 0.75 },'
    text = text.replace('{ name = "k", dtype = "int64" },', argument).replace("sgemm_tensor.cu", "scaled.cu")
    (tmp_path / "scaled.toml").write_text(text)
    (tmp_path / "scaled.cu.jinja").write_text(EXTENDED)
    spec = load_folder(tmp_path, {"scaled"})["scaled"]
    source = source_of(spec, (), legal(spec, H100)[0])
    assert "alpha * sum" in source.text
    assert isinstance(compile_all([source], "sm_90")[source.key], Binary)
