"""Structs by value from the spec to the table: executed, a wrong value found, compared by NVRTC."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from pretuned.build.contract import compare_specs
from pretuned.cli import main
from pretuned.compile.host import compiler
from pretuned.compile.nvrtc import compile_source
from pretuned.compile.result import Binary
from pretuned.measure import data
from pretuned.render import source_of
from pretuned.spec import space
from pretuned.spec.loader import load_folder
from pretuned.spec.space import all_problems
from specs import faults

KERNELS = Path(__file__).parents[1] / "data" / "structs"
needs_compiler = pytest.mark.skipif(compiler() is None, reason="no C++ compiler here")
PYPROJECT = """
[tool.hatch.build.hooks.pretuned]
module = "src/mypkg/tuned"
cubins = false
"""


def copied(folder, *edits):
    shutil.copytree(KERNELS, folder / "kernels")
    template = folder / "kernels" / "smooth.cu.jinja"
    text = template.read_text()
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    template.write_text(text)
    return folder / "kernels"


@needs_compiler
@pytest.mark.parametrize(
    ("edit", "status"),
    [((), 0), pytest.param((("p.weights[k]", "p.weights[2 - k]"),), 8, marks=pytest.mark.slow)],
)
def test_every_configuration_executes_and_a_swap_in_an_array_is_found(tmp_path, monkeypatch, capsys, edit, status):
    (tmp_path / "pyproject.toml").write_text(PYPROJECT)
    copied(tmp_path, *edit)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PRETUNED_CACHE_DIR", str(tmp_path / "cache"))
    with pytest.raises(SystemExit) as ended:
        main(["check", "--execute", "--json", "--budget", "none"])
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert (ended.value.code, {one["outcome"] for one in findings}) == (status, {"wrong result"} if status else set())


def test_the_reference_gets_the_fields_as_the_kernel_has_them(tmp_path):
    folder = copied(tmp_path)
    (folder / "reference.py").write_text("def smooth(x, p, **_):\n    assert False, vars(p)\n")
    spec = load_folder(folder)["smooth"]
    problem = all_problems(spec)[0]
    with pytest.raises(data.FunctionError) as caught:
        data.reference(spec, problem, data.inputs(spec, problem, 0))
    fields = {"clamp": True, "n": 1024, "bias": float(np.float16(0.1)), "weights": (0.25, 0.5, 0.125), "shift": 1}
    assert str(fields) in str(caught.value)


def test_what_the_kernel_takes_is_what_is_passed(tmp_path):
    """By NVRTC: the declaration's size is that of the packed struct, and another class of another size is refused."""
    pytest.importorskip("cupy")
    found = compare_specs(load_folder(KERNELS).values(), tmp_path / "cache")
    assert (found.faults, found.unknown) == ({}, {})
    edits = ("Params p, float", "float4 p4, float"), ("{{ Params }}", "{{ Params }}\n__device__ Params p;")
    folder = copied(tmp_path, *edits)
    (fault,) = compare_specs(load_folder(folder).values(), tmp_path / "cache").faults.values()
    assert "smooth takes 'p' as a class of 16 bytes; the spec has Params of 40 bytes: write `" in fault.message
    assert "float* y, const float* x, Params p, float scale)" in fault.message


def test_an_array_of_a_struct_stays_in_constant_memory():
    """Where parameters lie: PTX reads them there, by an index that is not known, and copies them nowhere."""
    pytest.importorskip("cupy")
    spec = load_folder(KERNELS)["smooth"]
    made = compile_source(source_of(spec, (), space.default(spec)), "compute_80")
    assert isinstance(made, Binary)
    assert b"ld.param.f32" in made.image
    assert b".local" not in made.image


def test_more_than_cuda_passes_is_refused(tmp_path):
    structs = '[structs]\nP = { k = "float64[511]" }\n\n[dims]'
    value = f"value = {{ k = [{', '.join(['1.0'] * 511)}] }}"
    edits = ('dtype = "float32", value = 2.0', f'dtype = "P", {value}'), ("[dims]", structs)
    template = '{{ P }}\nextern "C" __global__ void scale() {}  // {{ block }} {{ vec }}'
    (fault,) = faults(tmp_path, *edits, template=template)
    assert fault.endswith("arguments: take 4112 bytes together, and CUDA passes 4096; pass 'a' as an array")
