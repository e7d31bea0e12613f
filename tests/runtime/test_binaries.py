"""Loading: which binary is taken on which device and driver, and what is said where none can be."""

import re
from types import SimpleNamespace

import pytest


def affine(tuned, cupy):
    tuned.affine(cupy.ndarray((16, 1024), "float32"), 1.0, relu=True)
    return cupy.library.loaded[-1].rpartition(" ")[2]


def shipping(tuned, *images):
    """A kernel that ships the source `m` with these binaries."""
    records = __import__(f"{tuned.__name__}._runtime.records", fromlist=["records"])
    return SimpleNamespace(binaries=records.binaries_of({"m": ((), False, images)}, {"m"}))


def set_device(cupy, major, minor):
    cupy.library.devices[0].update({"name": "some GPU", 75: major, 76: minor})


@pytest.mark.filterwarnings("ignore:.*no row for the device")
@pytest.mark.parametrize(
    ("major", "minor", "image"),
    [
        (9, 0, "sm_90"),
        (8, 0, "sm_80"),
        (8, 9, "sm_80"),  # a later minor version runs it
        (10, 0, "compute_80"),
        (12, 1, "compute_80"),
    ],
)
def test_the_best_binary_for_a_device(tuned, cupy, major, minor, image):
    set_device(cupy, major, minor)
    assert affine(tuned, cupy) == image
    assert cupy.compiled == []


@pytest.mark.filterwarnings("ignore:.*no row for the device")
@pytest.mark.parametrize("eager", [True, False])
def test_ptx_where_the_driver_refuses_the_cubin(tuned, cupy, cuda, eager):
    cuda.refused, cuda.eager = {"sm_90"}, eager
    assert affine(tuned, cupy) == "compute_80"
    assert len(cuda.libraries) == 1  # what was refused is not kept


def test_a_binary_is_loaded_once_for_all_devices(tuned, cupy, cuda):
    for device in (0, 1, 0, 1):
        cupy._local.device, cuda._local.context = device, 1000 + device
        tuned.affine(cupy.ndarray((16, 1024), "float32", device=device), 1.0, relu=True)
    assert len(cuda.libraries) == 1
    assert len(cuda.loaded) == 2
    assert [launched.device for launched in cuda.launches] == [0, 1, 0, 1]


@pytest.mark.filterwarnings("ignore:.*no row for the device")
def test_devices_that_take_different_binaries_have_their_own(tuned, cupy, cuda):
    cuda.devices[1].update({"name": "NVIDIA A100-SXM4-40GB", 75: 8, 76: 0})
    for device in (0, 1):
        cupy._local.device, cuda._local.context = device, 1000 + device
        tuned.affine(cupy.ndarray((16, 1024), "float32", device=device), 1.0, relu=True)
    assert [image.rpartition(" ")[2] for image in cuda.loaded] == ["sm_90", "sm_80"]
    assert len(cuda.libraries) == 2


def test_a_device_older_than_everything_that_ships_compiles(tuned, cupy, cuda):
    set_device(cupy, 7, 5)
    cuda.refused = {"sm_", "compute_"}
    compiled = r"was compiled for 'some GPU' while the program runs \(no binary is shipped\)"
    with pytest.warns(UserWarning, match="no row for the device"), pytest.warns(UserWarning, match=compiled):
        assert affine(tuned, cupy).rstrip("\0") == "nvrtc"
    assert cupy.compiled[0][0].startswith("using T = float;")


def test_a_driver_older_than_the_compiler_is_not_given_its_binaries(tuned, cupy, cuda):
    cuda.version = 12080
    with pytest.warns(UserWarning, match="the driver supports CUDA 12.8"):
        affine(tuned, cupy)
    assert [image.rstrip("\0") for image in cuda.loaded] == ["compiled by nvrtc"]


@pytest.mark.parametrize("refuses", ["cuLibraryLoadData", "cuKernelGetFunction"])
def test_what_was_tried_stands_in_the_error(tuned, cupy, cuda, refuses):
    cuda.eager = refuses == "cuLibraryLoadData"
    cuda.refused, cupy.nvrtc_works = {"sm_90", "compute_80"}, False
    with pytest.raises(RuntimeError) as caught:
        affine(tuned, cupy)
    assert isinstance(caught.value, tuned.PretunedError)
    text = re.sub("affine-[0-9a-f]{12}", "affine", str(caught.value))
    assert text == (
        "pkg.tuned.affine: nothing shipped runs on 'NVIDIA H100 80GB HBM3' (compute capability 9.0, driver for "
        "CUDA 13.0); tried:\n"
        f"  affine.sm_90.cubin: {refuses}: CUDA_ERROR_NO_BINARY_FOR_GPU\n"
        f"  affine.compute_80.ptx: {refuses}: CUDA_ERROR_NO_BINARY_FOR_GPU\n"
        "  affine.cu: RuntimeError: NVRTC_ERROR_COMPILATION: kernel.cu(1): error: identifier is undefined"
    )


@pytest.mark.parametrize(
    ("capability", "supports", "files"),
    [
        (90, 13000, ["m.sm_90a.cubin", "m.sm_90.cubin", "m.compute_80.ptx"]),
        (100, 13000, ["m.compute_80.ptx"]),
        (86, 13000, ["m.sm_86.cubin", "m.sm_80.cubin", "m.compute_80.ptx"]),
        (80, 13000, ["m.sm_80.cubin", "m.compute_80.ptx"]),
        (75, 13000, []),
    ],
)
def test_features_of_one_architecture_run_nowhere_else(tuned, capability, supports, files):
    binaries = __import__(f"{tuned.__name__}._runtime.binaries", fromlist=["binaries"])
    devices = __import__(f"{tuned.__name__}._runtime.devices", fromlist=["devices"])

    architectures = ("compute_80", "sm_80", "sm_86", "sm_90", "sm_90a")
    kernel = shipping(tuned, *((name, "13.0.88", {}) for name in architectures))
    device = devices.Device("d", {"compute_capability": capability, "cuda": supports})
    found = binaries.images(kernel, "m", device)
    assert sorted(file for file, _ in found) == sorted(files)
    assert [skip for _, skip in found] == [""] * len(files)
    assert not files or found[-1][0].endswith(".ptx")


@pytest.mark.parametrize(
    ("compiler", "supports", "skipped"),
    [
        ("13.0.88", 13000, set()),
        ("13.4.1", 13000, {"m.compute_80.ptx"}),  # minor versions are compatible for cubins alone
        ("13.0.88", 12090, {"m.sm_90.cubin", "m.compute_80.ptx"}),
        ("12.9.1", 13000, set()),
    ],
)
def test_what_a_driver_is_too_old_for(tuned, compiler, supports, skipped):
    binaries = __import__(f"{tuned.__name__}._runtime.binaries", fromlist=["binaries"])
    devices = __import__(f"{tuned.__name__}._runtime.devices", fromlist=["devices"])

    kernel = shipping(tuned, ("compute_80", compiler, {}), ("sm_90", compiler, {}))
    device = devices.Device("d", {"compute_capability": 90, "cuda": supports})
    assert {file for file, skip in binaries.images(kernel, "m", device) if skip} == skipped
