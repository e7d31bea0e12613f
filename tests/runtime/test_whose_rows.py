"""Whose rows a device takes: its own, those of a device like it, with a warning those of one less like it, or none."""

import importlib

import pytest

from real_devices import A100, DEVICES, GOLDEN, H100, H200, SLICE, TAIL, Chooser

SM_COUNT, MAJOR, CLOCK_KHZ, BUS_BITS, L2_BYTES = 16, 75, 36, 37, 38  # CUdevice_attribute
MEASURED = (64, 1024, 16384)  # the columns of the sample's rows


@pytest.fixture
def chooser(tuned):
    return Chooser(lambda name: importlib.import_module(f"{tuned.__name__}._runtime.{name}"))


def only(chooser, *cols):
    """The rows at these columns alone."""
    return tuple(row for row in chooser.rows if row[1]["cols"] in cols)


def test_real_devices_and_slices_of_them_take_the_rows_that_the_table_says(chooser):
    assert chooser.text() == GOLDEN.read_text(), "run `python tests/support/real_devices.py`, and read what changes"
    assert len(DEVICES) == 26


def test_one_row_of_its_own_does_not_hide_the_table_of_a_device_like_it(chooser):
    table = {H200: only(chooser, 16384), H100: only(chooser, *MEASURED)}
    assert {cols: chooser.decide(H200, table, cols).device for cols in MEASURED} == {
        64: H100,
        1024: H100,
        16384: H200,
    }
    found = chooser.decide(H200, table, 1024)
    assert found.why[0] == (
        f"nearest device of compute capability 9.0, '{H100}' (132 SMs and 132 here, 3352 GB/s of memory and 4814 here, "
        "50 MiB of L2 and 50 here)"
    )
    assert not found.warning


def test_a_row_of_its_own_at_another_size_goes_before_rows_of_a_device_less_like_it(chooser):
    pcie = "NVIDIA H100 PCIe"
    table = {pcie: only(chooser, 16384), H100: only(chooser, *MEASURED)}
    found = chooser.decide(pcie, table, 64)
    assert (found.device, found.row.measured["cols"], found.warning) == (pcie, 16384, "")


def test_where_no_row_is_of_the_calls_bucket_the_nearest_to_the_calls_own_size_answers(chooser):
    rows = {H100: only(chooser, 64, 16384)}  # the bucket of 1024 goes from 256 to 4095
    assert chooser.decide(H100, rows, 300).row.measured["cols"] == 64
    assert chooser.decide(H100, rows, 4000).row.measured["cols"] == 16384


def test_a_selection_of_its_own_goes_before_the_rows_of_a_device_like_it(chooser):
    table = {H100: only(chooser, *MEASURED), H200: only(chooser, 64)}
    found = chooser.decide(H200, table, 1024, selected=[H200])
    assert (found.device, found.row, found.selection is None) == (H200, None, False)
    assert chooser.decide(H200, table, 64, selected=[H200]).row.measured["cols"] == 64  # measured here


def test_a_selection_of_a_device_like_it_goes_before_rows_of_other_sizes(chooser):
    table = {H100: (), H200: only(chooser, 64)}
    assert chooser.decide(H200, table, 1024, selected=[H100]).device == H100
    pcie = "NVIDIA H100 PCIe"  # less like them: with a warning, and so after all rows of its own
    assert chooser.decide(pcie, {pcie: only(chooser, 64), H100: ()}, 1024, selected=[H100]).device == pcie


def test_among_devices_the_one_most_alike_answers(chooser):
    table = dict.fromkeys((H200, "NVIDIA H100 NVL", "NVIDIA H100 PCIe"), chooser.rows)
    assert chooser.decide(H100, table).device == "NVIDIA H100 NVL"


def test_a_bandwidth_that_is_not_known_is_worth_a_warning(chooser, monkeypatch):
    monkeypatch.setitem(DEVICES, "NVIDIA H100 64GB", (132, 90, 0, 50))
    found = chooser.decide("NVIDIA H100 64GB", {H100: chooser.rows})
    assert found.device == H100
    assert found.warning.endswith("are used: a memory bandwidth is not known")


def slice_of(cuda):
    """Make the first GPU a slice of 16 SMs."""
    cuda.devices[0].update({"name": SLICE, SM_COUNT: 16, BUS_BITS: 640, L2_BYTES: 6 << 20})


def test_a_slice_runs_the_default_and_says_so_once(tuned, cupy, cuda, recwarn):
    slice_of(cuda)
    for cols in (64, 1024, 4096):
        tuned.affine(cupy.ndarray((16, cols), "float32"), 1.0, relu=False)
        assert cuda.launches[-1].block == (128, 1, 1)
    (warning,) = recwarn
    assert str(warning.message) == (
        f"pkg.tuned.affine: no row for the device '{SLICE}' or one like it ('{H100}' has 132 SMs where this device has "
        f"16): the default runs, untuned{TAIL}"
    )


def test_rows_of_a_device_less_like_it_are_used_and_that_is_said_once(tuned, cupy, cuda, recwarn):
    cuda.devices[0].update({"name": "NVIDIA H100 PCIe", SM_COUNT: 114, CLOCK_KHZ: 1593000})
    for cols in (64, 65, 1024):
        tuned.affine(cupy.ndarray((16, cols), "float32"), 1.0, relu=False)
    assert cuda.launches[-1].block == (128, 1, 1)
    assert cuda.launches[-1].grid[1] == 2  # four elements a thread: the winner
    (warning,) = recwarn
    assert str(warning.message) == (
        f"pkg.tuned.affine: no row for the device 'NVIDIA H100 PCIe', and those of '{H100}' are used: "
        f"it has 3352 GB/s of memory where this device has 2039{TAIL}"
    )


def test_strict_refuses_what_would_be_warned_of(tuned, cupy, cuda):
    slice_of(cuda)
    with tuned.using(strict=True), pytest.raises(RuntimeError, match="132 SMs where this device has 16"):
        tuned.affine(cupy.ndarray((16, 64), "float32"), 1.0, relu=False)
    cuda.devices[1].update({"name": "NVIDIA H100 PCIe", SM_COUNT: 114, CLOCK_KHZ: 1593000})
    with tuned.using(strict=True), pytest.raises(RuntimeError, match="and strict is set"):
        tuned.affine(cupy.ndarray((16, 64), "float32", device=1), 1.0, relu=False)


def test_rows_that_were_asked_for_are_used_anywhere_without_a_warning(tuned, cupy, cuda, recwarn):
    slice_of(cuda)
    with tuned.using(device=A100):
        tuned.affine(cupy.ndarray((16, 1024), "float32"), 1.0, relu=False)
    assert cuda.launches[-1].block == (1024, 1, 1)
    assert [one for one in recwarn if one.category.__name__ == "UntunedWarning"] == []


def test_explain_names_the_device_whose_rows_run(tuned, cuda):
    cuda.devices[0].update({"name": H200, CLOCK_KHZ: 3761000})
    found = tuned.explain("affine", rows=16, cols=1024, T="float32", relu=False)
    assert found.rows_of == H100
    assert f"'{H100}' (132 SMs and 132 here, 3352 GB/s of memory and 4814 here" in str(found)
