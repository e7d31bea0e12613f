"""Complex numbers from the spec to the table: drawn, executed, judged, compared by NVRTC, baked."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from pretuned.build.contract import compare_specs
from pretuned.cli import main
from pretuned.compile.host import compiler
from pretuned.measure import data
from pretuned.spec import space
from pretuned.spec.loader import load_folder

KERNELS = Path(__file__).parents[1] / "data" / "complex"
needs_compiler = pytest.mark.skipif(compiler() is None, reason="no C++ compiler here")


def executed(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["check", "--execute", "--json", "--budget", "none"])
    return ended.value.code, json.loads(capsys.readouterr().out)["findings"]


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_both_parts_are_drawn_and_references_are_complex128(dtype):
    spec = load_folder(KERNELS)["rotate"]
    problem = next(space.problems(spec, (("T", dtype),)))
    stored = data.inputs(spec, problem, 0)
    x, z = stored["x"].full, stored["z"].full
    assert x.dtype == z.dtype == np.dtype(dtype)
    for part in (x.real, x.imag):
        assert 1 <= part.min() < 1.1
        assert 1.9 < part.max() <= 2
    assert abs(np.corrcoef(z.real, z.imag)[0, 1]) < 0.2
    wanted = data.reference(spec, problem, stored)
    assert {name: array.dtype for name, array in wanted.items()} == {"y": np.complex128, "size": np.float64}


@needs_compiler
def test_every_configuration_executes(project, capsys):
    assert executed(capsys) == (0, [])


@needs_compiler
@pytest.mark.slow
def test_a_wrong_sign_is_found(project, capsys):
    template = project / "kernels" / "rotate.cu.jinja"
    template.write_text(template.read_text().replace("y[i] = turned;", "y[i] = cuConj{{ f }}(turned);"))
    status, findings = executed(capsys)
    assert (status, {finding["outcome"] for finding in findings}) == (8, {"wrong result"})
    assert "j instead of " in str(findings)


def test_what_the_kernel_takes_is_what_is_passed(tmp_path):
    """By NVRTC, with CUDA's own cuComplex.h: a kernel of reals is refused."""
    pytest.importorskip("cupy")
    assert compare_specs(load_folder(KERNELS).values(), tmp_path / "cache").unknown == {}
    shutil.copytree(KERNELS, tmp_path / "kernels")
    template = tmp_path / "kernels" / "rotate.cu.jinja"
    text = template.read_text().replace("const {{ T }}* x,", "const {{ R }}* w,").replace("(i >= n)", "(i >= n || !w)")
    template.write_text(text.replace("x[i]", "z[i]"))
    (fault,) = compare_specs(load_folder(tmp_path / "kernels").values(), tmp_path / "cache").faults.values()
    assert "rotate takes 'x' as *float" in fault.message
