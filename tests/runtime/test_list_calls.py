"""Lists of arrays at a call: what launches are passed, what is returned, and what is wrong with a list."""

from __future__ import annotations

import importlib
import struct
from pathlib import Path

import numpy as np
import pytest

import fake_cuda
import sample
from pretuned.bake.package import files
from pretuned.bake.plan import plan
from pretuned.spec.loader import load_folder

KERNELS = Path(__file__).parents[1] / "data" / "lists"
SIGNATURES = {
    "concatenate": ("Q", "256s", "256s", "q", "q"),
    "descend": ("384s", "384s", "384s", "192s", "i", "f"),
    "grouped": ("64s", "64s", "64s", "32s", "i", "i", "i"),
}


@pytest.fixture
def tuned(tmp_path, cuda, load, monkeypatch):
    made = plan(load_folder(KERNELS), [], {sample.H100.name: sample.H100})
    sample.write({"__init__.py": b""}, tmp_path / "pkg")
    sample.write(files(made, sample.binaries(made), version="0.0.0"), tmp_path / "pkg" / "tuned")
    for name, codes in SIGNATURES.items():
        monkeypatch.setitem(fake_cuda.SIGNATURES, name, codes)
    monkeypatch.setenv("PRETUNED_WARN", "0")
    return load(tmp_path)


def addresses(arrays, most):
    return struct.pack(f"{most}Q", *(array.data.ptr for array in arrays), *(0,) * (most - len(arrays)))


def numbers(values, most, code="i"):
    return struct.pack(f"={most}{code}", *values, *(0,) * (most - len(values)))


def groups(cupy, rows, n=32, k=16, dtype=np.float16):
    a = [cupy.ndarray((m, k), dtype) for m in rows]
    return a, [cupy.ndarray((k, n), dtype) for _ in rows]


@pytest.mark.parametrize("kind", [list, tuple])
def test_a_kernel_is_passed_addresses_and_extents_by_value(tuned, cupy, cuda, kind):
    for rows in ([5, 0, 9], [5, 0, 9], [5, 0, 9], [7], [5, 0, 9], list(range(1, 9)), [9, 0, 5]):
        a, b = groups(cupy, rows)
        c = tuned.grouped(kind(a), kind(b))
        assert [array.shape for array in c] == [(m, 32) for m in rows]
        assert type(c) is list
        launched = cuda.launches[-1]
        tables = addresses(c, 8), addresses(a, 8), addresses(b, 8), numbers(rows, 8)
        assert launched.arguments == (*tables, 32, 16, len(rows))
        assert launched.grid == (4, -(-sum(rows) // 8) + len(rows), 1)


def test_outputs_that_are_given_are_written(tuned, cupy, cuda):
    a, b = groups(cupy, [5, 6])
    c = [cupy.ndarray((m, 32), np.float16) for m in (5, 6)]
    for _ in range(3):
        assert all(one is other for one, other in zip(tuned.grouped(a, b, c=c), c, strict=True))
        assert cuda.launches[-1].arguments[0] == addresses(c, 8)


def test_a_bound_call_launches_the_same(tuned, cupy, cuda):
    a, b = groups(cupy, [5, 6, 7])
    bound = tuned.grouped.bind(a, b)
    c = bound()
    assert cuda.launches[-1].arguments[:3] == (addresses(c, 8), addresses(a, 8), addresses(b, 8))
    assert bound() is c
    tuned.grouped.prepare()
    tuned.prepare()


def test_the_sum_of_extents_is_a_size_of_an_output(tuned, cupy, cuda):
    x = [cupy.ndarray((m, 24), np.float32) for m in (3, 0, 4)]
    out = tuned.concatenate(x)
    assert out.shape == (7, 24)
    assert cuda.launches[-1].arguments == (out.data.ptr, addresses(x, 32), numbers([3, 0, 4], 32, "q"), 7, 24)
    with pytest.raises(ValueError, match=r"out: expected shape \(rows, columns\) = \(7, 24\), found \(6, 24\)"):
        tuned.concatenate(x, out=cupy.ndarray((6, 24), np.float32))


def test_lists_are_changed_in_place_and_zeroed(tuned, cupy, cuda):
    sizes = [100, 2000, 1]
    p, g = ([cupy.ndarray((n,), np.float32) for n in sizes] for _ in "pg")
    for _ in range(3):
        changed, squares = tuned.descend(p, g, 0.5)
        assert all(one is other for one, other in zip(changed, p, strict=True))
        tables = addresses(p, 48), addresses(g, 48), addresses(squares, 48), numbers(sizes, 48)
        assert cuda.launches[-1].arguments == (*tables, 3, 0.5)
        assert [one.shape for one in squares] == [(1,)] * 3


def test_explain_is_asked_for_the_sum_and_the_number_of_arrays(tuned, cupy):
    text = str(tuned.explain(tuned.grouped, T="float16", m=64, n=32, k=16, groups=4))
    assert "tile=8" in text
    with pytest.raises(ValueError, match="requires 1 <= groups <= 8, found groups=9"):
        tuned.explain(tuned.grouped, T="float16", m=64, n=32, k=16, groups=9)


WRONG = {
    "one array": (lambda a, b: (a[0], b), "a: expected a list of 1 to 8 arrays, found one array; write list() around"),
    "a generator": (lambda a, b: (iter(a), b), "a: expected a list of 1 to 8 arrays, found list_iterator"),
    "None": (lambda a, b: (None, b), "a: expected a list of 1 to 8 arrays, found None"),
    "nothing": (lambda _a, _b: ([], []), "a: expected 1 to 8 arrays, found 0"),
    "too many": (
        lambda a, b: (a * 3, b * 3),
        "a: expected 1 to 8 arrays, found 9; pass the others by another call",
    ),
    "different lengths": (lambda a, b: (a, b[:2]), "b: expected 3 arrays as a has, found 2"),
    "None among them": (lambda a, b: ([*a[:2], None], b), "a[2]: expected an array, found None"),
    "NumPy": (
        lambda a, b: ([a[0], np.zeros((4, 16), np.float16), a[2]], b),
        "a[1]: expected an array on the GPU (CuPy, PyTorch, or one with __cuda_array_interface__ or __dlpack__), found",
    ),
    "bytes": (lambda a, b: ([*a[:2], b"x"], b), "a[2]: expected an array on the GPU"),
}


@pytest.mark.parametrize(("change", "message"), WRONG.values(), ids=WRONG)
def test_a_list_that_cannot_be_passed(tuned, cupy, cuda, change, message):
    a, b = groups(cupy, [5, 6, 7])
    tuned.grouped(a, b)
    before = len(cuda.launches)
    with pytest.raises(tuned.PretunedError) as raised:
        tuned.grouped(*change(a, b))
    assert str(raised.value).startswith(f"pkg.tuned.grouped: {message}")
    assert len(cuda.launches) == before


def test_what_is_wrong_with_one_array_names_it(tuned, cupy, cuda):
    a, b = groups(cupy, [5, 6, 7])
    wrong = {
        "b[1]: expected shape (k, n) = (16, 32), found (16, 31)": (a, [b[0], cupy.ndarray((16, 31), np.float16), b[2]]),
        "a[2]: expected dtype float16 (T), found float32": ([*a[:2], cupy.ndarray((7, 16), np.float32)], b),
        "a[1]: expected 2 dimensions (m[], k), found 1: (16,)": ([a[0], cupy.ndarray((16,), np.float16), a[2]], b),
    }
    for message, call in wrong.items():
        with pytest.raises(tuned.PretunedError) as raised:
            tuned.grouped(*call)
        assert str(raised.value) == f"pkg.tuned.grouped: {message}"
    c = [cupy.ndarray((m, 32), np.float16) for m in (5, 6, 8)]
    with pytest.raises(ValueError, match=r"c\[2\]: expected shape \(m\[\], n\) = \(7, 32\), found \(8, 32\)"):
        tuned.grouped(a, b, c=c)
    with pytest.raises(ValueError, match=r"c: expected 3 arrays as a has, found 2"):
        tuned.grouped(a, b, c=c[:2])
    with pytest.raises(ValueError, match=r"c\[0\]: shares memory with c\[1\]"):
        tuned.grouped(a[:1] * 2, b[:2], c=[c[0], c[0]])
    square, twice = cupy.ndarray((16, 16), np.float16), [b[0], b[1]]
    with pytest.raises(ValueError, match=r"c\[0\]: shares memory with a\[0\]"):
        tuned.grouped(
            [square, a[1]], [cupy.ndarray((16, 16), np.float16)] * 2, c=[square, cupy.ndarray((6, 16), np.float16)]
        )
    assert tuned.grouped([a[0], a[0]], twice)[1].shape == (5, 32)  # an input may be in a list twice


def test_arrays_of_two_devices_are_refused(tuned, cupy, cuda):
    a, b = groups(cupy, [5, 6])
    other = cupy.ndarray((6, 16), np.float16, device=1)
    with pytest.raises(ValueError, match=r"a\[1\]: expected device 0 as a\[0\] has, found device 1"):
        tuned.grouped([a[0], other], b)


def test_each_array_has_to_lie_where_the_kernel_demands(tuned, cupy, cuda):
    p, g = ([cupy.ndarray((n,), np.float32) for n in (64, 64)] for _ in "pg")
    tuned.descend(p, g, 0.5)
    g[1] = cupy.ndarray((64,), np.float32, offset=4)
    with pytest.raises(
        ValueError, match=r"g\[1\]: requires aligned\(g, 8\), found an address 4 bytes beyond a multiple"
    ):
        tuned.descend(p, g, 0.5)


@pytest.mark.usefixtures("fast_path")
@pytest.mark.parametrize("direct", [True, False])
def test_calls_that_come_again_take_the_fast_path_by_how_many_arrays_they_have(tuned, cupy, cuda, monkeypatch, direct):
    if not direct:
        del cupy.cuda.driver.launchKernel
    calls = importlib.import_module("pkg.tuned._runtime.calls")
    slow, whole = [], calls.Caller.slow
    monkeypatch.setattr(calls.Caller, "slow", lambda *call: slow.append(call) or whole(*call))
    shapes = ([5, 6, 7], [5], list(range(1, 9)), [6, 5])
    for turn in range(6):
        before = len(slow)
        for rows in shapes:
            a, b = groups(cupy, rows)
            given = [cupy.ndarray((m, 32), np.float16) for m in rows]
            c = tuned.grouped(a, b, c=given if turn % 2 else None)
            assert type(c) is list
            assert [array.shape for array in c] == [(m, 32) for m in rows]
            tables = addresses(c, 8), addresses(a, 8), addresses(b, 8), numbers(rows, 8)
            assert cuda.launches[-1].arguments == (*tables, 32, 16, len(rows))
        assert len(slow) == before or turn < 3
    for rows in ([7, 6, 5], [5, 6, 7, 8]):  # known numbers of arrays of other extents, and a number that is not known
        before = len(slow)
        tuned.grouped(*groups(cupy, rows))
        assert len(slow) == before + 1


def test_what_the_fast_path_of_a_list_does_not_take_is_refused_in_words(tuned, cupy, cuda):
    a, b = groups(cupy, [5, 6])
    c = [cupy.ndarray((m, 32), np.float16) for m in (5, 6)]
    wrong = [
        (([a[0], a[1].view(np.int16)], b, c), r"a\[1\]: expected dtype float16 \(T\), found int16"),
        ((a, [b[0], cupy.ndarray((16, 32), np.float16, device=1)], c), r"b\[1\]: expected device 0"),
        ((a, b, [c[0], cupy.ndarray((6, 33), np.float16)]), r"c\[1\]: expected shape"),
        (
            (a, b, [c[0], cupy.ndarray((6, 32), np.float16, address=a[1].data.ptr)]),
            r"c\[1\]: shares memory with a\[1\]",
        ),
        ((a, b, [c[0], c[0]]), "c"),
        (
            (a, [b[0], cupy.ndarray((16, 32), np.float16, contiguous=False)], c),
            r"b\[1\]: expected a C-contiguous array",
        ),
        ((a, b[:1], c), "expected 2 arrays as a has, found 1"),
    ]
    for _ in range(4):
        tuned.grouped(a, b, c=c)
        for (x, y, z), message in wrong:
            before = len(cuda.launches)
            with pytest.raises(tuned.PretunedError, match=message):
                tuned.grouped(x, y, c=z)
            assert len(cuda.launches) == before
