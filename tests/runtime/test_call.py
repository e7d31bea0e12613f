"""A call: what is checked, what is launched, what comes back."""

import re
import threading

import pytest


def affine_arrays(cupy, rows=16, cols=1024, dtype="float32", **options):
    return cupy.ndarray((rows, cols), dtype, **options)


def test_launches_the_rows_winner_with_every_argument_in_place(tuned, cupy, cuda):
    x = affine_arrays(cupy)
    y = tuned.affine(x, 2.5, relu=False)
    (launch,) = cuda.launches
    assert (launch.function, launch.grid, launch.block, launch.shared_bytes) == ("affine", (16, 2, 1), (128, 1, 1), 512)
    assert launch.arguments == (y.data.ptr, x.data.ptr, 2.5, 16, 1024)
    assert (y.shape, y.dtype) == (x.shape, x.dtype)
    assert cuda.limits == {1: (8, 232448)}


def test_writes_into_the_array_that_is_given(tuned, cupy, cuda):
    x, y = affine_arrays(cupy), affine_arrays(cupy)
    assert tuned.affine(x, 1, relu=False, y=y) is y
    assert cupy.allocated == []
    assert cuda.launches[0].arguments[0] == y.data.ptr


def test_a_repeated_call_loads_and_looks_up_nothing_anew(tuned, cupy, cuda):
    first = tuned.affine(affine_arrays(cupy), 1.0, relu=False)
    tuned.affine(affine_arrays(cupy), 3.0, relu=False)
    assert len(cuda.loaded) == 1
    assert [launch.arguments[2] for launch in cuda.launches] == [1.0, 3.0]
    assert cuda.launches[1].arguments[0] != first.data.ptr


def test_remembered_problems_are_bounded(tuned, cupy, cuda, monkeypatch):
    calls = __import__(f"{tuned.__name__}._runtime.calls", fromlist=["calls"])
    monkeypatch.setattr(calls, "REMEMBERED", 3)
    for cols in [*range(1, 9), *range(1, 9)]:
        tuned.affine(affine_arrays(cupy, cols=cols), 1.0, relu=False)
    caller = calls.caller(tuned._affine)
    assert all(len(memo) <= 3 for memo in caller.plans.values())
    assert all(len(memo) <= 3 for opened in caller.lanes.values() for memo in opened.memos.values())
    assert [launch.arguments[4] for launch in cuda.launches] == [*range(1, 9), *range(1, 9)]


def test_alignment_is_looked_at_again_at_every_call(tuned, cupy, cuda):
    for offset, block in ((0, 128), (4, 64), (16, 128)):
        tuned.affine(affine_arrays(cupy, offset=offset), 1.0, relu=False)
        assert cuda.launches[-1].block == (block, 1, 1)


def test_initialised_buffers_are_zeroed_before_the_launches_on_the_same_stream(tuned, cupy, cuda):
    total, x = cupy.ndarray((2,), "float32"), cupy.ndarray((65536, 2), "float32")
    stream = cupy.cuda.Stream(77)
    result = tuned.accumulate(total, x, stream=stream)
    assert result[0] is total
    assert cuda.events == ["memset", "memset", "partials", "finish"]
    assert [(size, s) for _, _, size, s in cuda.memsets] == [(4, 77), (64 * 2 * 4, 77)]
    assert {launch.stream for launch in cuda.launches} == {77}
    assert cupy.allocated == [((1,), "float32", 77), ((64 * 2 * 4,), "uint8", 77)]
    partial = cuda.launches[0].arguments[0]
    assert cuda.launches[1].arguments == (total.data.ptr, result[1].data.ptr, partial)
    assert cuda.launches[0].arguments == (partial, x.data.ptr, 65536)


def test_the_current_stream_is_used_and_left_as_it_was(tuned, cupy, cuda):
    with cupy.cuda.Stream(5):
        tuned.affine(affine_arrays(cupy), 1.0, relu=False)
        tuned.affine(affine_arrays(cupy), 1.0, relu=False, stream=cupy.cuda.Stream(6))
        assert cupy.cuda.get_current_stream().ptr == 5
    assert [launch.stream for launch in cuda.launches] == [5, 6]


def test_the_arrays_device_is_made_current_and_restored(tuned, cupy, cuda):
    tuned.affine(affine_arrays(cupy, device=1), 1.0, relu=False)
    assert cuda.launches[0].device == 1
    assert cupy.cuda.runtime.getDevice() == 0
    tuned.affine(affine_arrays(cupy, device=0), 1.0, relu=False)
    assert len(cuda.loaded) == 2  # a module belongs to a device's context


def test_the_device_is_restored_after_an_error(tuned, cupy):
    with pytest.raises(tuned.PretunedError):
        tuned.affine(affine_arrays(cupy, cols=0, device=1), 1.0, relu=False)
    assert cupy.cuda.runtime.getDevice() == 0


def test_an_empty_grid_launches_nothing_and_still_initialises_the_output(tuned, cupy, cuda):
    total, last = tuned.accumulate(cupy.ndarray((2,), "float32"), cupy.ndarray((0, 2), "float32"))
    assert cuda.launches == []
    assert cuda.memsets == [(last.data.ptr, 0, 4, 0)]
    assert total.shape == (2,)


def test_threads_share_nothing_of_a_call(tuned, cupy, cuda):
    failures = []

    def work(cols):
        try:
            for _ in range(50):
                x = affine_arrays(cupy, cols=cols)
                y = tuned.affine(x, float(cols), relu=False)
                wanted = (y.data.ptr, x.data.ptr, float(cols), 16, cols)
                if wanted not in [launch.arguments for launch in list(cuda.launches)]:
                    failures.append(wanted)
        except Exception as error:  # noqa: BLE001 - a thread's error is the test's
            failures.append(error)

    threads = [threading.Thread(target=work, args=(64 * index,)) for index in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(cuda.launches) == 400


class Foreign:
    __module__ = "numpy"

    def __array__(self):
        raise AssertionError("copied")


def wrong_calls():
    """Yield (name, call, error, message) for each thing that a call can get wrong."""
    x = affine_arrays
    yield (
        "numpy",
        lambda t, c: t.affine(Foreign(), 1.0, relu=False),
        TypeError,
        (
            "pkg.tuned.affine: x: expected an array on the GPU (CuPy, PyTorch, or one with __cuda_array_interface__ or "
            "__dlpack__), found numpy.Foreign; move it with cupy.asarray(x) or torch.as_tensor(x, device='cuda')"
        ),
    )
    yield (
        "none",
        lambda t, c: t.affine(None, 1.0, relu=False),
        TypeError,
        ("pkg.tuned.affine: x: expected an array on the GPU"),
    )
    yield (
        "strided",
        lambda t, c: t.affine(x(c, contiguous=False), 1.0, relu=False),
        ValueError,
        (
            "pkg.tuned.affine: x: expected a C-contiguous array, found strides (0, 0) for shape (16, 1024); "
            "copy it with cupy.ascontiguousarray(x)"
        ),
    )
    yield (
        "dtype",
        lambda t, c: t.affine(x(c, dtype="float64"), 1.0, relu=False),
        TypeError,
        ("pkg.tuned.affine: x: expected dtype float16 or float32, found float64"),
    )
    yield (
        "byte order",
        lambda t, c: t.affine(x(c, dtype=">f4"), 1.0, relu=False),
        TypeError,
        ("pkg.tuned.affine: x: expected dtype float16 or float32, found >f4"),
    )
    yield (
        "output dtype",
        lambda t, c: t.affine(x(c), 1.0, relu=False, y=x(c, dtype="float16")),
        TypeError,
        ("pkg.tuned.affine: y: expected dtype float32 (T), found float16"),
    )
    yield (
        "fixed dtype",
        lambda t, c: t.accumulate(c.ndarray((2,), "int32"), c.ndarray((9, 2), "float32")),
        TypeError,
        ("pkg.tuned.accumulate: total: expected dtype float32, found int32"),
    )
    yield (
        "rank",
        lambda t, c: t.affine(c.ndarray((16,), "float32"), 1.0, relu=False),
        ValueError,
        ("pkg.tuned.affine: x: expected 2 dimensions (rows, cols), found 1: (16,)"),
    )
    yield (
        "output shape",
        lambda t, c: t.affine(x(c), 1.0, relu=False, y=x(c, cols=1000)),
        ValueError,
        ("pkg.tuned.affine: y: expected shape (rows, cols) = (16, 1024), found (16, 1000)"),
    )
    yield (
        "input shape",
        lambda t, c: t.accumulate(c.ndarray((4,), "float32"), c.ndarray((9, 2), "float32")),
        ValueError,
        ("pkg.tuned.accumulate: x: expected shape (n, lanes) = (9, 4), found (9, 2)"),
    )
    yield (
        "constant dim",
        lambda t, c: t.accumulate(c.ndarray((3,), "float32"), c.ndarray((9, 3), "float32")),
        ValueError,
        ("pkg.tuned.accumulate: not shipped for lanes=3; shipped are lanes=2; lanes=4"),
    )
    yield (
        "keyword",
        lambda t, c: t.affine(x(c), 1.0, relu="yes"),
        ValueError,
        ("pkg.tuned.affine: relu: expected one of False, True, found 'yes'"),
    )
    yield (
        "devices",
        lambda t, c: t.affine(x(c), 1.0, relu=False, y=x(c, device=1)),
        ValueError,
        ("pkg.tuned.affine: x: expected device 1 as y has, found device 0"),
    )
    yield (
        "requires",
        lambda t, c: t.affine(x(c, cols=0), 1.0, relu=False),
        ValueError,
        ("pkg.tuned.affine: requires cols >= 1, found cols=0, rows=16"),
    )
    yield (
        "int32",
        lambda t, c: t.accumulate(c.ndarray((2,), "float32"), c.ndarray((2**31, 2), "float32")),
        ValueError,
        ("pkg.tuned.accumulate: n: expected at most 2147483647 (int32), found 2147483648"),
    )
    yield (
        "grid",
        lambda t, c: t.affine(x(c, rows=1, cols=2**24), 1.0, relu=True),
        ValueError,
        ("a grid of 131072 blocks along y, and 0 to 65535 are possible"),
    )
    yield (
        "scalar kind",
        lambda t, c: t.affine(x(c), "2", relu=False),
        TypeError,
        ("pkg.tuned.affine: alpha: expected float32, found '2'"),
    )
    yield (
        "scalar range",
        lambda t, c: t.affine(x(c), 1e300, relu=False),
        ValueError,
        ("pkg.tuned.affine: alpha: expected float32, found 1e+300"),
    )
    yield (
        "scalar on the GPU",
        lambda t, c: t.affine(x(c), c.ndarray((), "float32"), relu=False),
        TypeError,
        (
            "pkg.tuned.affine: alpha: expected a number, found an array on the GPU; "
            "pass alpha.item(), which waits for the GPU"
        ),
    )
    yield (
        "stream",
        lambda t, c: t.affine(x(c), 1.0, relu=False, stream="7"),
        TypeError,
        (
            "pkg.tuned.affine: stream: expected a CuPy or PyTorch stream, an object with __cuda_stream__, a handle, "
            "or None, found str"
        ),
    )
    yield (
        "stream's device",
        lambda t, c: t.affine(x(c), 1.0, relu=False, stream=c.cuda.Stream(5, 1)),
        TypeError,
        ("pkg.tuned.affine: stream: expected device 0 as the arrays have, found device 1"),
    )


@pytest.mark.parametrize(("call", "kind", "message"), [pytest.param(*rest, id=name) for name, *rest in wrong_calls()])
def test_a_wrong_call_is_refused_by_name_before_anything_runs(tuned, cupy, call, kind, message, cuda):
    with pytest.raises(kind, match=re.escape(message)) as caught:
        call(tuned, cupy)
    assert isinstance(caught.value, tuned.PretunedError)
    assert cuda.launches == cuda.memsets == []


@pytest.mark.parametrize("shift", [0, 4, -4, 16 * 1024 * 4 - 4])
def test_an_output_may_not_share_memory_with_an_input(tuned, cupy, shift, cuda):
    x = affine_arrays(cupy)
    y = affine_arrays(cupy, address=x.data.ptr + shift)
    with pytest.raises(ValueError, match=r"pkg\.tuned\.affine: y: shares memory with x"):
        tuned.affine(x, 1.0, relu=False, y=y)
    assert cuda.launches == []


def test_neighbours_in_memory_do_not_overlap(tuned, cupy, cuda):
    x = affine_arrays(cupy)
    tuned.affine(x, 1.0, relu=False, y=affine_arrays(cupy, address=x.data.ptr + x.nbytes))
    assert len(cuda.launches) == 1


def test_an_error_is_not_remembered_as_a_success(tuned, cupy):
    for _ in range(2):
        with pytest.raises(ValueError, match="requires cols >= 1"):
            tuned.affine(affine_arrays(cupy, cols=0), 1.0, relu=False)


def test_numbers_of_other_libraries_are_numbers(tuned, cupy, cuda):
    numpy = pytest.importorskip("numpy")
    tuned.affine(affine_arrays(cupy), numpy.float32(0.5), relu=numpy.bool_(False))
    assert cuda.launches[0].arguments[2] == 0.5
