"""Calls of the functions where operators run them: compiled, exported, without memory, under transforms; and errors."""

import importlib
import io
import pickle
import re
import sys
from typing import NamedTuple

import pytest

import cpu_operators
from pretuned.spec.loader import load_folder

torch = pytest.importorskip("torch")
testing = pytest.importorskip("torch._dynamo.testing")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # of PyTorch's own code
ROOT = cpu_operators.ROOT
SIZES = range(5, 25)


@pytest.fixture
def tuned(gallery):
    torch._dynamo.reset()
    return gallery[0]


def silu_and_mul(x):
    gate, up = x.chunk(2, -1)
    return torch.nn.functional.silu(gate) * up


def norm_in_place(tuned, n):
    x, residual = torch.ones(n, n + 7), torch.ones(n, n + 7)
    tuned.add_rms_norm(x, residual, torch.ones(n + 7), 1e-6)
    return x, residual


def heads(tuned, n, **options):
    x, cos_sin = torch.randn(n, 2, 2 * (n + 1)), torch.randn(64, 2 * (n + 1))
    return tuned.rotary(x, cos_sin, interleaved=n % 2 == 0, **options), x


CALLS = {
    "leading dims and a solved dim": lambda tuned, n: tuned.silu_and_mul(torch.ones(n, 3, 2 * n + 4)),
    "in place": norm_in_place,
    "a keyword for a dim": lambda tuned, n: tuned.topk_softmax(torch.ones(n, 30), topk=n - 3),
    "an optional array": lambda tuned, n: tuned.rotary(
        torch.ones(n, 2, 2 * n + 2), torch.ones(64, 2 * n + 2), interleaved=True, positions=torch.arange(n)
    ),
    "one left out": lambda tuned, n: tuned.rotary(
        torch.ones(n, 2, 2 * n + 2), torch.ones(64, 2 * n + 2), interleaved=False
    ),
    "a list": lambda tuned, n: tuned.grouped_gemm(
        [torch.ones(n, 8), torch.ones(n + 5, 8)], [torch.ones(8, n + 1), torch.ones(8, n + 1)]
    ),
    "a struct": lambda tuned, n: tuned.convolution(torch.ones(n, n + 7), {"weights": [0.5] * 25}),
    "two outputs": lambda tuned, n: tuned.quantise_int8(torch.ones(n, 2 * n)),
    "an output given": lambda tuned, n: tuned.scan(torch.ones(n, n + 7), y=torch.empty(n, n + 7)),
    "one of two outputs given": lambda tuned, n: tuned.quantise_int8(torch.ones(n, n + 7), scale=torch.empty(n)),
    "two inputs of one size": lambda tuned, n: tuned.axpby(torch.ones(n), torch.ones(n), 0.5, 2),
}


@pytest.mark.parametrize("name", CALLS)
def test_open_sizes_are_compiled_once(name, tuned):
    counter = testing.CompileCounterWithBackend("aot_eager")
    call = torch.compile(lambda n: CALLS[name](tuned, n), fullgraph=True, dynamic=True, backend=counter)
    for size in SIZES:
        found = call(size)
    assert counter.frame_count <= 2
    assert found is not None


def test_a_compiled_call_gives_what_the_kernel_does(tuned):
    compiled = torch.compile(lambda x: tuned.silu_and_mul(x * 2) + 1, fullgraph=True, dynamic=True)
    for size in SIZES[:4]:
        x = torch.randn(size, 3, 2 * size + 4)
        assert torch.allclose(compiled(x), silu_and_mul(x * 2) + 1, atol=1e-6)
    itself = torch.compile(tuned.silu_and_mul, fullgraph=True)
    assert torch.allclose(itself(x), silu_and_mul(x), atol=1e-6)


def test_a_struct_may_be_an_object(tuned):
    class Filter(NamedTuple):
        weights: tuple

    call = torch.compile(lambda x: tuned.convolution(x, Filter((0.25,) * 25)), fullgraph=True, backend="aot_eager")
    assert torch.allclose(call(torch.ones(6, 7)), torch.full((2, 3), 6.25))


def test_what_is_given_is_written_and_returned(tuned):
    @torch.compile(fullgraph=True, backend="aot_eager")
    def call(x, q, scale):
        both = tuned.quantise_int8(x, q=q, scale=scale)
        one = tuned.quantise_int8(x, scale=scale)
        return both[0] is q, both[1] is scale, one[1] is scale, one[0]

    x = torch.randn(4, 8)
    q, scale = torch.zeros(4, 8, dtype=torch.int8), torch.zeros(4)
    *same, new = call(x, q, scale)
    assert all(same)
    assert torch.allclose(scale, x.abs().amax(1) / 127)
    assert torch.equal(q, new)
    with pytest.raises(Exception, match=r"scale: expected \(4,\) of torch.float32, found \(5,\) of torch.float32"):
        torch.compile(lambda: tuned.quantise_int8(x, scale=torch.zeros(5)), fullgraph=True, backend="eager")()


def test_an_output_may_be_an_input_where_the_kernel_allows_it(tuned, gallery):
    def turned(x, cos_sin):
        return tuned.rotary(x, cos_sin, interleaved=True, out=x)

    x, cos_sin = torch.randn(4, 2, 8), torch.randn(64, 8)
    wanted = getattr(torch.ops, gallery[1]).rotary(x, cos_sin, None, interleaved=True)
    found = torch.compile(turned, fullgraph=True, backend="aot_eager")(x, cos_sin)
    assert found is x
    assert torch.allclose(x, wanted)


def test_a_kernel_that_changes_arrays_and_makes_lists_is_given_the_lists(offered):
    tuned, _ = offered(load_folder(ROOT / "tests/data/lists"))
    p, g, squares = ([torch.empty(*shape, device="meta")] * 2 for shape in ((64,), (64,), (1,)))
    with pytest.raises(TypeError, match="squares: pass this output, since no operator of PyTorch can make it"):
        tuned.descend(p, g, 0.5)
    compiled = torch.compile(lambda: tuned.descend(p, g, 0.5, squares=squares), fullgraph=True, backend="aot_eager")
    assert [len(one) for one in compiled()] == [2, 2]


@pytest.mark.parametrize("strict", [True, False])
def test_an_exported_program_is_saved_and_loaded(tuned, gallery, strict):
    class Block(torch.nn.Module):
        def forward(self, x):
            return tuned.silu_and_mul(x) + 1

    sizes = {0: torch.export.Dim("rows"), 1: 2 * torch.export.Dim("d")}
    program = torch.export.export(Block(), (torch.randn(6, 8),), dynamic_shapes=(sizes,), strict=strict)
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    loaded = torch.export.load(file).module()
    x = torch.randn(9, 24)
    assert torch.allclose(loaded(x), silu_and_mul(x) + 1, atol=1e-6)
    assert f"{gallery[1]}.silu_and_mul.default" in program.graph_module.code


def test_shapes_are_known_without_a_gpu(tuned):
    with torch._subclasses.FakeTensorMode():
        x = torch.empty(4, 3, 10, device="cuda", dtype=torch.bfloat16)
        y = tuned.silu_and_mul(x)
        assert (y.shape, y.dtype, y.device) == ((4, 3, 5), torch.bfloat16, x.device)
        ids = tuned.topk_softmax(torch.empty(4, 8, device="cuda"), topk=2)[1]
        assert (ids.shape, ids.dtype) == ((4, 2), torch.int32)
        with pytest.raises(ValueError, match="x: expected 2 \\* d elements along axis 1, a multiple of 2, found 7"):
            tuned.silu_and_mul(torch.empty(4, 7, device="cuda"))
        with pytest.raises(TypeError, match="x: expected dtype bfloat16 or float32, found float64"):
            tuned.silu_and_mul(torch.empty(4, 8, device="cuda", dtype=torch.float64))
        with pytest.raises(ValueError, match=r"x: expected a C-contiguous array.*copy it with x\.contiguous\(\)"):
            tuned.silu_and_mul(torch.empty(8, 4, device="cuda").t())
        with pytest.raises(ValueError, match="requires topk <= experts"):
            tuned.topk_softmax(torch.empty(4, 8, device="cuda"), topk=9)
        with pytest.raises(ValueError, match=r"weight: expected shape \(cols,\) = \(8,\), found \(9,\)"):
            tuned.add_rms_norm(*(torch.empty(shape, device="cuda") for shape in ((4, 8), (4, 8), 9)))
    assert tuned.silu_and_mul(torch.empty(4, 10, device="meta")).shape == (4, 5)


def test_sizes_that_depend_on_data_stay_open(tuned):
    def chosen(x, mask):
        return tuned.silu_and_mul(x[mask])

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        compiled = torch.compile(chosen, fullgraph=True, dynamic=True, backend="aot_eager")
        x = torch.randn(9, 8)
        for mask in (x[:, 0] > 0, x[:, 0] <= 0):
            assert torch.allclose(compiled(x, mask), silu_and_mul(x[mask]), atol=1e-6)


@pytest.mark.parametrize("compiled", [False, True])
def test_a_gradient_that_there_is_not_is_an_error(tuned, compiled):
    def call(x):
        return tuned.quantise_int8(x)[0]

    message = (
        r"x: requires a gradient, and this kernel has none for it; pass x\.detach\(\), or call under torch\.no_grad"
    )
    function = torch.compile(call, fullgraph=True, backend="eager") if compiled else call
    x = torch.randn(4, 8, requires_grad=True)
    with pytest.raises(torch._dynamo.exc.Unsupported if compiled else ValueError, match=message):
        function(x)
    if compiled:
        with torch.no_grad():
            function(x)
        function(x.detach())


def test_transforms_that_do_not_go_through_are_errors(tuned):
    x = torch.randn(3, 4, 8)
    with pytest.raises(ValueError, match="vmap does not go through this kernel; it takes any leading dimensions"):
        torch.vmap(tuned.silu_and_mul)(x)
    with pytest.raises(ValueError, match="vmap does not go through this kernel; call it once for each of the batch"):
        torch.vmap(tuned.quantise_int8)(x)
    with pytest.raises(Exception, match="vmap does not go through this kernel"):
        torch.compile(torch.vmap(tuned.silu_and_mul), backend="eager", fullgraph=True)(x)
    with pytest.raises(ValueError, match=r"x: has a tangent.*use reverse mode"):
        torch.func.jvp(tuned.silu_and_mul, (x,), (x,))
    with torch.autograd.forward_ad.dual_level(), pytest.raises(ValueError, match="x: has a tangent"):
        tuned.silu_and_mul(torch.autograd.forward_ad.make_dual(x, x))
    with pytest.raises(Exception, match=r"stream: cannot be given.*with torch\.cuda\.stream\(stream\):"):
        torch.compile(lambda x: tuned.silu_and_mul(x, stream=0), backend="eager", fullgraph=True)(x)


def test_an_eager_call_without_a_gpu_says_so(tuned):
    with pytest.raises(RuntimeError, match="needs an NVIDIA GPU"):
        tuned.silu_and_mul(torch.randn(4, 8))


def test_the_module_has_the_functions_themselves(tuned):
    module = importlib.import_module(f"{tuned.__name__}.torch")
    assert module.silu_and_mul is tuned.silu_and_mul
    assert pickle.loads(pickle.dumps(module.silu_and_mul)) is tuned.silu_and_mul


def test_it_is_imported_again_and_in_a_namespace_of_two(tmp_path, monkeypatch, specs):
    some = {name: specs[name] for name in ("scan", "axpby")}
    for name in ("first", "second"):
        cpu_operators.write(tmp_path, name, some, "shared_by_two")
    monkeypatch.syspath_prepend(str(tmp_path))
    module = importlib.import_module("first.tuned.torch")
    importlib.reload(module)
    message = (
        "second.tuned: the operator shared_by_two::axpby is defined by first.tuned already; give one of the two "
        'packages another namespace: write `torch = "..."` into its table and build it again'
    )
    with pytest.raises(Exception, match=re.escape(message)):
        importlib.import_module("second.tuned.torch")
    for name in [name for name in sys.modules if name.partition(".")[0] == "first"]:
        del sys.modules[name]
    again = importlib.import_module("first.tuned.torch")
    assert again.scan is not module.scan
    assert again.scan(torch.empty(4, 8, device="meta")).shape == (4, 8)
