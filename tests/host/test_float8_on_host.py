"""float8_e4m3fn from the spec to the table: checked, executed, tuned and baked on the host, compiled by NVRTC."""

from __future__ import annotations

import json
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from host_tuning import ROWS_ALONE
from pretuned.cli import main
from pretuned.compile.host import compiler
from pretuned.compile.pool import compile_all
from pretuned.compile.result import Binary
from pretuned.measure import data
from pretuned.record import lock as lockfile
from pretuned.render import source_of
from pretuned.spec import space
from pretuned.spec.loader import load_folder
from pretuned.spec.tolerance import tolerances
from pretuned.tune import request
from specs import edited

KERNELS = Path(__file__).parents[1] / "data" / "float8"
needs_compiler = pytest.mark.skipif(compiler() is None, reason="no C++ compiler here")


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    captured = capsys.readouterr()
    return ended.value.code, captured.out, captured.err


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
def test_inputs_and_references_are_exact(dtype):
    spec = load_folder(KERNELS)["dequantise"]
    problem = next(space.problems(spec, (("T", dtype),)))
    stored = data.inputs(spec, problem, 0)
    assert stored["x"].block.dtype == np.uint8
    numbers = stored["x"].full.view(getattr(ml_dtypes, dtype)).astype(np.float64)
    assert np.isfinite(numbers).all()
    assert len(np.unique(numbers)) > 50
    assert np.array_equal(data.reference(spec, problem, stored)["y"], 0.5 * numbers)


def test_the_tolerance_is_one_rounding_and_less_than_a_neighbour():
    quantise = load_folder(KERNELS)["quantise"]
    rtol, atol = tolerances(quantise, quantise.outputs[0], ())
    assert (1 / 16 < rtol < 1 / 15, atol) == (True, None)


@needs_compiler
def test_every_configuration_executes_and_a_wrong_rounding_is_found(project, capsys):
    status, out, _ = run(capsys, "check", "--execute", "--json", "--budget", "none")
    assert (status, json.loads(out)["findings"]) == (0, [])
    template = project / "kernels" / "quantise.cu.jinja"
    template.write_text(edited(template.read_text(), ("scale * x[begin]", "1.125f * scale * x[begin]")))
    status, out, _ = run(capsys, "check", "--execute", "--json", "--budget", "none")
    assert (status, {finding["outcome"] for finding in json.loads(out)["findings"]}) == (8, {"wrong result"})


@needs_compiler
def test_it_is_tuned_and_baked_and_the_table_is_keyed_by_it(project, capsys, monkeypatch):
    monkeypatch.setattr(request, "TRIAL_PROFILE", ROWS_ALONE)
    assert run(capsys, "tune", "--on", "host")[0] == 0
    rows = lockfile.read(project / "pretuned.lock.host.json").rows
    assert ("T", "float8_e4m3fn") in {pair for row in rows for pair in row.specialisation}
    assert run(capsys, "bake", "--on", "host")[0] == 0
    assert '"T": "float8_e4m3fn"' in (project / "src" / "mypkg" / "tuned" / "__init__.py").read_text()


def test_nvrtc_compiles_it_in_software_and_in_hardware():
    pytest.importorskip("cupy")
    sources = {
        source_of(spec, problem.specialisation, configuration)
        for spec in load_folder(KERNELS).values()
        for problem in space.all_problems(spec)
        for configuration in space.configurations(spec, problem)
    }
    assert any("const __nv_fp8_e4m3* x" in source.text for source in sources)
    for architecture in ("sm_80", "sm_89", "sm_90"):  # from sm_89 on conversions are instructions
        assert all(isinstance(one, Binary) for one in compile_all(sources, architecture).values())
