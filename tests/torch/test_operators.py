"""The kernels as operators: what PyTorch's own checks say of each, and torch.compile without breaks."""

from pathlib import Path

import pytest

import cpu_operators
from kernel_folders import bundled, specs_in
from pretuned.spec import space

torch = pytest.importorskip("torch")
ROOT = Path(__file__).parents[2]
OWN, BUNDLED = specs_in(ROOT / "examples/gallery/kernels"), bundled()
NAMES = [*OWN, *(f"bundled_{name}" if name in OWN else name for name in BUNDLED)]


@pytest.mark.parametrize("name", NAMES)
def test_every_kernel_passes_what_pytorch_checks(name, gallery, specs):
    spec = specs[name]
    specialisation = next(iter(space.specialisations(spec)))
    cpu_operators.check(gallery[1], spec, specialisation, "cpu")
