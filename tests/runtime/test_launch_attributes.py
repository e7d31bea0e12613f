"""Launches with attributes at run time: what the driver is given, and what is refused before it is asked."""

import pytest

import attributed
import fake_cuda
import sample

CLUSTER, COOPERATIVE, PDL = 4, 2, 6  # CUlaunchAttributeID
A100 = dict(fake_cuda.H100) | {"name": "NVIDIA A100-SXM4-40GB", 75: 8, 76: 0, 16: 108}
CALLS = 4  # the first two from the beginning, then by the fast path, then packed before


@pytest.fixture
def wide(load, cupy, cuda, monkeypatch, tmp_path):
    """What makes a package of `attributed.package` and imports it."""
    monkeypatch.setitem(fake_cuda.SIGNATURES, "affine", "QQi")
    return lambda launch, *won, **options: load(attributed.package(tmp_path / "made", launch, *won, **options)).wide


def attributes(cuda):
    return [launched.attributes for launched in cuda.launches]


def grids(cuda):
    return [launched.grid for launched in cuda.launches]


@pytest.mark.parametrize(
    ("launch", "given"),
    [
        ("cooperative = true", {COOPERATIVE: (1,)}),
        ('cluster = ["size"]', {CLUSTER: (4, 1, 1)}),
        ('overlap = "pdl"', {PDL: (1,)}),
        ('cluster = ["size"]\noverlap = "pdl"', {CLUSTER: (4, 1, 1), PDL: (1,)}),
        ('cluster = ["size"]\ncooperative = true', {CLUSTER: (4, 1, 1), COOPERATIVE: (1,)}),
    ],
)
def test_every_way_to_call_passes_the_attributes(wide, cupy, cuda, launch, given):
    cuda.resident = 1000
    kernel, x = wide(launch, 4), cupy.ndarray((1024,), "float32")
    for _ in range(CALLS):
        out = kernel(x)
    for _ in range(CALLS):
        kernel(x, out=out)
    bound = kernel.bind(x, out=out)
    bound()
    assert attributes(cuda) == [given] * (2 * CALLS + 1)
    assert cuda.direct == 0  # which takes none
    assert [launched.arguments[1:] for launched in cuda.launches] == [(x.data.ptr, 1024)] * (2 * CALLS + 1)
    assert {launched.stream for launched in cuda.launches} == {0}


def test_a_bound_call_keeps_its_attributes_when_the_plan_is_forgotten(wide, cupy, cuda):
    kernel, x = wide("cooperative = true", 4), cupy.ndarray((1024,), "float32")
    bound = kernel.bind(x)
    bound()
    with __import__("pkg.tuned", fromlist=["using"]).using(defaults=True):
        kernel(x)
    bound()
    assert attributes(cuda) == [{COOPERATIVE: (1,)}] * 3


def test_configurations_with_and_without_attributes_share_a_fast_path(wide, cupy, cuda):
    kernel = wide('cluster = ["size"]', 2)
    x, pair = cupy.ndarray((1024,), "float32"), cupy.ndarray((65536,), "float32")
    using = __import__("pkg.tuned", fromlist=["using"]).using
    for _ in range(CALLS):
        kernel(x)
    with using(wide={"size": 1}):
        for _ in range(CALLS):
            kernel(pair)
    assert attributes(cuda) == [{CLUSTER: (2, 1, 1)}] * CALLS + [{}] * CALLS


def test_a_cooperative_grid_that_the_device_does_not_hold_goes_to_the_next_configuration(wide, cupy, cuda):
    cuda.resident = 1  # a multiprocessor holds one block: 132 in all
    kernel = wide("cooperative = true", 16, 4, grid="64 * size if n > 1024 else 1")
    kernel(cupy.ndarray((65536,), "float32"))
    kernel(cupy.ndarray((1024,), "float32"))
    assert grids(cuda) == [(64, 1, 1), (1, 1, 1)]
    tuned = __import__("pkg.tuned", fromlist=["explain"])
    said = str(tuned.explain("wide", n=65536))
    assert "size=16: a cooperative grid of 1024 blocks, and the device holds 132 at once" in said
    assert "size=4: a cooperative grid of 256 blocks, and the device holds 132 at once" in said


def test_where_nothing_fits_the_error_says_why(wide, cupy, cuda):
    cuda.resident = 0
    kernel = wide("cooperative = true")
    with pytest.raises(ValueError, match="a block that the device cannot hold, by its registers and shared memory"):
        kernel(cupy.ndarray((1024,), "float32"))
    assert cuda.launches == []


def test_less_shared_memory_than_none_goes_to_the_next_configuration(wide, cupy, cuda):
    kernel = wide('shared = "n - 512 if size == 16 else 0"', 16, 2)
    kernel(cupy.ndarray((256,), "float32"))
    assert len(cuda.launches) == 1
    said = str(__import__("pkg.tuned", fromlist=["explain"]).explain("wide", n=256))
    assert "size=16: -256 bytes of dynamic shared memory a block, and 0 or more are possible" in said


def test_resident_blocks_are_what_the_driver_says_of_the_loaded_function(wide, cupy, cuda):
    cuda.resident = 3
    kernel = wide('shared = "1024 * size"', 2, grid="min(ceil_div(n, 256), device.resident_blocks)")
    kernel(cupy.ndarray((1 << 20,), "float32"))
    kernel(cupy.ndarray((1024,), "float32"))
    assert grids(cuda) == [(3 * 132, 1, 1), (4, 1, 1)]
    assert cuda.asked == [("affine", 256, 2048)] * 2
    assert attributes(cuda) == [{}, {}]


def test_of_a_device_that_is_only_named_resident_blocks_come_from_the_binary(wide):
    wide("cooperative = true", 16, grid="1024 * size")
    tuned = __import__("pkg.tuned", fromlist=["explain"])
    said = str(tuned.explain("wide", device="NVIDIA H100 80GB HBM3", n=1024))
    # 32 registers a thread of 256: 8 blocks on each of 132 multiprocessors
    assert "a cooperative grid of 16384 blocks, and the device holds 1056 at once" in said


@pytest.mark.filterwarnings("ignore:.*no row for the device")
def test_without_clusters_the_configuration_is_passed_over(wide, cupy, cuda):
    cuda.devices = [A100]
    wide('cluster = ["size"]', 4, 2)
    tuned = __import__("pkg.tuned", fromlist=["using"])
    with tuned.using(wide={"size": 4}):
        said = str(tuned.explain("wide", n=1024))
        assert "clusters need compute capability 9.0, and the device has 8.0" in said


def test_a_grid_that_clusters_do_not_divide_is_passed_over(wide, cupy, cuda):
    kernel = wide('cluster = ["size"]', 16, 2, grid="ceil_div(n, 256)")
    kernel(cupy.ndarray((1000,), "float32"))
    assert (grids(cuda), attributes(cuda)) == ([(4, 1, 1)], [{CLUSTER: (2, 1, 1)}])
    said = str(__import__("pkg.tuned", fromlist=["explain"]).explain("wide", n=1000))
    assert "size=16: a grid of 4 blocks along x, which is not a multiple of the cluster's 16" in said


def test_a_cluster_that_the_device_cannot_hold_is_passed_over(wide, cupy, cuda):
    cuda.resident = 0
    kernel = wide('cluster = ["size"]', 16)
    kernel(cupy.ndarray((1024,), "float32"))
    assert attributes(cuda) == [{}]
    assert cuda.asked == [("affine", 16, 1, 1, 256, 1, 1, {CLUSTER: (16, 1, 1)})]


def test_clusters_beyond_the_portable_size_are_allowed_first(wide, cupy, cuda):
    kernel = wide('cluster = ["size"]', 16)
    kernel(cupy.ndarray((1024,), "float32"))
    assert attributes(cuda) == [{CLUSTER: (16, 1, 1)}]
    assert (14, 1) in cuda.limits.values()  # CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED


def test_a_device_without_programmatic_launches_serialises(wide, cupy, cuda):
    cuda.devices = [A100]
    kernel = wide('overlap = "pdl"', where=sample.A100)
    for _ in range(CALLS):
        kernel(cupy.ndarray((1024,), "float32"))
    assert attributes(cuda) == [{}] * CALLS


def test_each_device_is_asked_and_has_attributes_of_its_own(wide, cupy, cuda):
    kernel = wide("cooperative = true", 4)
    for device in (0, 1, 0, 1):
        cupy._local.device = device
        cuda._local.context = 1000 + device
        kernel(cupy.ndarray((1024,), "float32", device=device))
    assert attributes(cuda) == [{COOPERATIVE: (1,)}] * 4
    assert [launched.device for launched in cuda.launches] == [0, 1, 0, 1]
    assert len(cuda.asked) == 2


def test_a_device_is_prepared_without_what_it_lacks(wide, cupy, cuda):
    cuda.devices = [A100]
    wide("cluster = [2]", grid="2 * ceil_div(n, 512)").prepare()
    assert (cuda.loaded, cupy.compiled) == ([], [])


def test_a_prepared_kernel_may_be_captured(wide, cupy, cuda):
    kernel = wide("cooperative = true", 4)
    kernel.prepare()
    cuda.captured = {0}
    x = cupy.ndarray((1024,), "float32")
    for _ in range(CALLS):
        kernel(x, out=cupy.ndarray((1024,), "float32"))
    assert attributes(cuda) == [{COOPERATIVE: (1,)}] * CALLS


def test_each_of_several_launches_has_its_own(wide, cupy, cuda):
    second = 'overlap = "pdl"\n[[launches]]\nfunction = "affine"\ngrid = [1]\nblock = [256]\n'
    kernel, x = wide(f"cooperative = true\n[[launches]]\nfunction = 'affine'\ngrid = [2]\nblock = [64]\n{second}", 4), 1
    x = cupy.ndarray((1024,), "float32")
    for _ in range(CALLS):
        out = kernel(x)
    kernel.bind(x, out=out)()
    assert attributes(cuda) == [{COOPERATIVE: (1,)}, {PDL: (1,)}, {}] * (CALLS + 1)
    assert grids(cuda) == [(4, 1, 1), (2, 1, 1), (1, 1, 1)] * (CALLS + 1)


def test_a_grid_of_no_resident_block_is_refused_and_not_launched_as_nothing(wide, cupy, cuda):
    cuda.resident = 0
    kernel = wide("", grid="min(ceil_div(n, 256), device.resident_blocks)")
    with pytest.raises(ValueError, match="a block that the device cannot hold"):
        kernel(cupy.ndarray((1024,), "float32"))
