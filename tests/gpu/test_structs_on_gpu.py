"""Structs by value on a GPU: tuned, which verifies it, and called by every path."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

cupy = pytest.importorskip("cupy")

pytestmark = pytest.mark.gpu
KERNELS = Path(__file__).parents[1] / "data" / "structs"


class Params(NamedTuple):
    clamp: bool
    n: int
    bias: float
    weights: tuple[float, float, float]
    shift: int


def test_every_field_arrives(tuned):
    x = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    given = cupy.asarray(x)
    for clamp, bias, weights, shift in ((False, 0.5, (1.0, 2.0, 4.0), 3), (True, -1.0, (0.25, -1.0, 0.5), 100)) * 4:
        p = Params(clamp, 1000, bias, weights, shift)
        padded = np.pad(x, shift)
        wanted = bias + sum(weight * padded[k * shift : k * shift + 1000] for k, weight in enumerate(weights))
        wanted = 2.0 * (np.maximum(wanted, 0) if clamp else wanted)
        for form in (p, p._asdict()):
            assert np.allclose(cupy.asnumpy(tuned.smooth(given, form, 2.0)), wanted, rtol=1e-4, atol=1e-4)
        assert np.allclose(cupy.asnumpy(tuned.smooth.bind(given, p, 2.0)()), wanted, rtol=1e-4, atol=1e-4)
