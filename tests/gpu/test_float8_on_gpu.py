"""float8_e4m3fn on a GPU: every configuration verified and raced, conversions as on the host, calls with tensors."""

from __future__ import annotations

import shutil
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from pretuned.cli import main
from pretuned.errors import ExitCode
from pretuned.record import lock as lockfile

cupy = pytest.importorskip("cupy")

pytestmark = pytest.mark.gpu
KERNELS = Path(__file__).parents[1] / "data" / "float8"


def quantised(x, scale):
    """Return the codes that CUDA gives: rounded to nearest, and 448 at most."""
    return np.clip(np.float32(scale) * x, -448, 448).astype(ml_dtypes.float8_e4m3fn).view(np.uint8)


def values(n=4096):
    draw = np.random.default_rng(3)
    found = (draw.standard_normal(n) * np.exp2(draw.integers(-12, 12, n))).astype(np.float32)
    found[:4] = 0.0, -0.0, np.inf, -np.inf
    return found


def test_rows_are_measured_for_it(project):
    rows = lockfile.read(project / "pretuned.lock.json").rows
    assert {row.kernel for row in rows} == {"quantise", "dequantise"}
    assert ("T", "float8_e4m3fn") in {pair for row in rows for pair in row.specialisation}


def test_a_wrong_rounding_is_found(project, capsys, monkeypatch, tmp_path):
    folder = tmp_path / "wrong"
    shutil.copytree(project, folder, ignore=shutil.ignore_patterns("cache", "*.json", "float8_on_gpu"))
    template = folder / "kernels" / "quantise.cu.jinja"
    text = template.read_text()
    assert "scale * x[begin]" in text
    template.write_text(text.replace("scale * x[begin]", "1.125f * scale * x[begin]"))
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PRETUNED_CACHE_DIR", str(tmp_path / "cache"))
    with pytest.raises(SystemExit) as ended:
        main(["tune"])
    assert ended.value.code == ExitCode.TUNING
    assert "elements are off" in capsys.readouterr().err


def test_arrays_of_cupy_with_every_code(tuned):
    x = values()
    y = tuned.quantise(cupy.asarray(x), 3.0)
    assert y.dtype == ml_dtypes.float8_e4m3fn
    assert np.array_equal(cupy.asnumpy(y.view(cupy.uint8)), quantised(x, 3.0))
    codes = np.tile(np.arange(256, dtype=np.uint8), 16)
    wide = tuned.dequantise(cupy.asarray(codes).view(ml_dtypes.float8_e4m3fn), 0.5)
    wanted = codes.view(ml_dtypes.float8_e4m3fn).astype(np.float32) / 2
    assert np.array_equal(cupy.asnumpy(wide), wanted, equal_nan=True)


def test_tensors(tuned):
    torch = pytest.importorskip("torch")
    x = values()
    for _ in range(3):  # the later ones go by the fast path
        y = tuned.quantise(torch.from_numpy(x).cuda(), 3.0)
        assert y.dtype is torch.float8_e4m3fn
        assert np.array_equal(y.view(torch.uint8).cpu().numpy(), quantised(x, 3.0))
        finite = torch.isfinite(y.float())
        wide = tuned.dequantise(y, 0.5)
        assert bool(torch.equal(wide[finite], y.float()[finite] / 2))


def test_interfaces_cannot_name_it(tuned):
    array = cupy.zeros(4096, cupy.uint8).view(ml_dtypes.float8_e4m3fn)
    facts = array.__cuda_array_interface__

    class Other:
        __cuda_array_interface__ = facts

    with pytest.raises(TypeError, match="__cuda_array_interface__ cannot name this type"):
        tuned.dequantise(Other(), 0.5)
