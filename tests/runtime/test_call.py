"""A call: what is checked, what is launched, what comes back."""

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
    paths = __import__(f"{tuned.__name__}._runtime.fastpath.paths", fromlist=["paths"])
    monkeypatch.setattr(calls, "REMEMBERED", 3)
    monkeypatch.setattr(paths, "REMEMBERED", 3)
    for cols in [*range(1, 9), *range(1, 9)]:
        tuned.affine(affine_arrays(cupy, cols=cols), 1.0, relu=False)
    caller = calls.caller(tuned._affine)
    assert all(len(memo) <= 3 for memo in caller.plans.values())
    assert all(len(memo) <= 3 for path in caller.paths.values() for memo in path.memos.values())
    assert [launch.arguments[4] for launch in cuda.launches] == [*range(1, 9), *range(1, 9)]
    ((_, memo),) = caller.plans.items()
    assert [key[2][1][1][1] for key in memo] == [6, 7, 8]  # the oldest made way, one by one


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


def test_scratch_is_taken_in_the_order_of_the_stream(tuned, cupy, cuda):
    for stream in (77, 77, 77, 78, None):  # from the third on by the fast path
        total, last, x = (cupy.ndarray(shape, "float32") for shape in ((2,), (1,), (65536, 2)))
        tuned.accumulate(total, x, last=last, stream=None if stream is None else cupy.cuda.Stream(stream))
        (nbytes,), dtype, taken_on = cupy.allocated[-1]
        assert (nbytes >= 64 * 2 * 4, dtype, taken_on) == (True, "uint8", stream or 0)
        assert cuda.launches[-1].stream == (stream or 0)


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
