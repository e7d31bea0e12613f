"""The bundled transpose: every type, every shift of rows against words, many matrices at once; bits come through."""

import random
from pathlib import Path

import pytest

from pretuned.spec.loader import load_folder

torch = pytest.importorskip("torch")
kernels = pytest.importorskip("pretuned.kernels", reason="pretuned is not installed, so nothing is baked")

pytestmark = pytest.mark.gpu
DTYPES = load_folder(Path(__file__).parents[2] / "templates")["transpose"].specialisations["T"].dtypes
PLAIN = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64, 16: torch.complex128}  # that all can copy
SHAPES = [
    (0, 3),
    (3, 0),
    (1, 1),
    (1, 4097),
    (4097, 1),
    (3, 70_001),
    (70_001, 3),
    (257, 131),
    (2, 3, 64, 66),
    (40, 31, 33),
]


def bits(shape, dtype, shift):
    """Random bits, beginning so many elements behind an aligned address; NaN, infinities and subnormals among them."""
    count = shift + int(torch.tensor(shape).prod())
    whole = torch.randint(0, 256, (count * dtype.itemsize,), dtype=torch.uint8, device="cuda")
    whole = (whole % 2).bool() if dtype == torch.bool else whole.view(dtype)
    return whole[shift:].view(shape)


@pytest.mark.parametrize("name", DTYPES)
def test_every_bit_of_every_type_comes_through(name):
    dtype = getattr(torch, name, None)
    if dtype is None:
        pytest.skip(f"torch has no {name}")
    generator = random.Random(name)
    drawn = [(generator.randrange(1, 700), generator.randrange(1, 700)) for _ in range(6)]
    for place, shape in enumerate([*SHAPES, *drawn]):
        x = bits(shape, dtype, place % 5)
        wanted = x.view(PLAIN[dtype.itemsize]).mT.contiguous()
        out = bits((*shape[:-2], shape[-1], shape[-2]), dtype, place // 2 % 4)
        found = kernels.transpose(x, out=out) if place % 2 else kernels.transpose(x)
        assert found.dtype == dtype
        assert torch.equal(found.reshape(-1).view(torch.uint8), wanted.reshape(-1).view(torch.uint8)), (shape, place)
