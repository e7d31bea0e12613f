"""What a spec says of arrays beside dtype and shape, on a GPU: verified, tuned, and called."""

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
KERNELS = Path(__file__).parents[1] / "data" / "arrays"


def verdicts(name):
    """Return what the GPU says of each configuration of a kernel at its first problem: None, or the message."""
    from pretuned.measure.cuda.machine import CudaMachine  # noqa: PLC0415 - imports CuPy

    machine, spec = CudaMachine(0), load(KERNELS / f"{name}.toml")
    architecture = f"sm_{machine.facts.compute_capability}"
    return failures(machine, spec, space.all_problems(spec)[0], architecture, NVRTC)


def random(*shape, dtype="float32"):
    return cupy.random.default_rng(5).standard_normal(shape, dtype="float64").astype(dtype)


def test_what_is_wrong_in_place_alone_is_found():
    for configuration, message in verdicts("add_scaled").items():
        if dict(configuration.values)["late"]:
            assert message.endswith("; with out in place of x, and right without")
        else:
            assert message is None


def test_an_output_is_written_in_place_of_an_input(tuned):
    for _ in range(4):
        x, z = random(4096), random(4096)
        wanted = cupy.asnumpy(x) + 2.0 * cupy.asnumpy(z)
        assert tuned.add_scaled(x, z, 2.0, out=x) is x
        np.testing.assert_allclose(cupy.asnumpy(x), wanted, rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="has to be all of x"):
        tuned.add_scaled(x[:-1], z[:-1], 2.0, out=x[1:])


def test_what_takes_more_alignment_than_is_demanded_is_found():
    right, wrong = verdicts("double_pairs").values()
    assert right is None
    assert wrong.endswith("x at a multiple of 8 bytes and no more, and right without")


def test_an_address_is_what_the_kernel_demands(tuned):
    x = random(1002)
    for _ in range(3):
        np.testing.assert_array_equal(cupy.asnumpy(tuned.double_pairs(x[2:])), 2 * cupy.asnumpy(x[2:]))
        with pytest.raises(ValueError, match="found an address 4 bytes beyond a multiple"):
            tuned.double_pairs(x[1:1001])


def test_an_optional_array_is_added_where_it_is_given(tuned):
    x, bias = random(16, 256), random(256)
    for _ in range(4):
        np.testing.assert_array_equal(cupy.asnumpy(tuned.shift(x)), cupy.asnumpy(x))
        np.testing.assert_allclose(cupy.asnumpy(tuned.shift(x, bias=bias)), cupy.asnumpy(x + bias), rtol=1e-6)
    bound = tuned.shift.bind(x, y=cupy.empty_like(x))
    np.testing.assert_array_equal(cupy.asnumpy(bound()), cupy.asnumpy(x))


def test_an_array_that_is_changed_in_place_may_be_left_out(tuned):
    x, total = random(4096), cupy.zeros(4096, "float32")
    for turn in range(1, 5):
        for given in (total, None):
            y, returned = tuned.accumulated(x, total=given)
            assert returned is given
            np.testing.assert_array_equal(cupy.asnumpy(y), 2 * cupy.asnumpy(x))
        np.testing.assert_allclose(cupy.asnumpy(total), turn * cupy.asnumpy(x), rtol=1e-6)
    y, returned = tuned.accumulated.bind(x, total=total)()
    assert returned is total
    np.testing.assert_allclose(cupy.asnumpy(total), 5 * cupy.asnumpy(x), rtol=1e-6)


def test_leading_dims_may_be_of_any_number(tuned):
    w = random(32)
    for shape in ((64, 32), (4, 16, 32), (32,), (2, 2, 3, 32), (0, 5, 32), (4, 16, 32), (32,)):
        x = random(*shape)
        y, sums = tuned.row_sums(x, w)
        assert (y.shape, sums.shape) == (shape, shape[:-1])
        np.testing.assert_allclose(cupy.asnumpy(y), cupy.asnumpy(x + w), rtol=1e-6)
        np.testing.assert_allclose(cupy.asnumpy(sums), cupy.asnumpy(x).sum(-1), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["apart", "planes"])
def test_what_is_wrong_where_rows_lie_apart_alone_is_found(name):
    for configuration, message in verdicts(name).items():
        if dict(configuration.values)["wrong"] in {0, "nothing"}:
            assert message is None
        else:
            assert message.endswith(", and right without")


def test_rows_may_lie_apart(tuned):
    whole, written = random(24, 200), cupy.full((24, 200), 7, "float32")
    for begin in (0, 1, 4, 0):
        for columns in (64, 63):
            x, y = whole[:, begin : begin + columns], written[:, begin : begin + columns]
            for _ in range(3):
                np.testing.assert_allclose(cupy.asnumpy(tuned.apart(x, 2.0)), 2 * cupy.asnumpy(x), rtol=1e-6)
                written.fill(7)
                assert tuned.apart(x, 2.0, y=y) is y
                np.testing.assert_allclose(cupy.asnumpy(y), 2 * cupy.asnumpy(x), rtol=1e-6)
                assert int((written != 7).sum()) <= 24 * columns
    cube = random(4, 6, 128)
    for x in (cube[:, :, :64], cube[:, 1, :64], cube[2, :, 32:96], cube[:1, 2:3, :64]):
        np.testing.assert_allclose(cupy.asnumpy(tuned.apart(x, 3.0)), 3 * cupy.asnumpy(x), rtol=1e-6)
    for x in (cube[:, 1:3, :64], cube[:, :, ::2], cube[:, :, ::-1], cube.transpose(0, 2, 1), cube[:, ::-1]):
        with pytest.raises(ValueError, match="x: expected"):
            tuned.apart(x, 3.0)


def test_rows_of_tensors_may_lie_apart(tuned):
    torch = pytest.importorskip("torch")
    whole = torch.randn(24, 200, device="cuda")
    for _ in range(4):
        for begin in (0, 1, 4):
            x = whole[:, begin : begin + 64]
            torch.testing.assert_close(tuned.apart(x, 2.0), 2 * x)
            y = torch.zeros_like(whole)
            tuned.apart(x, 2.0, y=y[:, 100:164])
            torch.testing.assert_close(y[:, 100:164], 2 * x)
            assert not y[:, :100].any()
            assert not y[:, 164:].any()
        with pytest.raises(ValueError, match="x: expected x_stride of at least 64 elements"):
            tuned.apart(whole[:1, :64].expand(24, 64), 2.0)
