"""Packages whose kernels are operators of PyTorch; it may be a build for CPUs, where references run them."""

import importlib
import itertools
import sys
from pathlib import Path

import pytest

from kernel_folders import bundled, specs_in

ROOT = Path(__file__).parents[2]
_numbers = itertools.count()


@pytest.fixture(scope="session")
def offered(tmp_path_factory):
    """What makes a package of specs, and returns it with the namespace of its operators."""
    cpu_operators = importlib.import_module("cpu_operators")  # which needs PyTorch
    folder = tmp_path_factory.mktemp("operators")
    sys.path.insert(0, str(folder))
    kept = []

    def offered(specs):
        name = f"operators{next(_numbers)}"
        cpu_operators.write(folder, name, specs, name)
        importlib.invalidate_caches()
        tuned = importlib.import_module(f"{name}.tuned")
        importlib.import_module(f"{name}.tuned.torch")
        kept.append(cpu_operators.run_on_the_cpu(tuned, specs, name))
        return tuned, name

    yield offered
    sys.path.remove(str(folder))


@pytest.fixture(scope="session")
def specs():
    """The gallery's and the bundled kernels; those whose names the gallery has too begin with `bundled_`."""
    own, others = specs_in(ROOT / "examples/gallery/kernels"), bundled()
    named = ((f"bundled_{name}" if name in own else name, spec) for name, spec in others.items())
    return own | {name: spec.model_copy(update={"name": name}) for name, spec in named}


@pytest.fixture(scope="session")
def gallery(offered, specs):
    """The gallery and the bundled kernels as one package, and its namespace."""
    return offered(specs)
