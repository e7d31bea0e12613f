"""gemv and skinny_gemm, as installed, at sizes and addresses that nobody tuned, and with values that are not finite."""

from __future__ import annotations

import random
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from pretuned.spec.loader import load_folder
from pretuned.spec.tolerance import tolerances

pytestmark = pytest.mark.gpu
SPECS = load_folder(Path(__file__).parents[2] / "templates", {"gemv", "skinny_gemm"})
DTYPES = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
CASES = [(name, dtype) for name, spec in SPECS.items() for dtype in spec.specialisations["T"].dtypes]


def shapes(generator):
    """Nothing, one element, fewer than a chunk; then odd and even sizes up to some millions of elements: m, n, k."""
    yield from ((1, 0, 5), (2, 3, 0), (1, 1, 1), (3, 2, 7), (5, 9, 17), (70, 33, 129))
    for round_to in (1, 1, 1, 8, 8, 64):
        n, k = (max(1, int(2 ** generator.uniform(5, 11)) // round_to) * round_to for _ in range(2))
        yield generator.randrange(1, 65), n, k


@pytest.fixture(scope="module")
def kernels():
    pytest.importorskip("cupy")
    return pytest.importorskip("pretuned.kernels", reason="pretuned is not installed, so nothing is baked")


def call(kernels, name, x, weight, shift):
    """Return x @ weight.T in float64, by arrays that begin `shift` elements behind an aligned address."""
    import cupy  # noqa: PLC0415 - on a machine with a GPU

    def placed(host):
        whole = cupy.asarray(np.concatenate([np.zeros(shift, host.dtype), host.ravel()]))
        return whole[shift:].reshape(host.shape)

    if name == "gemv":
        return cupy.asnumpy(kernels.gemv(placed(weight), placed(x[0]))).astype(np.float64)[None]
    return cupy.asnumpy(kernels.skinny_gemm(placed(x), placed(weight))).astype(np.float64)


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_products_of_any_shape_at_any_address(kernels, name, dtype):
    draw = np.random.default_rng(5)
    rtol, _ = tolerances(SPECS[name], SPECS[name].outputs[0], (("T", dtype),))
    for place, (m, n, k) in enumerate(shapes(random.Random(name))):
        rows = 1 if name == "gemv" else m
        x, weight = (draw.standard_normal(shape).astype(DTYPES[dtype]) for shape in ((rows, k), (n, k)))
        wanted = x.astype(np.float64) @ weight.astype(np.float64).T
        found = call(kernels, name, x, weight, place % 3)
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, rtol=rtol, atol=rtol * max(1e-30, np.sqrt(k)))


@pytest.mark.parametrize("k", [200, 201])
@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_what_is_not_finite_stays_in_its_row(kernels, name, dtype, k):
    x, weight = np.ones((3, k), DTYPES[dtype]), np.ones((37, k), DTYPES[dtype])
    x[1], weight[::2], weight[7, -1] = np.inf, np.nan, np.inf
    rows = 1 if name == "gemv" else 3
    wanted = x[:rows].astype(np.float64) @ weight.astype(np.float64).T
    np.testing.assert_array_equal(call(kernels, name, x[:rows], weight, 0), wanted)
