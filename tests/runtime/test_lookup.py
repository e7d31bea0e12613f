"""Which configuration runs: rows, selections, devices, guards, and what does not fit."""

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
        (32, 64),  # the winner at 64: block 64, vec 2
        (64, 64),
        (254, 64),
        (256, 64),  # 64 and 1024 are equally near: the smaller
        (260, 128),  # the winner at 1024: block 128, vec 4
        (4092, 128),
        (4100, 64),  # the winner at 16384: block 64, vec 4
        (16384, 64),
        (65536, 64),
    ],
)
def test_without_a_selection_the_nearest_row_answers(tuned, cupy, cols, block):
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


def test_a_hole_among_the_rows_is_answered_by_the_nearest(tuned, cupy):
    found = tuned.explain("affine", device="NVIDIA A100-SXM4-40GB", rows=16, cols=100, T="float32", relu=False)
    assert found.configuration == {"block": 1024, "vec": 1}
    assert "there is no selection, and cols=1024, rows=16 was measured nearest" in found.why


def selected(tuned, cols, rows=16, **options):
    """Return what is explained where a selection decides."""
    return tuned.explain("affine", device="NVIDIA H100 80GB HBM3", rows=rows, cols=cols, T="float32", relu=True)


@pytest.mark.parametrize(
    ("cols", "configuration", "why"),
    [
        (64, {"block": 128, "vec": 1}, "the row's default"),  # measured
        (128, {"block": 128, "vec": 1}, "the selection's default"),
        (1536, {"block": 64, "vec": 1}, "the selection's choice"),  # 8.35 us for 9.68
        (1100, {"block": 128, "vec": 1}, "the selection's default"),  # 8.21 us for 7.76
        (8192, {"block": 64, "vec": 4}, "the selection's choice"),
        (8190, {"block": 64, "vec": 1}, "the selection's choice"),  # the best takes 4 at a time: the next best
    ],
)
def test_between_the_rows_the_selection_decides(tuned, cols, configuration, why):
    found = selected(tuned, cols)
    assert (found.configuration, found.why[-1]) == (configuration, why)


def test_calls_run_what_the_selection_says(tuned, cupy, cuda):
    for cols in (128, 1536, 8190, 8192, 8193):
        for _ in range(3):  # by the slow path, and by the fast one
            tuned.affine(cupy.ndarray((16, cols), "float32"), 1.0, relu=True)
            found = selected(tuned, cols).configuration
            launch = cuda.launches[-1]
            assert (launch.block[0], launch.grid[1]) == (found["block"], -(-cols // (found["block"] * found["vec"])))


def test_outside_its_reach_a_selection_asks_for_the_wider_margin(tuned):
    inside, outside = selected(tuned, 1100, rows=16), selected(tuned, 1100, rows=15)
    assert (inside.margin, inside.within_reach) == (0.02, True)
    assert (outside.margin, outside.within_reach) == (0.1, False)


def test_overrides_come_before_a_selection(tuned, monkeypatch):
    with tuned.using(affine={"block": 64, "vec": 1}):
        assert selected(tuned, 8192).configuration == {"block": 64, "vec": 1}
    with tuned.using(defaults=True):
        found = selected(tuned, 8192)
    assert (found.configuration, found.predicted_us) == ({"block": 128, "vec": 1}, None)


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
