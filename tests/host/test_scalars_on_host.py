"""Numbers by value from the spec to the table: executed for every type, tuned, baked, compiled by NVRTC."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from pretuned.bake.package import files
from pretuned.bake.plan import plan
from pretuned.build.contract import compare_specs
from pretuned.cli import main
from pretuned.compile.host import compiler
from pretuned.spec.loader import load_folder

KERNELS = Path(__file__).parents[1] / "data" / "scalars"
needs_compiler = pytest.mark.skipif(compiler() is None, reason="no C++ compiler here")


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    captured = capsys.readouterr()
    return ended.value.code, captured.out, captured.err


def of_types(folder, dtypes):
    """Have the spec in `folder` ship these types alone."""
    spec = folder / "blend.toml"
    text = re.sub(r"T = \{ dtypes = .*", f"T = {{ dtypes = {json.dumps(dtypes)} }}", spec.read_text())
    follows = {dtype: "float64" if dtype == "float64" else "float32" for dtype in dtypes}
    listed = ", ".join(f'{dtype} = "{wide}"' for dtype, wide in follows.items())
    spec.write_text(re.sub(r"Acc = .*", f'Acc = {{ from = "T", {listed} }}', text))


@needs_compiler
@pytest.mark.parametrize(
    "dtypes", [["bfloat16"], pytest.param(["float64", "float16", "float8_e5m2", "int32"], marks=pytest.mark.slow)]
)
def test_every_configuration_executes(project, capsys, dtypes):
    of_types(project / "kernels", dtypes)
    status, out, _ = run(capsys, "check", "--execute", "--json", "--budget", "none")
    assert (status, json.loads(out)["findings"]) == (0, [])


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize(
    ("right", "wrong"), [("i == last", "i == last - 1"), ("_cast<{{ Acc }}>(alpha)", "_cast<float>(1)")]
)
def test_a_wrong_number_is_found(project, capsys, right, wrong):
    of_types(project / "kernels", ["bfloat16", "int32"])
    template = project / "kernels" / "blend.cu.jinja"
    text = template.read_text()
    assert right in text
    template.write_text(text.replace(right, wrong))
    status, out, _ = run(capsys, "check", "--execute", "--json", "--budget", "none")
    assert (status, {finding["outcome"] for finding in json.loads(out)["findings"]}) == (8, {"wrong result"})


def test_what_the_kernel_takes_is_what_is_passed(tmp_path):
    """By NVRTC, with CUDA's own headers."""
    pytest.importorskip("cupy")
    folder = shutil.copytree(KERNELS, tmp_path / "kernels")
    of_types(folder, ["bfloat16"])
    found = compare_specs(load_folder(folder).values(), tmp_path / "cache")
    assert (found.faults, found.unknown) == ({}, {})
    template = folder / "blend.cu.jinja"
    template.write_text(template.read_text().replace("__nv_bfloat16 half,", "__half half,"))
    (fault,) = compare_specs(load_folder(folder).values(), tmp_path / "cache").faults.values()
    assert "blend takes 'half' as float16; the spec has bfloat16: write `" in fault.message


def test_the_generated_function_has_the_defaults():
    text = files(plan(load_folder(KERNELS), [], {}, cubins=False), {})["__init__.py"].decode()
    assert "    alpha: float,\n    last: int,\n    gain: float = 0.5,\n    half: float = 0.1,\n    *,\n" in text
    assert 'Scalar("alpha", "T"),\n' in text
