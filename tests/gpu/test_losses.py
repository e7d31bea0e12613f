"""The bundled losses and their gradient, as installed, against PyTorch's in float64, at ragged sizes and in place."""

from __future__ import annotations

from pathlib import Path

import pytest

from pretuned.compile.pool import compile_all
from pretuned.compile.result import Binary
from pretuned.measure.requests import CompiledCandidate, PrepareRequest
from pretuned.render import source_of
from pretuned.spec import space
from pretuned.spec.loader import load_folder
from pretuned.spec.space import Problem

pytestmark = pytest.mark.gpu
TEMPLATES = Path(__file__).parents[2] / "templates"
SHAPES = [(1, 1), (7, 3), (1000, 10), (33, 1000), (129, 1031), (40, 32000), (9, 50257), (3, 128256), (2, 262143)]
SHORT = [(1, 1), (70000, 2), (999, 7), (5000, 8), (65536, 100), (3001, 129), (40, 4095)]


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


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_every_configuration_for_short_rows_is_right(dtype):
    from pretuned.measure.bench import Bench  # noqa: PLC0415 - as below
    from pretuned.measure.cuda.machine import CudaMachine  # noqa: PLC0415 - takes the GPU

    bench, specialisation = Bench(CudaMachine(0)), (("T", dtype),)
    spec = load_folder(TEMPLATES, {"cross_entropy_backward"})["cross_entropy_backward"]
    default = space.default(spec)
    listed = [default, *space.combinations("flat", spec.all_implementations["flat"])]
    sources = {one: source_of(spec, specialisation, one) for one in listed}
    made = compile_all(list(sources.values()), f"sm_{bench.machine.facts.compute_capability}")
    binaries = {one: made[source.key] for one, source in sources.items()}
    assert all(isinstance(one, Binary) for one in binaries.values()), binaries
    entries = {one: CompiledCandidate.of(one, binary) for one, binary in binaries.items()}
    for rows, cols in SHORT:
        problem = Problem(specialisation=specialisation, dims=(("cols", cols), ("rows", rows)))
        bench.prepare(PrepareRequest(spec=spec, problem=problem, default=entries[default]))
        assert {one: bench.verify(entry).failure for one, entry in entries.items()} == dict.fromkeys(entries), problem
