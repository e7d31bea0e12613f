"""The kernels as operators: what PyTorch's own checks say of each, and torch.compile without breaks."""

from pathlib import Path

import pytest

import cpu_operators
from pretuned.spec import space
from pretuned.spec.loader import load_folder

torch = pytest.importorskip("torch")
ROOT = Path(__file__).parents[2]
OWN, BUNDLED = load_folder(ROOT / "examples/gallery/kernels"), load_folder(ROOT / "templates")
NAMES = [*OWN, *(f"bundled_{name}" if name in OWN else name for name in BUNDLED)]


@pytest.mark.parametrize("name", NAMES)
def test_every_kernel_passes_what_pytorch_checks(name, gallery, specs):
    spec = specs[name]
    specialisation = next(iter(space.specialisations(spec)))
    cpu_operators.check(gallery[1], spec, specialisation, "cpu")
