"""Sizes that nobody measured, on a GPU: a kernel is tuned and certified, and its calls run what `explain` says."""

from __future__ import annotations

import importlib
import json
import logging
import random

import numpy as np
import pytest

from pretuned.cli import main
from pretuned.record import lock as lockfile

cupy = pytest.importorskip("cupy")

pytestmark = pytest.mark.gpu
PACKAGE = "selections_on_gpu.tuned"
PYPROJECT = """
[tool.hatch.build.hooks.pretuned]
module = "selections_on_gpu/tuned"
"""
SPEC = """\
format = 1
summary = "out = a * x."
arguments = [
  { name = "out", role = "out", dtype = "float32", shape = ["n"] },
  { name = "x", role = "in", dtype = "float32", shape = ["n"] },
  { name = "a", dtype = "float32", value = 1.5 },
  { name = "n", dtype = "int64" },
]
[dims]
n = { sizes = [4096, 131072, 4194304] }
[space]
block = [64, 256, 1024]
vec = [1, 2, 4]
[default]
block = 64
vec = 1
[constraints]
where = ["n % vec == 0"]
[[launches]]
function = "scaled"
grid = ["ceil_div(n, block * vec)"]
block = ["block"]
[verify]
reference = "reference.py:scaled"
"""
TEMPLATE = """\
constexpr int block = {{ block }}, vec = {{ vec }};

struct alignas(4 * vec) Pack {
    float at[vec];
};

extern "C" __global__ void scaled(float* out, const float* x, float a, long long n) {
    const long long first = (static_cast<long long>(blockIdx.x) * block + threadIdx.x) * vec;
    if (first < n) {  // whole packs, since vec divides n
        Pack pack = *reinterpret_cast<const Pack*>(x + first);
        for (int k = 0; k < vec; ++k) pack.at[k] *= a;
        *reinterpret_cast<Pack*>(out + first) = pack;
    }
}
"""
REFERENCE = "def scaled(x, a, **_):\n    return a * x\n"


def run(command, capsys=None):
    with pytest.raises(SystemExit) as ended:
        main([command])
    assert ended.value.code == 0
    return "" if capsys is None else capsys.readouterr().err


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A project that is tuned and baked on this GPU."""
    folder = tmp_path_factory.mktemp("selections")
    for name, text in {
        "pyproject.toml": PYPROJECT,
        "kernels/scaled.toml": SPEC,
        "kernels/scaled.cu.jinja": TEMPLATE,
        "kernels/reference.py": REFERENCE,
        "selections_on_gpu/__init__.py": "",
    }.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("PRETUNED_CACHE_DIR", str(folder / "cache"))
        patch.syspath_prepend(str(folder))
        run("tune")
        run("bake")
        yield folder


def test_the_selection_is_certified_at_problems_that_have_no_row(project):
    lock = lockfile.read(project / "pretuned.lock.json")
    (rule,) = lock.selections
    assert {dict(row.problem.dims)["n"] for row in lock.rows} == {4096, 131072, 4194304}
    assert rule.certificate.seed == 1
    assert rule.certificate.inside.problems >= 16
    assert rule.certificate.inside.mean < 0.25, "a rule that is no better than chance loses more"
    assert rule.choices[-1].configuration.values == (("block", 64), ("vec", 1))


def test_real_calls_at_unseen_sizes_run_what_explain_says_and_are_right(project, caplog):
    assert (project / "selections_on_gpu/tuned/pretuned.json").is_file()
    tuned, draw = importlib.import_module(PACKAGE), random.Random(14)
    sizes = sorted({round(4096 * 1024 ** draw.random()) + draw.choice([0, 1, 2, 3]) for _ in range(60)})[:40]
    assert len(sizes) == 40
    chosen = set()
    for n in sizes:
        x = cupy.random.default_rng(n).standard_normal(n, dtype="float32")
        said = tuned.explain("scaled", n=n)
        caplog.clear()
        with caplog.at_level(logging.DEBUG, logger=PACKAGE):
            found = tuned.scaled(x, 2.5)
        (record,) = caplog.records
        name, _device, ran, _why = record.args
        listed = ", ".join(f"{parameter}={value}" for parameter, value in said.configuration.items())
        assert (name, ran) == ("scaled", listed), n
        assert said.predicted_us is not None
        assert n % said.configuration["vec"] == 0
        np.testing.assert_allclose(cupy.asnumpy(found), 2.5 * cupy.asnumpy(x), rtol=1e-6)
        chosen.add(ran)
    assert chosen


def test_a_second_build_measures_nothing(project, capsys):
    package = project / "selections_on_gpu/tuned/__init__.py"
    lock, baked = (project / "pretuned.lock.json").read_bytes(), package.read_bytes()
    assert "every row of pretuned.lock.json is fresh; nothing to tune" in run("bake", capsys)
    assert package.read_bytes() == baked
    if any(row.get("disturbed") for row in json.loads(lock)["rows"]):
        pytest.skip("a row was measured under noise, and such a one is measured again")
    (project / "pretuned.lock.json").unlink()
    with pytest.raises(SystemExit) as ended:
        main(["tune", "--json"])
    assert ended.value.code == 0
    assert json.loads(capsys.readouterr().out)["launched"] == 0
    assert (project / "pretuned.lock.json").read_bytes() == lock
