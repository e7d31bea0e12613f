"""Kernels with the kernels of their gradients under PyTorch's autograd, run on the CPU by their references."""

import importlib
from pathlib import Path

import pytest

from pretuned.spec.loader import load_folder
from specs import SCALE, edited, write

torch = pytest.importorskip("torch")
KERNELS = Path(__file__).parents[2] / "examples" / "rms-norm" / "kernels"
EPS = 1e-3


@pytest.fixture(scope="session")
def package(offered):
    """The package of examples/rms-norm."""
    return offered(load_folder(KERNELS))[0]


@pytest.fixture
def tuned(package, monkeypatch):
    """Its functions, which go by the operators, as there is no GPU."""
    by_operators(package, monkeypatch)
    return package


def by_operators(package, monkeypatch):
    """Have eager calls go by the operators too."""
    eager = importlib.import_module(f"{package.__name__}._runtime.torch_ops.eager")
    monkeypatch.setattr(eager, "_special", lambda _tensor: True)


def inputs(*shape, dtype=torch.float64):
    torch.manual_seed(0)
    return torch.randn(shape, dtype=dtype).requires_grad_(), torch.randn(shape[-1], dtype=dtype).requires_grad_()


@pytest.mark.parametrize("shape", [(3, 5), (2, 3, 4), (0, 5), (1, 1)], ids=str)
def test_differences_agree(tuned, shape):
    assert torch.autograd.gradcheck(lambda x, weight: tuned.rms_norm(x, weight, EPS)[0], inputs(*shape))


def test_one_input_alone_may_require_a_gradient(tuned):
    x, weight = inputs(3, 5)
    for given, wanted in (((x, weight.detach()), x), ((x.detach(), weight), weight)):
        (found,) = torch.autograd.grad(tuned.rms_norm(*given, EPS)[0].sum(), wanted)
        (right,) = torch.autograd.grad(torch.nn.functional.rms_norm(given[0], (5,), given[1], EPS).sum(), wanted)
        torch.testing.assert_close(found, right)


def test_what_no_gradient_comes_back_through_is_a_constant(tuned):
    x, weight = inputs(3, 5)
    y, rstd = tuned.rms_norm(x, weight, EPS)
    assert (y.requires_grad, rstd.requires_grad) == (True, False)


def test_nothing_is_recorded_without_need(tuned):
    x, weight = inputs(3, 5)
    with torch.no_grad():
        assert not tuned.rms_norm(x, weight, EPS)[0].requires_grad
    assert not tuned.rms_norm(x.detach(), weight.detach(), EPS)[0].requires_grad


def test_the_gradient_of_a_gradient_is_refused_where_it_is_asked_for(tuned):
    x, weight = inputs(3, 5)
    y, _ = tuned.rms_norm(x, weight, EPS)
    (grad,) = torch.autograd.grad(y.square().sum(), x, create_graph=True)
    with pytest.raises(
        ValueError, match=r"rms_norm_backward: is differentiated, and there is no kernel of its gradient"
    ):
        grad.sum().backward()


def test_outputs_that_a_call_brings_are_refused(tuned):
    x, weight = inputs(3, 5)
    with pytest.raises(ValueError, match="y: an output cannot be given where an input requires a gradient; leave it"):
        tuned.rms_norm(x, weight, EPS, y=torch.empty_like(x))


def test_a_gradient_that_is_expanded_is_made_contiguous(tuned):
    x, weight = inputs(3, 5)
    y, _ = tuned.rms_norm(x, weight, EPS)
    (found,) = torch.autograd.grad(y, weight, torch.ones(1, 1, dtype=y.dtype).expand(3, 5))
    (right,) = torch.autograd.grad(tuned.rms_norm(x, weight, EPS)[0], weight, torch.ones_like(y))
    torch.testing.assert_close(found, right)


def test_transforms_of_functions_go_through(tuned):
    x, weight = inputs(3, 5)
    found = torch.func.grad(lambda x: tuned.rms_norm(x, weight.detach(), EPS)[0].square().sum())(x.detach())
    (right,) = torch.autograd.grad(tuned.rms_norm(x, weight, EPS)[0].square().sum(), x)
    torch.testing.assert_close(found, right)


def test_a_module_with_parameters_is_exported(tuned):
    class Norm(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(6, dtype=torch.float64))

        def forward(self, x):
            return tuned.rms_norm(x, self.weight, EPS)[0]

    x = torch.randn(4, 6, dtype=torch.float64)
    program = torch.export.export(Norm(), (x,), dynamic_shapes=({0: torch.export.Dim("rows", min=2)},))
    for rows in (4, 7):
        x = torch.randn(rows, 6, dtype=torch.float64)
        torch.testing.assert_close(program.module()(x), Norm()(x))


REFERENCES = """\
def scale(x, a, **_):
    return a * x


def shift(x, bias, **_):
    return x if bias is None else x + bias


def shift_backward(grad_y, **_):
    return {"grad_x": grad_y, "grad_bias": grad_y.sum(axis=0)}
"""
SHIFT = """\
format = 1
arguments = [
  { name = "y", role = "out", dtype = "float64", shape = ["rows", "cols"] },
  { name = "x", role = "in", dtype = "float64", shape = ["rows", "cols"] },
  { name = "bias", role = "in", dtype = "float64", shape = ["cols"], optional = true },
]
dims = { rows = { sizes = [8] }, cols = { sizes = [8] } }
launches = [{ function = "shift", grid = ["rows"], block = [32] }]
verify = { reference = "reference.py:shift" }
backward = { kernel = "shift_backward" }
template = '''
extern "C" __global__ void shift(double* y, const double* x, const double* bias) {}
'''
"""
SHIFT_BACKWARD = """\
format = 1
arguments = [
  { name = "grad_x", role = "out", dtype = "float64", shape = ["rows", "cols"] },
  { name = "grad_bias", role = "out", dtype = "float64", shape = ["cols"] },
  { name = "grad_y", role = "in", dtype = "float64", shape = ["rows", "cols"] },
]
dims = { rows = { sizes = [8] }, cols = { sizes = [8] } }
launches = [{ function = "shift_backward", grid = ["rows"], block = [32] }]
verify = { reference = "reference.py:shift_backward" }
template = '''
extern "C" __global__ void shift_backward(double* grad_x, double* grad_bias, const double* grad_y) {}
'''
"""


@pytest.fixture(scope="module")
def others(offered, tmp_path_factory):
    """A kernel that is that of its own gradient, and one with an input that may be left out."""
    folder = tmp_path_factory.mktemp("others")
    own = '[backward]\nkernel = "scale"\nnames = { x = "grad_y", y = "grad_x" }\n\n[verify]'
    types = ('T = { dtypes = ["float32", "float16"] }', 'T = { dtypes = ["float64"] }')
    write(folder, edited(SCALE, ("[verify]", own), types))
    (folder / "reference.py").write_text(REFERENCES)
    (folder / "shift.toml").write_text(SHIFT)
    (folder / "shift_backward.toml").write_text(SHIFT_BACKWARD)
    return offered(load_folder(folder))[0]


@pytest.fixture
def small(others, monkeypatch):
    """Their functions, which go by the operators, as there is no GPU."""
    by_operators(others, monkeypatch)
    return others


def test_a_kernel_that_is_that_of_its_own_gradient_has_all_derivatives(small):
    (x, _) = inputs(4)
    assert torch.autograd.gradcheck(lambda x: small.scale(x, 3.0), (x,))
    assert torch.autograd.gradgradcheck(lambda x: small.scale(x.square(), 3.0), (x,))


def test_an_input_that_is_left_out_has_no_gradient(small):
    x, bias = inputs(3, 5)
    assert torch.autograd.gradcheck(small.shift, (x,))
    assert torch.autograd.gradcheck(lambda x, bias: small.shift(x, bias=bias), (x, bias))
