"""The bundled permute: every order and type, words of every width, planes of every form; bits come through."""

import random
from pathlib import Path

import pytest

from pretuned.spec.loader import load_folder

torch = pytest.importorskip("torch")
kernels = pytest.importorskip("pretuned.kernels", reason="pretuned is not installed, so nothing is baked")

pytestmark = pytest.mark.gpu
SPEC = load_folder(Path(__file__).parents[2] / "templates", {"permute"})["permute"]
DTYPES, ORDERS = SPEC.specialisations["T"].dtypes, SPEC.specialisations["order"].values
PLAIN = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64, 16: torch.complex128}  # that all can copy
SHAPES = [
    (0, 3, 2, 1),
    (3, 2, 0, 5),
    (2, 3, 5, 0),
    (1, 1, 1, 1),
    (1, 1, 1, 70_001),
    (70_001, 1, 1, 1),
    (1, 70_001, 1, 3),
    (3, 1, 70_001, 1),
    (2, 128, 8, 64),
    (3, 5, 7, 16),
    (2, 67, 31, 33),
    (5000, 3, 2, 4),
    (40, 3, 33, 34),
]


def bits(shape, dtype, shift):
    """Random bits, beginning so many elements behind an aligned address; NaN, infinities and subnormals among them."""
    count = shift + int(torch.tensor(shape).prod())
    whole = torch.randint(0, 256, (count * dtype.itemsize,), dtype=torch.uint8, device="cuda")
    whole = (whole % 2).bool() if dtype == torch.bool else whole.view(dtype)
    return whole[shift:].view(shape)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", DTYPES)
def test_every_bit_of_every_type_comes_through_in_every_order(name, order):
    dtype = getattr(torch, name, None)
    if dtype is None:
        pytest.skip(f"torch has no {name}")
    generator = random.Random(name + order)
    axes = ["abcd".index(axis) for axis in order]
    drawn = [tuple(generator.randrange(1, 50) for _ in range(4)) for _ in range(6)]
    for place, shape in enumerate([*SHAPES, *drawn]):
        x = bits(shape, dtype, place % 5)
        wanted = x.view(PLAIN[dtype.itemsize]).permute(axes).contiguous()
        out = bits([shape[axis] for axis in axes], dtype, place // 2 % 4)
        found = kernels.permute(x, order=order, out=out) if place % 2 else kernels.permute(x, order=order)
        assert found.dtype == dtype
        assert found.shape == wanted.shape
        assert torch.equal(found.reshape(-1).view(torch.uint8), wanted.reshape(-1).view(torch.uint8)), (shape, place)


@pytest.mark.parametrize("order", ORDERS)
def test_places_take_more_than_32_bits(order):
    shape = (2, 3, 70_001, 10_007) if order in ("acbd", "adcb") else (3, 2, 70_001, 10_007)  # 4.2 billion elements
    if torch.cuda.mem_get_info()[0] < 14 << 30:
        pytest.skip("needs 14 GiB of memory")
    x = torch.empty(shape, dtype=torch.uint8, device="cuda").random_()
    found = kernels.permute(x, order=order)
    assert torch.equal(found, x.permute(["abcd".index(axis) for axis in order]))
