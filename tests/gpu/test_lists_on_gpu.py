"""Lists of arrays on a GPU: verified, tuned, and called with arrays of CuPy and PyTorch, also in a graph."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from judged import failures
from pretuned.compile.nvrtc import NVRTC
from pretuned.spec import space
from pretuned.spec.loader import load

cupy = pytest.importorskip("cupy")

pytestmark = pytest.mark.gpu
KERNELS = Path(__file__).parents[1] / "data" / "lists"


def random(*shape, dtype="float32"):
    if 0 in shape:
        return cupy.zeros(shape, dtype)
    return cupy.random.default_rng(sum(shape)).standard_normal(shape, dtype="float64").astype(dtype)


def test_what_takes_one_array_for_another_is_found():
    from pretuned.measure.cuda.machine import CudaMachine  # noqa: PLC0415 - imports CuPy

    machine, spec = CudaMachine(0), load(KERNELS / "grouped.toml")
    architecture = f"sm_{machine.facts.compute_capability}"
    found = failures(machine, spec, space.all_problems(spec)[0], architecture, NVRTC)
    wrong = {dict(configuration.values)["wrong"]: message for configuration, message in found.items()}
    assert wrong["no"] is None
    assert wrong["even"] is not None
    assert "elements are off" in wrong["first"]
    assert wrong["beyond"] is not None


@pytest.mark.parametrize("rows", [[5, 0, 70], [64], list(range(8)), [9, 9]])
def test_products_of_different_sizes(tuned, rows):
    a = [random(m, 24, dtype="float16") for m in rows]
    b = [(1 + place) * random(24, 40, dtype="float16") for place in range(len(rows))]
    for _ in range(3):
        for one, x, y in zip(tuned.grouped(a, b), a, b, strict=True):
            wanted = cupy.asnumpy(x).astype(float) @ cupy.asnumpy(y).astype(float)
            np.testing.assert_allclose(cupy.asnumpy(one), wanted, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_arrays_are_joined(tuned, dtype):
    x = [(100 * random(m, 12)).astype(dtype) for m in (3, 0, 100, 1, *range(28))]
    assert (tuned.concatenate(x) == cupy.concatenate(x)).all()


def test_a_step_of_many_parameters_in_a_graph(tuned):
    sizes = [1, 5000, 1024, 0, *range(1, 45)]
    p, g, squares = [random(n) for n in sizes], [random(n) for n in sizes], [random(1) for _ in sizes]
    before, stream = [cupy.asnumpy(one) for one in p], cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.Device().synchronize()
    tuned.prepare()
    with stream:
        step = tuned.descend.bind(p, g, 0.25, squares=squares)
        stream.begin_capture()
        step()
        graph = stream.end_capture()
        for _ in range(2):
            graph.launch(stream)
    stream.synchronize()
    for one, old, gradient, square in zip(p, before, g, squares, strict=True):
        gradient = cupy.asnumpy(gradient)  # noqa: PLW2901 - the same on the host
        np.testing.assert_allclose(cupy.asnumpy(one), old - 0.5 * gradient, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(cupy.asnumpy(square), [(gradient**2).sum()], rtol=1e-4)


def test_tensors(tuned):
    torch = pytest.importorskip("torch")
    a = [torch.randn(m, 16, device="cuda", dtype=torch.float16) for m in (7, 0, 33)]
    b = [torch.randn(16, 8, device="cuda", dtype=torch.float16) for _ in a]
    for one, x, y in zip(tuned.grouped(a, b), a, b, strict=True):
        assert torch.allclose(one.float(), x.float() @ y.float(), rtol=1e-2, atol=1e-2)
