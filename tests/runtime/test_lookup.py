"""Which configuration runs: devices, buckets, guards, what lies beyond, and what does not fit."""

import re

import pytest

DEFAULT = (128, 1, 1)
# CUdevice_attribute
MAX_THREADS, REGISTERS, SM_COUNT, CLOCK_KHZ, MAJOR, MINOR, SHARED_BYTES = 1, 12, 16, 36, 75, 76, 97


def run(tuned, cupy, cols, rows=16, **options):
    """Call affine and return the block and the elements a thread takes: what tells its configurations apart."""
    tuned.affine(cupy.ndarray((rows, cols), "float32", **options), 1.0, relu=False)
    launch = cupy.library.launches[-1]
    return launch.block[0], -(-cols // (launch.grid[1] * launch.block[0]))


@pytest.mark.parametrize(
    ("cols", "block"),
    [
        (64, 64),  # the winner at 64 (block 64, vec 2)
        (254, 64),  # the last of its bucket that is even
        (256, 128),  # the edge, isqrt(64 * 1024), belongs to the next: block 128, vec 4
        (4092, 128),
        (4096, 64),  # isqrt(1024 * 16384): block 64, vec 4
        (16384, 64),
    ],
)
def test_buckets_meet_at_their_edges(tuned, cupy, cols, block):
    assert run(tuned, cupy, cols)[0] == block


@pytest.mark.parametrize(
    ("cols", "block"),
    [
        (1022, 64),  # the winner takes 4 at a time; the second choice (block 64, vec 1) has no guard
        (255, 128),  # nothing but the default is left
    ],
)
def test_a_choice_whose_guard_fails_gives_way_to_the_next(tuned, cupy, cols, block, cuda):
    run(tuned, cupy, cols)
    assert cuda.launches[-1].block == (block, 1, 1)


def test_beyond_the_sizes_only_confirmed_winners_run(tuned, cupy, cuda):
    assert run(tuned, cupy, 32)[0] == 64  # confirmed below
    assert run(tuned, cupy, 65536)[0] == 128  # not confirmed above: the default
    tuned.accumulate(cupy.ndarray((2,), "float32"), cupy.ndarray((2**20, 2), "float32"))
    assert cuda.launches[-1].function == "finish"  # confirmed above
    tuned.accumulate(cupy.ndarray((2,), "float32"), cupy.ndarray((8, 2), "float32"))
    assert cuda.launches[-1].block == (256, 1, 1)  # not confirmed below


def test_a_dim_with_one_size_has_no_beyond(tuned, cupy):
    assert run(tuned, cupy, 64, rows=1)[0] == run(tuned, cupy, 64, rows=5000)[0] == 64


def test_a_bucket_without_a_row_is_answered_by_the_nearest(tuned, cupy):
    found = tuned.explain("affine", device="NVIDIA A100-SXM4-40GB", rows=16, cols=100, T="float32", relu=False)
    assert found.configuration == {"block": 1024, "vec": 1}
    assert "the bucket of cols=64, rows=16 has no row of its own, cols=1024, rows=16 is nearest" in "; ".join(found.why)


@pytest.mark.parametrize(
    ("name", "sms", "major", "block"),
    [
        ("NVIDIA H100 80GB HBM3", 132, 9, 64),
        ("H100 80GB HBM3", 132, 9, 64),  # as drivers of another age call it
        ("NVIDIA H200", 132, 9, 64),  # the nearest of capability 9.0
        ("NVIDIA A100-SXM4-80GB", 108, 8, 1024),
        ("NVIDIA L4", 58, 12, 128),  # nothing like it: the default
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_rows_of_the_device_or_one_like_it(tuned, cupy, name, sms, major, block, cuda):
    clock_khz = 1593000 if "A100" in name else 2619000
    cuda.devices[0].update({"name": name, SM_COUNT: sms, MAJOR: major, CLOCK_KHZ: clock_khz})
    cuda.devices[0]["minor"] = 0
    assert run(tuned, cupy, 64 if major == 9 else 1024)[0] == block


@pytest.mark.parametrize(
    ("limit", "value", "reason"),
    [
        (1, 100, "128 threads a block, and the device takes 1 to 100"),
        (12, 2048, "4096 registers a block, and the device has 2048"),
        (97, 300, "512 bytes of shared memory a block, and the device has 300"),
    ],
)
def test_a_choice_that_does_not_fit_the_device_is_passed_over(tuned, cupy, limit, value, reason, cuda):
    cuda.devices[0][limit] = value
    assert run(tuned, cupy, 1024)[0] == 64
    found = tuned.explain("affine", rows=16, cols=1024, T="float32", relu=False)
    assert found.configuration == {"block": 64, "vec": 1}
    assert f"passed over block=128, vec=4: {reason}" in found.why


def test_a_default_that_does_not_fit_either_is_an_error_with_the_reasons(tuned, cupy, cuda):
    cuda.devices[0][1] = 32
    with pytest.raises(ValueError, match=re.escape("affine: no configuration can run this call")) as caught:
        run(tuned, cupy, 1024)
    assert "passed over block=128, vec=1: 128 threads a block" in str(caught.value)


def test_a_specialisation_without_rows_runs_its_default_and_says_so(tuned, cupy, cuda):
    with pytest.warns(UserWarning, match="no row for the device 'NVIDIA H100 80GB HBM3' or one like it"):
        tuned.affine(cupy.ndarray((16, 1024), "float16"), 1.0, relu=False)
    assert cuda.launches[-1].block == DEFAULT


def test_an_untuned_device_warns_once(tuned, cupy, recwarn, cuda):
    cuda.devices[0].update({"name": "NVIDIA L4", MAJOR: 8, MINOR: 9})
    for cols in (64, 65, 66):
        run(tuned, cupy, cols)
    (warning,) = recwarn
    assert warning.category.__name__ == "UntunedWarning"
    assert warning.filename == __file__
    assert "'NVIDIA L4'" in str(warning.message)
    assert "PRETUNED_WARN=0" in str(warning.message)
