"""The probe against stand-ins for libcuda (with its C signatures) and for pynvml."""

import ctypes
import threading
import uuid

import pytest

from pretuned.device import probe
from pretuned.device.probe import DriverVersion, Gpu, LibCuda, Sources

NO_DEVICE = 100
INVALID_VALUE = 1
H100_UUID = "7c1d9a52-0b6e-4f0e-9a41-3f2d5b8c6e10"
H100 = {
    "name": "NVIDIA H100 80GB HBM3",
    "uuid": H100_UUID,
    "memory": 84_929_347_584,
    # by number of cuda.h: SMs, memory clock in kHz, bus in bits, L2, capability, shared memory to opt in to
    "attributes": {16: 132, 36: 2_619_000, 37: 5120, 38: 52_428_800, 75: 9, 76: 0, 97: 232_448},
}


class CudaStandIn:
    """The C functions of libcuda that the probe calls; `version` is cuDriverGetVersion's number."""

    def __init__(self, *gpus, version=13000, init=0, missing=()):
        self._gpus, self._version, self._init = gpus, version, init
        self._missing = frozenset(missing)

    def __getattribute__(self, name):
        if name.startswith("cu") and name in self._missing:
            raise AttributeError(name)
        return super().__getattribute__(name)

    def cuDriverGetVersion(self, number):  # noqa: N802 - the driver's name
        number._obj.value = self._version
        return 0

    def cuGetErrorName(self, status, text):  # noqa: N802
        return INVALID_VALUE

    def cuInit(self, flags):  # noqa: N802
        return self._init

    def cuDeviceGetCount(self, number):  # noqa: N802
        number._obj.value = len(self._gpus)
        return 0

    def cuDeviceGet(self, handle, ordinal):  # noqa: N802
        handle._obj.value = 1000 + ordinal.value  # a handle is no ordinal
        return 0

    def cuDeviceGetName(self, text, length, handle):  # noqa: N802
        text.value = self._gpus[handle.value - 1000]["name"].encode()[: length.value]
        return 0

    def cuDeviceGetUuid_v2(self, raw, handle):  # noqa: N802
        ctypes.memmove(raw._obj, uuid.UUID(self._gpus[handle.value - 1000]["uuid"]).bytes, 16)
        return 0

    def cuDeviceTotalMem_v2(self, size, handle):  # noqa: N802
        size._obj.value = self._gpus[handle.value - 1000]["memory"]
        return 0

    def cuDeviceGetAttribute(self, value, attribute, handle):  # noqa: N802
        attributes = self._gpus[handle.value - 1000]["attributes"]
        if attribute.value not in attributes:
            return INVALID_VALUE
        value._obj.value = attributes[attribute.value]
        return 0


class NvmlStandIn:
    """The functions of pynvml that the probe calls; `refuse` names those that raise NVMLError."""

    class NVMLError(Exception):
        pass

    def __init__(self, *, refuse=(), handles=None):
        self._refuse, self._handles, self.open = frozenset(refuse), handles or {f"GPU-{H100_UUID}": 700_000}, 0

    def __getattribute__(self, name):
        if name.startswith("nvml") and name in self._refuse:
            return self._no
        return super().__getattribute__(name)

    def _no(self, *_):
        raise self.NVMLError("Insufficient Permissions")

    def nvmlInit(self):  # noqa: N802 - the binding's name
        self.open += 1

    def nvmlShutdown(self):  # noqa: N802
        self.open -= 1

    def nvmlSystemGetDriverVersion(self):  # noqa: N802
        return "580.159.04"

    def nvmlSystemGetCudaDriverVersion_v2(self):  # noqa: N802
        return 13000

    def nvmlDeviceGetHandleByUUID(self, name):  # noqa: N802
        if name not in self._handles:
            raise self.NVMLError("Not Found")
        return name

    def nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self, handle):  # noqa: N802
        return f"GPU-{H100_UUID}"

    def nvmlDeviceGetEnforcedPowerLimit(self, handle):  # noqa: N802
        return self._handles[handle]


def sources(cuda, nvml=None):
    return Sources(cuda=LibCuda(cuda) if cuda else None, nvml=nvml or NvmlStandIn())


NO_NVML = {"refuse": {"nvmlInit"}}


def test_a_machine_without_a_driver():
    nothing = sources(None, NvmlStandIn(**NO_NVML))
    assert probe.driver(nothing) is None
    assert probe.gpus(nothing) == ()


def test_this_machine_is_probed_without_stand_ins():
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        assert probe.gpus() == ()
        return
    assert probe.driver().cuda >= (11, 0)
    found = probe.gpus()
    assert [gpu.index for gpu in found] == list(range(len(found)))
    assert all(gpu.name and gpu.sm_count and gpu.memory_bytes for gpu in found)


def test_an_h100():
    nvml = NvmlStandIn()
    machine = sources(CudaStandIn(H100), nvml)
    assert probe.driver(machine) == DriverVersion(version="580.159.04", cuda=(13, 0))
    assert probe.gpus(machine) == (
        Gpu(
            index=0,
            name="NVIDIA H100 80GB HBM3",
            uuid=H100_UUID,
            compute_capability=90,
            sm_count=132,
            l2_bytes=52_428_800,
            shared_bytes=232_448,
            memory_bytes=84_929_347_584,
            memory_gbps=3352,  # the data sheet says 3.35 TB/s
            power_w=700,
        ),
    )
    assert nvml.open == 0, "NVML is shut down as often as it was initialised"


def test_gpus_come_in_the_order_in_which_cuda_shows_them():
    second = {**H100, "name": "NVIDIA A100-SXM4-80GB", "attributes": {**H100["attributes"], 75: 8}}
    found = probe.gpus(sources(CudaStandIn(second, H100)))
    assert [(gpu.index, gpu.name, gpu.compute_capability) for gpu in found] == [
        (0, "NVIDIA A100-SXM4-80GB", 80),
        (1, "NVIDIA H100 80GB HBM3", 90),
    ]


def test_cuda_without_nvml_tells_all_but_version_and_power():
    machine = sources(CudaStandIn(H100, version=12080), NvmlStandIn(**NO_NVML))
    assert probe.driver(machine) == DriverVersion(version="", cuda=(12, 8))
    assert [gpu.power_w for gpu in probe.gpus(machine)] == [0]


def test_nvml_without_cuda_tells_of_a_driver_with_no_usable_gpu():
    machine = sources(None)
    assert probe.driver(machine) == DriverVersion(version="580.159.04", cuda=(13, 0))
    assert probe.gpus(machine) == ()


@pytest.mark.parametrize("function", ["nvmlDeviceGetHandleByUUID", "nvmlDeviceGetEnforcedPowerLimit"])
def test_a_refused_power_limit_is_untold(function):
    machine = sources(CudaStandIn(H100), NvmlStandIn(refuse={function}))
    assert [gpu.power_w for gpu in probe.gpus(machine)] == [0]


def test_a_mig_slice_has_its_own_size_and_its_gpus_power_limit():
    slice_uuid = "0f0f9a52-0b6e-4f0e-9a41-3f2d5b8c6e10"
    part = {
        **H100,
        "name": "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
        "uuid": slice_uuid,
        "memory": 10_468_982_784,
        "attributes": {**H100["attributes"], 16: 16},
    }
    nvml = NvmlStandIn(handles={f"MIG-{slice_uuid}": 0, f"GPU-{H100_UUID}": 700_000})
    (gpu,) = probe.gpus(sources(CudaStandIn(part), nvml))
    assert (gpu.name, gpu.sm_count, gpu.power_w) == ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", 16, 700)


def test_no_visible_gpu():
    hidden = sources(CudaStandIn(H100, init=NO_DEVICE))
    assert probe.driver(hidden) == DriverVersion(version="580.159.04", cuda=(13, 0))
    assert probe.gpus(hidden) == ()


def test_a_gpu_that_answers_nothing_leaves_the_others():
    lost = {**H100, "attributes": {}}
    machine = sources(CudaStandIn(lost, H100))
    assert [gpu.index for gpu in probe.gpus(machine)] == [1]
    (silent,) = probe.silent_gpus(machine)
    assert (silent.index, silent.reason) == (0, "cuDeviceGetAttribute: CUresult 1")


def test_nvml_that_hangs_at_a_gpu_costs_no_more_than_its_answers(monkeypatch):
    monkeypatch.setattr(probe, "NVML_S", 0.05)
    ended = threading.Event()
    nvml = NvmlStandIn()
    nvml.nvmlDeviceGetHandleByUUID = lambda name: ended.wait(30) and name
    nvml.nvmlSystemGetDriverVersion = lambda: ended.wait(30)
    machine = sources(CudaStandIn(H100, H100), nvml)
    assert [(gpu.index, gpu.power_w) for gpu in probe.gpus(machine)] == [(0, 0), (1, 0)]
    assert probe.driver(machine) == DriverVersion(version="", cuda=(13, 0))
    ended.set()
    probe._waiting.pop().join()


def test_a_driver_that_hides_the_memory_clock():
    attributes = {number: value for number, value in H100["attributes"].items() if number != 36}
    assert [gpu.memory_gbps for gpu in probe.gpus(sources(CudaStandIn({**H100, "attributes": attributes})))] == [0]


def test_a_driver_too_old_for_a_query():
    assert probe.gpus(sources(CudaStandIn(H100, missing={"cuDeviceGetUuid_v2"}))) == ()
    without = sources(CudaStandIn(H100, missing={"cuDriverGetVersion"}), NvmlStandIn(**NO_NVML))
    assert probe.driver(without) is None


def test_a_library_without_a_driver_below_it():
    assert probe.driver(sources(CudaStandIn(version=0), NvmlStandIn(**NO_NVML))) is None
