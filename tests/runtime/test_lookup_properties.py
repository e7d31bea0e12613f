"""What decides at run time is what the builder says: for drawn problems, and for sizes that no int32 holds."""

import compileall
import importlib
import itertools
import math
from contextlib import nullcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fake_cuda
import sample
from pretuned.bake.package import files
from pretuned.bake.plan import plan
from pretuned.runtime import Array, Buffer, Implementation, Kernel, Launch, answers, checks, refusal
from pretuned.runtime.adapters import ArrayView
from pretuned.runtime.devices import Device
from pretuned.runtime.expressions import Integer
from pretuned.runtime.types import DTYPES
from pretuned.spec import space
from pretuned.spec.loader import load as load_spec
from pretuned.spec.sizes import fits_arguments
from pretuned.spec.space import Problem

SPEC = """\
format = 1
summary = "y = x."
arguments = [
  {{ name = "y", role = "out", dtype = "int8", shape = [{shape}] }},
  {{ name = "x", role = "in", dtype = "int8", shape = [{shape}] }},
{scalars}
]

[dims]
{dims}

[space]
block = [128]

[default]
block = 128

[[launches]]
function = "{name}"
grid     = ["min(2 ** 20, {product})"]
block    = ["block"]
"""
# The sizes that were measured, by dim, and the type that dims are passed as.
KERNELS = {
    "one_size": ({"n": [4096]}, "int32"),
    "neighbours": ({"n": [1, 2, 3, 4, 7]}, "int32"),
    "usual": ({"n": [4096, 65536, 1048576, 16777216]}, "int32"),
    "to_the_end": ({"n": [1, 2**31 - 1]}, "int32"),
    "unsigned": ({"n": [100, 2**32 - 1]}, "uint32"),
    "longest": ({"n": [5, 2**62]}, "uint64"),
    "long": ({"n": [1000, 2**31, 2**33, 2**45]}, "int64"),
    "two": ({"rows": [64, 2048], "cols": [128, 1024, 4096, 8192]}, "int64"),
    "three": ({"m": [128, 1024, 4096], "n": [1024, 4096], "k": [1, 256, 2048]}, "int32"),
}
any_size = st.integers(0, 2**63)


def text(name):
    dims, dtype = KERNELS[name]
    return SPEC.format(
        name=name,
        shape=", ".join(f'"{dim}"' for dim in dims),
        scalars="\n".join(f'  {{ name = "{dim}", dtype = "{dtype}" }},' for dim in dims),
        dims="\n".join(f"{dim} = {{ sizes = {listed} }}" for dim, listed in dims.items()),
        product=" * ".join(dims),
    )


@pytest.fixture(scope="module")
def specs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("specs")
    for name in KERNELS:
        (folder / f"{name}.toml").write_text(text(name), encoding="utf-8")
        (folder / f"{name}.cu.jinja").write_text(f'extern "C" __global__ void {name}() {{}} // {{{{ block }}}}\n')
    return {name: load_spec(folder / f"{name}.toml") for name in KERNELS}


@pytest.fixture(scope="module")
def folder(tmp_path_factory, specs):
    """A package with a row for each bucket."""
    folder = tmp_path_factory.mktemp("properties")
    rows = [
        sample.row(name, sample.H100, {}, dict(problem.dims), sample.choice(1.0, block=128))
        for name, spec in specs.items()
        for problem in space.problems(spec, ())
    ]
    planned = plan(specs, rows, sample.DEVICES)
    sample.write({"__init__.py": b""}, folder / "pkg")
    sample.write(files(planned, sample.binaries(planned), version="0.0.0"), folder / "pkg" / "tuned")
    compileall.compile_dir(folder / "pkg", quiet=1)
    return folder


@pytest.fixture
def baked(load, folder, cuda, monkeypatch):
    """The package, with the parts of its runtime; its entry points take the dims after two arrays."""
    codes = {"int32": "i", "uint32": "I", "int64": "q", "uint64": "Q"}
    for name, (dims, dtype) in KERNELS.items():
        monkeypatch.setitem(fake_cuda.SIGNATURES, name, "QQ" + codes[dtype] * len(dims))
    tuned = load(folder)
    for part in ("answers", "checks", "devices", "errors", "problem"):
        setattr(tuned, part, importlib.import_module(f"pkg.tuned._runtime.{part}"))
    return tuned


def drawn(draw, listed, count):
    """Return sizes of a dim: 0, 1, its sizes, the middles and their neighbours, the ends of integers, any others."""
    middles = [math.isqrt(a * b) for a, b in itertools.pairwise(listed)]
    near = [value + step for value in (*listed, *middles) for step in (-1, 0, 1)]
    ends = [2**bits + step for bits in (8, 31, 32, 33, 62) for step in (-1, 0, 1)]
    fixed = np.array([0, 1, *near, *ends, 2**63 - 1], np.int64)
    spread = np.exp2(draw.uniform(0, 63, count)).astype(np.int64)
    small = draw.integers(0, 2 * min(listed[-1], 2**61) + 2, count)
    kinds = draw.integers(0, 4, count)
    return np.where(kinds == 0, draw.choice(fixed, count), np.where(kinds == 1, small, spread))


def apart(one, other):
    return Fraction(max(one, other), min(one, other))


def nearest(axes, problem):
    """Return the measured problem that is nearest by the ratios of sizes, the smaller of equals, in exact integers."""
    found = []
    for axis, size in zip(axes, problem, strict=True):
        best = axis[0]
        for measured in axis[1:]:
            closer = apart(max(1, size), measured) < apart(max(1, size), best)
            best = measured if closer else best
        found.append(best)
    return tuple(found)


def test_the_nearest_row_answers_where_nothing_was_selected(baked, specs):
    device = baked.devices.Device("NVIDIA H100 80GB HBM3", {"compute_capability": 90, "sm_count": 132})
    for index, (name, (dims, _)) in enumerate(KERNELS.items()):
        kernel, draw = getattr(baked, f"_{name}"), np.random.default_rng(index)
        columns = [drawn(draw, listed, 3000).tolist() for listed in dims.values()]
        seen = set()
        for problem in zip(*columns, strict=True):
            values = dict(zip(dims, problem, strict=True))
            called = baked.problem.CalledProblem(kernel, device, {}, values)
            answer = baked.answers.table_of(kernel).of(()).answer(called, kernel.devices)
            measured = tuple(answer.row.measured[dim] for dim in dims)
            assert measured == nearest(dims.values(), problem), values
            assert answer.exact == (measured == problem)
            seen.add(measured)
        assert seen == {tuple(dict(problem.dims)[dim] for dim in dims) for problem in space.problems(specs[name], ())}


@given(st.lists(st.tuples(any_size, any_size), min_size=1, max_size=12, unique=True), st.tuples(any_size, any_size))
def test_among_scattered_rows_the_nearest_answers(measured, sizes):
    """Holes included: the rows need not be at all combinations of their sizes."""
    of_device = answers.OfDevice()
    for one in measured:
        of_device.add_row(one, ({}, dict(zip("mn", one, strict=True)), (), ("", "", "")))
    found = tuple(of_device.nearest(sizes).measured.values())

    def away(one):
        return math.hypot(*(math.log(max(1, a) / max(1, b)) for a, b in zip(one, sizes, strict=True)))

    assert found in measured
    assert away(found) <= min(map(away, measured)) + 1e-9


def test_what_an_argument_cannot_hold_is_refused_and_nothing_else(baked, specs):
    for index, (name, (dims, dtype)) in enumerate(KERNELS.items()):
        kernel, draw = getattr(baked, f"_{name}"), np.random.default_rng(200 + index)
        columns = [drawn(draw, listed, 2000).tolist() for listed in dims.values()]
        for problem in zip(*columns, strict=True):
            values = dict(zip(dims, problem, strict=True))
            fits = fits_arguments(specs[name], Problem(specialisation=(), dims=space.pairs(values)))
            try:
                baked.checks.admit(kernel, baked.problem.CalledProblem(kernel, None, {}, values))
            except baked.errors.ArgumentError as error:
                told = str(error)
                assert f"expected at most {DTYPES[dtype].range[1]} ({dtype}), found " in told
                assert not fits
            else:
                assert fits


@pytest.mark.parametrize(
    "n", [0, 1, 2**31 - 2, 2**31 - 1, 2**31, 2**31 + 1, 2**32, 2**32 + 1, 2**32 + 4096, 2**40, 2**62]
)
@pytest.mark.parametrize("name", ["usual", "unsigned", "long", "longest"])
def test_a_size_reaches_the_kernel_as_it_is_or_not_at_all(baked, cupy, cuda, name, n):
    """At the first call and by the fast path, which remembers other sizes: none is ever cut to the type's bits."""
    dtype, run = KERNELS[name][1], getattr(baked, name)
    largest = DTYPES[dtype].range[1]
    for size in [*({n % 2**31, n % 2**32} - {n}), n]:
        x, y = (cupy.ndarray((size,), "int8", address=address) for address in (2**62, 0))
        for _ in range(3):
            del cuda.launches[:]
            if size <= largest:
                run(x, y=y)
            else:
                with pytest.raises(ValueError, match=rf"n of x: expected at most {largest} \({dtype}\), found {size}$"):
                    run(x, y=y)
            wanted = [(0, 2**62, size)] if 0 < size <= largest else []
            assert [launch.arguments for launch in cuda.launches] == wanted


def refused_for(kernel, n):
    """Return why the kernel's one configuration cannot run a problem, or None."""
    device = Device("a GPU", {})
    return refusal.refusal(kernel, kernel.shipped[0], {"n": Integer(n)}, device, lambda _name, _nbytes: True, [])


@pytest.mark.parametrize(
    ("n", "refused"),
    [
        (64, None),
        (65, "a block of 65 threads along z, and 1 to 64 are possible"),
        (0, "what it launches cannot be worked out ("),  # and Python's words for it, which differ by version
    ],
)
def test_a_launch_that_no_gpu_takes_is_passed_over(n, refused):
    launch = Launch(
        "f",
        grid=lambda n: (4096 // n, 1, 1),
        block=lambda n: (1, 1, max(1, n)),
        shared=lambda: 0,
        arguments=(),
    )
    entry = {}, "main", {}, "source", {}
    kernel = Kernel(
        "taken",
        arguments=(),
        implementations={"main": Implementation((launch,))},
        shipped=(entry,),
        rows={},
        devices={},
        binaries={"source": ((), False, ())},
    )
    found = refused_for(kernel, n)
    assert found == refused if refused is None else found.startswith(refused)


@pytest.mark.parametrize(("n", "refused"), [(8, None), (2**31 + 1, "the size of its scratch 'partial' cannot be")])
def test_a_configuration_whose_scratch_has_no_size_is_passed_over(n, refused):
    scratch = (Buffer("partial", "float32", lambda n: (Integer(n) * n,)),)
    kernel = Kernel(
        "scratched",
        arguments=(),
        implementations={"main": Implementation((), scratch=scratch)},
        shipped=(({}, "main", {}, "source", {}),),
        rows={},
        devices={},
        binaries={"source": ((), False, ())},
    )
    found = refused_for(kernel, n)
    assert found == refused if refused is None else found.startswith(refused)


@pytest.mark.parametrize(("shape", "right"), [((4,), True), ((4, 1), False), ((5,), False)])
def test_a_shape_that_has_no_value_at_ones_is_checked_at_the_call(shape, right):
    """The number of dimensions is checked before sizes are known, with 1 for each; this one divides by k - 1."""
    out = Array("out", "out", "float32", "(n // (k - 1),)", lambda n, k: (n // (k - 1),))
    x = Array("x", "in", "float32", "(n,)", lambda n: (n,))
    m = Array("m", "in", "float32", "(k,)", lambda k: (k,))
    kernel = Kernel(
        "divided",
        arguments=(out, x, m),
        implementations={},
        shipped=(({}, "main", {}, "source", {}),),
        rows={},
        devices={},
        binaries={"source": ((), False, ())},
        dims={"n": ("x", 0), "k": ("m", 0)},
    )
    views = [ArrayView(0, "float32", size, 0, 0, None) for size in (shape, (8,), (3,))]
    with nullcontext() if right else pytest.raises(ValueError, match=r"out: expected shape .* = \(4,\), found"):
        checks.problem(kernel, views, {}, Device("a GPU", {}))
