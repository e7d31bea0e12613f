"""Numbers by value on a GPU: of the arrays' type, of bfloat16, with defaults; by every path of a call."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

cupy = pytest.importorskip("cupy")

pytestmark = pytest.mark.gpu
KERNELS = Path(__file__).parents[1] / "data" / "scalars"


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int32"])
def test_a_number_arrives_as_the_arrays_type(tuned, dtype):
    x = cupy.arange(1024, dtype=dtype) % 50
    for alpha in (3, 3, 3, 2, 2, 4):  # from the beginning, by the fast path, by a packed block
        y = tuned.blend(x, alpha, 7, 1.0, 2.0)
        wanted = alpha * (np.arange(1024) % 50).astype(dtype)
        wanted[7] += 3
        assert np.array_equal(cupy.asnumpy(y), wanted)
    bound = tuned.blend.bind(x, 5, 7, 1.0, 2.0)
    assert int(bound()[1]) == 5


def test_a_default_arrives(tuned):
    x = cupy.zeros(1024, cupy.float32)
    for _ in range(3):
        assert float(tuned.blend(x, 1.0, 7)[7]) == 0.5 + 0.10009765625


def test_bfloat16_of_torch(tuned):
    torch = pytest.importorskip("torch")
    x = torch.ones(1024, dtype=torch.bfloat16, device="cuda")
    for _ in range(3):
        assert float(tuned.blend(x, 1.00390625, 7)[0]) == 1.0  # midway between two: the even one
        assert float(tuned.blend(x, 1.01171875, 7)[0]) == 1.015625
    with pytest.raises(ValueError, match="alpha: expected bfloat16"):
        tuned.blend(x, 1e39, 7)
