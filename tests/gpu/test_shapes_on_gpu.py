"""Dims that are solved for, told by outputs or keywords; derived names, texts, floats: tuned and called on a GPU."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pretuned.record import lock as lockfile

cupy = pytest.importorskip("cupy")

pytestmark = pytest.mark.gpu
KERNELS = Path(__file__).parents[1] / "data" / "shapes"


def drawn(*shape, dtype="float32"):
    return cupy.asarray(np.random.default_rng(5).standard_normal(shape), dtype=dtype)


def close(found, wanted):
    return np.allclose(cupy.asnumpy(found), wanted, rtol=1e-4, atol=1e-5)


def test_rows_keep_texts_and_floats(project):
    rows = [row for row in lockfile.read(project / "pretuned.lock.json").rows if row.kernel == "arranged"]
    kinds = {(name, type(value)) for row in rows for one in row.choices for name, value in one.configuration.values}
    assert kinds == {("walk", str), ("load", str), ("share", float)}
    assert {dict(row.specialisation)["mode"] for row in rows} == {"NHD", "HND"}


def test_solved_dims_and_derived_names(tuned):
    for columns in (96, 95, 96, 95, 96, 95):  # from the beginning, by the fast path, by a packed block
        d = columns // 2
        x = drawn(40, columns)
        host = cupy.asnumpy(x)
        assert close(tuned.halves(x, drawn(40, columns % 2 + 1)), host[:, :d] + host[:, d : 2 * d])
        gate = host[:, :d]
        y = tuned.silu_and_mul(cupy.ascontiguousarray(x[:, : 2 * d]))
        assert close(y, gate / (1 + np.exp(-gate)) * host[:, d : 2 * d])


def test_a_keyword_decides_the_shapes_of_two_outputs(tuned):
    logits = drawn(33, 40)
    order = np.argsort(-cupy.asnumpy(logits), axis=1, kind="stable")
    for topk in (1, 5, 1, 5, 40, 1, 5):
        weights, ids = tuned.topk_softmax(logits, topk=topk)
        assert weights.shape == (33, topk)
        assert np.array_equal(cupy.asnumpy(ids), order[:, :topk])
    bound = tuned.topk_softmax.bind(logits, topk=3)
    assert np.array_equal(cupy.asnumpy(bound()[1]), order[:, :3])


def test_an_output_tells_the_size(tuned):
    for n in (1000, 17, 1000, 17, 1000, 17):
        y = cupy.empty(n, cupy.int32)
        tuned.ramp(5, y=y)
        assert np.array_equal(cupy.asnumpy(y), 5 + np.arange(n))


def test_texts_choose_what_is_computed(tuned):
    x = drawn(65, 33)
    for _ in range(3):
        assert close(tuned.arranged(x, mode="HND"), 2 * cupy.asnumpy(x).T)
        assert close(tuned.arranged(x, mode="NHD"), 2 * cupy.asnumpy(x))
