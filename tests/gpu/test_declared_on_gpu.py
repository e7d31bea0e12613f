"""Kernels that Python declares, with templates that it writes: tuned, checked and baked by the public names, called."""

from __future__ import annotations

import importlib
from math import factorial

import numpy as np
import pytest

import pretuned
from documents import blocks

cupy = pytest.importorskip("cupy")

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """The kernels of the guide's page, at one size."""
    folder = tmp_path_factory.mktemp("polynomials")
    (folder / "kernels").mkdir()
    (folder / "polynomials").mkdir()
    (folder / "polynomials" / "__init__.py").write_text("")
    (module, *_) = [block.text for block in blocks("docs/guide/python.md") if block.language == "python"]
    (folder / "kernels" / "declared.py").write_text(module.replace("[1 << 16, 1 << 22]", "[1 << 16]"))
    (folder / "pyproject.toml").write_text(
        '[tool.hatch.build.hooks.pretuned]\nmodule = "polynomials/tuned"\ndeclarations = "kernels/declared.py"\n'
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PRETUNED_CACHE_DIR", str(folder / "cache"))
        yield folder


def test_what_is_tuned_is_fresh_and_what_is_baked_computes(project, monkeypatch, capfd):
    tuned = pretuned.tune(project, on="cuda")
    assert (tuned.tuned.skipped, tuned.left) == ((), 0)  # for want of memory, or of time
    assert {row.kernel for row in tuned.rows} == {"exp_2", "exp_4", "exp_8"}
    assert pretuned.check(project, on="cuda").fresh
    (package,) = pretuned.bake(project, on="cuda")
    assert package.folder == project / "polynomials" / "tuned"
    assert capfd.readouterr().out == ""
    monkeypatch.syspath_prepend(str(project))
    baked = importlib.import_module("polynomials.tuned")
    x = np.random.default_rng(3).uniform(-1, 1, 5000).astype("float32")
    for degree in (2, 4, 8):
        wanted = sum(x.astype("float64") ** k / factorial(k) for k in range(degree + 1))
        found = getattr(baked, f"exp_{degree}")(cupy.asarray(x))
        assert np.allclose(cupy.asnumpy(found), wanted, rtol=1e-5)
