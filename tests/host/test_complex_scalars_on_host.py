"""Complex numbers by value from the spec to the table: read from TOML and Python, executed, found wrong, compiled."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from pretuned.bake.package import files
from pretuned.bake.plan import plan
from pretuned.build.contract import compare_specs
from pretuned.cli import main
from pretuned.compile.host import compiler
from pretuned.render import verification_key
from pretuned.spec.loader import load, load_folder
from pretuned.spec.scalars import tuning_values

KERNELS = Path(__file__).parents[1] / "data" / "complex_scalars"
needs_compiler = pytest.mark.skipif(compiler() is None, reason="no C++ compiler here")


def executed(capsys, *options):
    with pytest.raises(SystemExit) as ended:
        main(["check", "--execute", "--json", "--budget", "none", *options])
    return ended.value.code, json.loads(capsys.readouterr().out)["findings"]


@needs_compiler
@pytest.mark.parametrize("kernel", ["spin", pytest.param("stretch", marks=pytest.mark.slow)])
def test_every_configuration_executes(project, capsys, kernel):
    assert executed(capsys, "--kernel", kernel) == (0, [])


@needs_compiler
@pytest.mark.parametrize(("right", "wrong"), [("+ shift.y", ""), ("- alpha.y * x[i].y", "+ alpha.y * x[i].y")])
@pytest.mark.slow
def test_a_part_that_is_left_out_or_a_sign_is_found(project, capsys, right, wrong):
    template = project / "kernels" / "spin.cu.jinja"
    text = template.read_text()
    assert right in text
    template.write_text(text.replace(right, wrong))
    status, findings = executed(capsys, "--kernel", "spin")
    assert (status, {finding["outcome"] for finding in findings}) == (8, {"wrong result"})


def edited(folder, old, new, name="spin"):
    shutil.copytree(KERNELS, folder, dirs_exist_ok=True)
    text = (folder / f"{name}.toml").read_text()
    assert text.count(old) == 1
    (folder / f"{name}.toml").write_text(text.replace(old, new))
    return load(folder / f"{name}.toml")


def test_two_of_one_type_are_passed_apart(tmp_path):
    spec = edited(tmp_path, 'dtype = "complex128", default = [1.0, -2.0]', 'dtype = "T", default = [0.5, -1.25]')
    assert tuning_values(spec) == {"alpha": 0.5 - 1.25j, "shift": 0.75 * (0.5 - 1.25j)}


def test_what_is_passed_is_part_of_what_a_result_is_judged_by(tmp_path):
    keys = {verification_key(load(KERNELS / "spin.toml"))}
    for i, value in enumerate(("[0.5, 1.25]", "0.5", "[0.5, 0.0]")):
        keys.add(verification_key(edited(tmp_path / str(i), "[0.5, -1.25]", value)))
    assert len(keys) == 4


def test_what_the_kernel_takes_is_what_is_passed(tmp_path):
    """By NVRTC, with CUDA's own headers."""
    pytest.importorskip("cupy")
    folder = shutil.copytree(KERNELS, tmp_path / "kernels")
    found = compare_specs([load(folder / "spin.toml")], tmp_path / "cache")
    assert (found.faults, found.unknown) == ({}, {})
    template = folder / "spin.cu.jinja"
    template.write_text(template.read_text().replace("double2 shift", "float2 shift"))
    (fault,) = compare_specs([load(folder / "spin.toml")], tmp_path / "cache").faults.values()
    assert "spin takes 'shift' as a class of 8 bytes; the spec has complex128: write `" in fault.message


def test_infinite_defaults_stand_in_the_generated_function(tmp_path):
    edited(tmp_path, "default = [1.0, -2.0]", "value = [1.0, -2.0], default = [inf, -0.0]")
    text = files(plan(load_folder(tmp_path), [], {}, cubins=False), {})["__init__.py"].decode()
    assert '    alpha: complex,\n    shift: complex = complex(float("inf"), -0.0),\n    *,\n' in text
