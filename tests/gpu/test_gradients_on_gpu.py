"""examples/rms-norm on a GPU: its gradient is the one that PyTorch computes, alone, compiled, and while training."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pretuned.cli import main

torch = pytest.importorskip("torch")

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore")]  # torch.compile warns of much of its own
EXAMPLE = Path(__file__).parents[2] / "examples" / "rms-norm"
TOLERANCES = {torch.float64: 1e-12, torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}
EPS = 1e-6


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The example with its defaults, without a tuning."""
    folder = tmp_path_factory.mktemp("rms-norm") / "project"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__", "tuned"))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("PRETUNED_CACHE_DIR", str(folder / "cache"))
        patch.setenv("PRETUNED_MODE", "off")
        with pytest.raises(SystemExit) as ended:
            main(["bake"])
        assert ended.value.code == 0
    return folder


@pytest.fixture(scope="module")
def tuned(built):
    """Its package, with the operators of PyTorch."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(built / "src"))
        importlib.import_module("layers.tuned.torch")
        yield importlib.import_module("layers.tuned")


def drawn(dtype, *shape):
    return torch.randn(shape, device="cuda").to(dtype)


def inputs(dtype, *shape):
    return drawn(dtype, *shape).requires_grad_(), drawn(dtype, shape[-1]).requires_grad_()


def right(x, weight, grad):
    """Return the gradients by PyTorch's own operations in float64."""
    x, weight = (one.detach().double().requires_grad_() for one in (x, weight))
    y = torch.nn.functional.rms_norm(x, weight.shape, weight, EPS)
    return torch.autograd.grad(y, (x, weight), grad.double())


def test_differences_agree(tuned):
    x, weight = inputs(torch.float64, 2, 3, 10)
    assert torch.autograd.gradcheck(lambda x, weight: tuned.rms_norm(x, weight, EPS)[0], (x, weight))


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("shape", [(512, 1024), (3, 7, 333), (5, 2), (0, 64)], ids=str)
def test_gradients_are_pytorchs_and_the_same_each_time(tuned, dtype, shape):
    x, weight = inputs(dtype, *shape)
    grad = drawn(dtype, *shape)
    found, again = (torch.autograd.grad(tuned.rms_norm(x, weight, EPS)[0], (x, weight), grad) for _ in range(2))
    assert all(map(torch.equal, found, again))
    for one, wanted in zip(found, right(x, weight, grad), strict=True):
        scale = wanted.square().mean().sqrt() if wanted.numel() else 1.0
        torch.testing.assert_close(one.double(), wanted, rtol=TOLERANCES[dtype], atol=float(TOLERANCES[dtype] * scale))


def test_a_gradient_that_is_expanded(tuned):
    """A sum's has strides of 0, which no kernel takes."""
    x, weight = inputs(torch.float32, 5, 64)
    found = torch.autograd.grad(tuned.rms_norm(x, weight, EPS)[0].sum(), (x, weight))
    for one, wanted in zip(found, right(x, weight, torch.ones_like(x)), strict=True):
        torch.testing.assert_close(one.double(), wanted, rtol=1e-5, atol=1e-5)


def test_compiled_gradients_are_those_of_eager_calls(tuned):
    def loss(x, weight):
        return tuned.rms_norm(torch.sin(x), weight, EPS)[0].square().mean()

    compiled = torch.compile(loss, fullgraph=True, dynamic=True, backend="aot_eager")  # train.py has Inductor
    for rows in (4, 9, 31):
        x, weight = inputs(torch.float32, rows, 256)
        own = torch.autograd.grad(compiled(x, weight), (x, weight))
        for one, other in zip(own, torch.autograd.grad(loss(x, weight), (x, weight)), strict=True):
            torch.testing.assert_close(one, other)


@pytest.mark.parametrize("program", ["train.py", "train_jax.py"])
def test_it_trains(built, program):
    """As PyTorch's norm does, and JAX's operations."""
    path = os.pathsep.join(filter(None, [str(built / "src"), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    command = [sys.executable, program]
    ended = subprocess.run(command, cwd=built, env=environment, capture_output=True, text=True, check=False)
    if program == "train_jax.py" and ("No module named 'jax'" in ended.stderr or "needs an NVIDIA GPU" in ended.stderr):
        pytest.skip("JAX has no GPU here")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "largest difference" in ended.stdout
