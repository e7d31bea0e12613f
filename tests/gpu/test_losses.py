"""The bundled losses and their gradient, as installed, against PyTorch's in float64, at ragged sizes and in place."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.gpu
SHAPES = [(1, 1), (7, 3), (1000, 10), (33, 1000), (129, 1031), (40, 32000), (9, 50257), (3, 128256), (2, 262143)]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("shift", [0, 1])
def test_losses_and_gradients_are_those_of_torch(dtype, shift):
    torch = pytest.importorskip("torch")
    kernels = pytest.importorskip("pretuned.kernels", reason="pretuned is not installed, so nothing is baked")
    torch.manual_seed(3)
    for rows, cols in SHAPES:
        whole = torch.randn(rows * cols + shift, device="cuda", dtype=getattr(torch, dtype))
        logits = whole[shift:].view(rows, cols)
        target = torch.randint(0, cols, (rows,), device="cuda")
        target[::8] = -100
        exact = logits.double().requires_grad_()
        expected = torch.nn.functional.cross_entropy(exact, target, reduction="none")
        grad_loss = torch.randn(rows, device="cuda")
        expected.backward(grad_loss.double())

        loss, logsumexp = kernels.cross_entropy(logits, target)
        torch.testing.assert_close(loss.double(), expected.detach(), rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(logsumexp.double(), torch.logsumexp(logits.double(), 1), rtol=1e-5, atol=1e-5)
        rtol = {"float32": 1e-5, "float16": 2e-3, "bfloat16": 8e-3}[dtype]
        given = (logits, target, logsumexp, grad_loss)
        gradient = kernels.cross_entropy_backward(*given)
        torch.testing.assert_close(gradient.double(), exact.grad, rtol=rtol, atol=1e-6)
        assert kernels.cross_entropy_backward(*given, grad_logits=logits) is logits
        assert torch.equal(logits, gradient)
