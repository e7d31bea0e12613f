import subprocess
import sys
from dataclasses import replace

import pytest
from packaging.requirements import Requirement

from builders import H100, binary_of, rows, selections
from pretuned.bake.plan import plan
from pretuned.build import core, table
from pretuned.build.requirements import Installed, Needs, installed, requirements
from pretuned.config import ModuleTable, Project, Settings
from pretuned.device import probe
from pretuned.device.probe import DriverVersion
from pretuned.record import lock as lockfile
from pretuned.record.cache import Cache
from pretuned.tune.binaries import _key as key_of
from pretuned.tune.request import TuningDevice
from reported import Reported
from specs import SCALE_TEMPLATE, loaded

CUDA_13 = DriverVersion(version="580.159.04", cuda=(13, 0))
CUDA_12 = DriverVersion(version="550.54.15", cuda=(12, 4))
NEXT = DriverVersion(version="700.10", cuda=(14, 1))
EMPTY = Installed(distributions={})
COMPILE = Needs(compile=True)
TUNE = Needs(compile=True, tune=True)

CUPY_13 = "cupy-cuda13x>=14"
CUPY_12 = "cupy-cuda12x>=14"


def needs(compiler, *, tune=False):
    return Needs(compile=True, tune=tune, compiler=compiler)


@pytest.mark.parametrize(
    ("need", "driver", "expected"),
    [
        pytest.param(Needs(), CUDA_13, [], id="nothing to do"),
        pytest.param(Needs(compiler="13.0.88", ml_dtypes=True), None, [], id="nothing to do, whatever the lock says"),
        pytest.param(
            COMPILE, None, ["cuda-toolkit[nvrtc,cudart]==13.0.*", CUPY_13], id="nobody says: what runs widest"
        ),
        pytest.param(TUNE, CUDA_13, ["cuda-toolkit[nvrtc,cudart]>=13,<13.1", CUPY_13], id="as new as the driver"),
        pytest.param(TUNE, CUDA_12, ["cuda-toolkit[nvrtc,cudart]>=12,<12.5", CUPY_12], id="an older driver"),
        pytest.param(TUNE, NEXT, ["cuda-toolkit[nvrtc,cudart]==13.*", CUPY_13], id="a driver of a CUDA without CuPy"),
        pytest.param(
            needs("13.0.88"),
            None,
            [CUPY_13, "nvidia-cuda-nvrtc==13.0.88", "nvidia-cuda-runtime==13.0.*"],
            id="exactly the lock's compiler",
        ),
        pytest.param(
            needs("12.8.93"),
            CUDA_13,
            [CUPY_12, "nvidia-cuda-nvrtc-cu12==12.8.93", "nvidia-cuda-runtime-cu12==12.8.*"],
            id="a lock of CUDA 12 on a newer driver",
        ),
        pytest.param(
            needs("12.8.93", tune=True),
            CUDA_13,
            [CUPY_12, "nvidia-cuda-nvrtc-cu12==12.8.93", "nvidia-cuda-runtime-cu12==12.8.*"],
            id="which also runs what is tuned",
        ),
        pytest.param(
            needs("13.0.88"),
            CUDA_12,
            [CUPY_13, "nvidia-cuda-nvrtc==13.0.88", "nvidia-cuda-runtime==13.0.*"],
            id="compiling needs no driver",
        ),
        pytest.param(
            needs("13.0.88", tune=True),
            CUDA_12,
            ["cuda-toolkit[nvrtc,cudart]>=12,<12.5", CUPY_12],
            id="tuning does: the driver cannot run the lock's toolchain",
        ),
        pytest.param(
            needs("12.9"),
            None,
            [CUPY_12, "nvidia-cuda-nvrtc-cu12==12.9.*", "nvidia-cuda-runtime-cu12==12.9.*"],
            id="the table's toolchain",
        ),
        pytest.param(
            Needs(compile=True, tune=True, ml_dtypes=True),
            CUDA_13,
            ["cuda-toolkit[nvrtc,cudart]>=13,<13.1", CUPY_13, "ml_dtypes>=0.4"],
            id="bfloat16 is verified with ml_dtypes",
        ),
        pytest.param(
            Needs(compile=True, ml_dtypes=True),
            None,
            ["cuda-toolkit[nvrtc,cudart]==13.0.*", CUPY_13],
            id="bfloat16 is compiled without",
        ),
    ],
)
def test_an_empty_build_environment(need, driver, expected):
    assert requirements(need, driver, EMPTY, platform="linux") == expected
    assert requirements(need, driver, EMPTY, platform="win32") == expected
    assert requirements(need, driver, EMPTY, platform="darwin") == []


STACK_13 = {"cupy-cuda13x": "14.2.0", "nvidia-cuda-nvrtc": "13.0.88", "nvidia-cuda-runtime": "13.0.96"}
STACK_12 = {"cupy-cuda12x": "14.2.0", "nvidia-cuda-nvrtc-cu12": "12.8.93", "nvidia-cuda-runtime-cu12": "12.8.90"}


def without(stack, *names):
    return {name: version for name, version in stack.items() if name not in names}


@pytest.mark.parametrize(
    ("need", "driver", "have", "expected"),
    [
        pytest.param(TUNE, CUDA_13, Installed(distributions=STACK_13), [], id="all there"),
        pytest.param(needs("13.0.88"), None, Installed(distributions=STACK_13), [], id="the very compiler is there"),
        pytest.param(TUNE, CUDA_13, Installed(distributions=STACK_12), [], id="CUDA 12 runs on a newer driver"),
        pytest.param(needs("13.0.88"), CUDA_13, Installed(distributions=STACK_12), [], id="no second CuPy"),
        pytest.param(
            needs("13.0.48"),
            None,
            Installed(distributions=STACK_13),
            ["nvidia-cuda-nvrtc==13.0.48", "nvidia-cuda-runtime==13.0.*"],
            id="another patch of the compiler",
        ),
        pytest.param(
            TUNE,
            CUDA_13,
            Installed(distributions=without(STACK_13, "nvidia-cuda-nvrtc")),
            ["cuda-toolkit[nvrtc,cudart]>=13,<13.1"],
            id="CuPy alone has no NVRTC",
        ),
        pytest.param(
            COMPILE,
            None,
            Installed(distributions=without(STACK_13, "nvidia-cuda-runtime")),
            ["cuda-toolkit[nvrtc,cudart]==13.0.*"],
            id="NVRTC alone has no headers",
        ),
        pytest.param(
            TUNE,
            CUDA_13,
            Installed(distributions={"cupy-cuda13x": "14.2.0"}, nvrtc="13.0"),
            [],
            id="NVRTC of the system's toolkit",
        ),
        pytest.param(
            needs("13.0.88"),
            None,
            Installed(distributions={"cupy-cuda13x": "14.2.0"}, nvrtc="13.0"),
            [],
            id="which tells no patch",
        ),
        pytest.param(
            needs("13.2.51"),
            None,
            Installed(distributions={"cupy-cuda13x": "14.2.0"}, nvrtc="13.0"),
            ["nvidia-cuda-nvrtc==13.2.51", "nvidia-cuda-runtime==13.2.*"],
            id="but another minor",
        ),
        pytest.param(
            TUNE, CUDA_12, Installed(distributions={"cupy": "14.0.1"}, nvrtc="12.4"), [], id="CuPy built from source"
        ),
        pytest.param(
            TUNE,
            CUDA_13,
            Installed(distributions={**STACK_13, "cupy-cuda13x": "13.6.0"}),
            [CUPY_13],
            id="a CuPy that is too old",
        ),
        pytest.param(
            TUNE,
            CUDA_12,
            Installed(distributions=STACK_13),
            ["cuda-toolkit[nvrtc,cudart]>=12,<12.5", CUPY_12],
            id="a CuPy that cannot run on this driver",
        ),
        pytest.param(
            Needs(compile=True, tune=True, ml_dtypes=True),
            CUDA_13,
            Installed(distributions={**STACK_13, "ml-dtypes": "0.5.0"}),
            [],
            id="ml_dtypes is there too",
        ),
    ],
)
def test_an_environment_that_has_some_of_it(need, driver, have, expected):
    assert requirements(need, driver, have, platform="linux") == expected


CUB = replace(COMPILE, cccl=True)
LOCKED_CUB = replace(needs("13.0.88"), cccl=True)
CCCL_13 = {"nvidia-cuda-cccl": "13.0.85"}


@pytest.mark.parametrize(
    ("need", "driver", "have", "expected"),
    [
        pytest.param(CUB, None, EMPTY, ["cuda-toolkit[nvrtc,cudart,cccl]==13.0.*", CUPY_13], id="nothing is here"),
        pytest.param(
            LOCKED_CUB,
            None,
            EMPTY,
            [CUPY_13, "nvidia-cuda-cccl==13.0.*", "nvidia-cuda-nvrtc==13.0.88", "nvidia-cuda-runtime==13.0.*"],
            id="of the lock's release",
        ),
        pytest.param(
            replace(needs("12.8.93"), cccl=True),
            None,
            Installed(distributions=STACK_12),
            ["nvidia-cuda-cccl-cu12==12.8.*"],
            id="CUDA 12",
        ),
        pytest.param(CUB, None, Installed(distributions=STACK_13), ["nvidia-cuda-cccl==13.0.*"], id="CCCL alone"),
        pytest.param(CUB, None, Installed(distributions=STACK_13 | CCCL_13), [], id="it is installed"),
        pytest.param(CUB, None, Installed(distributions=STACK_13, toolkit="13.0"), [], id="a toolkit has it"),
        pytest.param(
            CUB,
            None,
            Installed(distributions=STACK_13, toolkit="12.4"),
            ["nvidia-cuda-cccl==13.0.*"],
            id="a toolkit of another release has another",
        ),
        pytest.param(
            CUB,
            None,
            Installed(distributions={"cupy-cuda13x": "14.2.0"}, nvrtc="13.0", toolkit="13.0"),
            [],
            id="all of it",
        ),
    ],
)
def test_cudas_cpp_library_is_asked_for_where_sources_include_it(need, driver, have, expected):
    assert requirements(need, driver, have, platform="linux") == expected


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        ("#include <cub/block/block_reduce.cuh>\n", True),
        ("{% if vec == 2 %}\n#  include <cuda/std/array>\n{% endif %}\n", True),
        ("#include <cooperative_groups.h>\n", True),
        ("#include <type_traits>\n", True),
        ('{% include "common.cuh" %}\n', True),
        ('#include "mine.cuh"\n', True),
        ("#include <cuda_fp16.h>\n#include <cstdint>\n// #include <cub/cub.cuh>\n", False),
    ],
)
def test_a_build_asks_for_it_by_what_templates_and_headers_include(tmp_path, monkeypatch, text, asks):
    (tmp_path / "common.cuh").write_text("#include <thrust/functional.h>\n")
    (tmp_path / "mine.cuh").write_text("#include <cuda/barrier>\n")
    monkeypatch.setattr(probe, "driver", lambda given=None: None)
    monkeypatch.setattr(probe, "gpus", lambda given=None: ())
    loaded(tmp_path, template=text + SCALE_TEMPLATE)
    module = ModuleTable(kernels=tmp_path, module="demo/tuned")
    project = Project(root=tmp_path, modules=(module,), lock=tmp_path / "pretuned.lock.json")
    found = core.compile_needs(project, Settings(cache=tmp_path / "cache"))
    assert (found.compile, found.cccl) == (True, asks)


def test_an_environment_is_asked_without_importing_cuda():
    code = (
        "import sys; from pretuned.build.requirements import installed; print(sorted(installed().distributions));"
        "assert not {'cupy', 'numpy'} & sys.modules.keys()"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == str(sorted(installed().distributions))


# What a whole build asks for: from the driver, the mode, the lock and the cache, in an environment that has nothing.

DRIVERS = {
    "11.8": DriverVersion(version="520.61.05", cuda=(11, 8)),
    "12.2": DriverVersion(version="535.216.03", cuda=(12, 2)),
    "12.9": DriverVersion(version="575.57.08", cuda=(12, 9)),
    "13.0": CUDA_13,
    "13.1": DriverVersion(version="590.44.01", cuda=(13, 1)),
    "none": None,
}
FOR_DRIVER = {
    "11.8": [],
    "12.2": ["cuda-toolkit[nvrtc,cudart]>=12,<12.3", CUPY_12],
    "12.9": ["cuda-toolkit[nvrtc,cudart]>=12,<12.10", CUPY_12],
    "13.0": ["cuda-toolkit[nvrtc,cudart]>=13,<13.1", CUPY_13],
    "13.1": ["cuda-toolkit[nvrtc,cudart]>=13,<13.2", CUPY_13],
    "none": ["cuda-toolkit[nvrtc,cudart]==13.0.*", CUPY_13],
}
FOR_LOCK = [CUPY_13, "nvidia-cuda-nvrtc==13.0.88", "nvidia-cuda-runtime==13.0.*"]  # whose rows are of NVRTC 13.0.88
PYTHONS = ("3.11", "3.12", "3.13", "3.14")


class Machine:
    """A project with one kernel, on a machine with a driver and an H100, or with neither."""

    def __init__(self, folder, monkeypatch):
        (folder / "kernels").mkdir()
        self.spec = loaded(folder / "kernels", template="#include <cuda_fp16.h>\n" + SCALE_TEMPLATE)
        module = ModuleTable(kernels=folder / "kernels", module="src/p/tuned")
        self.project = Project(root=folder, modules=(module,), lock=folder / "pretuned.lock.json")
        self.settings = Settings(cache=folder / "cache")
        self.patch = monkeypatch

    def lock(self, device):
        entries, rules = (found(self.spec, device=device.name) for found in (rows, selections))
        lockfile.write(self.project.lock, lockfile.Lock().updated({device.name: device}, entries, (), rules))

    def compiled(self):
        """Put what the lock's rows and the default need into the user cache."""
        lock = lockfile.read(self.project.lock)
        found = plan({"scale": self.spec}, lock.rows, lock.devices)
        binaries = {(module.key, architecture): binary_of(module, architecture) for module, architecture in found.jobs}
        with Cache(self.settings.cache) as cache:
            for (module, architecture), binary in binaries.items():
                cache.put_binary(key_of(module, architecture, binary.compiler), binary)

    def asks(self, name, **changes):
        driver = DRIVERS[name]
        target = driver and TuningDevice(record=H100, driver=driver.version)
        self.patch.setattr(core.probe, "driver", lambda: driver)
        self.patch.setattr(core, "installed", lambda _packages=(): EMPTY)
        for module in (core, table):
            self.patch.setattr(module, "find_device", lambda index, known: target)
        return core.build_requirements(replace(self.project, **changes), self.settings)


@pytest.fixture
def machine(tmp_path, monkeypatch):
    return Machine(tmp_path, monkeypatch)


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("mode", ["auto", "locked", "force", "off"])
@pytest.mark.parametrize("driver", DRIVERS)
def test_without_a_lock_the_driver_decides(machine, driver, mode, python):
    found = machine.asks(driver, mode=mode)
    assert found == FOR_DRIVER[driver]
    assert in_effect(found, python)


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("mode", ["auto", "locked", "force", "off"])
@pytest.mark.parametrize("driver", DRIVERS)
def test_a_fresh_lock_decides_where_it_is_read(machine, driver, mode, python):
    machine.lock(H100)
    found = machine.asks(driver, mode=mode)
    assert found == (FOR_LOCK if mode in {"auto", "locked"} else FOR_DRIVER[driver])
    assert in_effect(found, python)


def in_effect(found, python):
    """Whether every requirement holds on that Python."""
    parsed = [Requirement(text) for text in found]
    return all(item.marker is None or item.marker.evaluate({"python_version": python}) for item in parsed)


@pytest.mark.parametrize(
    ("driver", "expected"),
    [
        pytest.param("11.8", FOR_LOCK, id="too old to tune for: the lock's rows are compiled"),
        pytest.param("12.2", FOR_DRIVER["12.2"], id="tuning needs what the driver runs"),
        pytest.param("13.0", FOR_LOCK, id="the lock's compiler tunes too"),
        pytest.param("13.1", FOR_LOCK, id="on a newer driver as well"),
        pytest.param("none", FOR_LOCK, id="nothing to tune for"),
    ],
)
def test_a_lock_of_another_gpu(machine, driver, expected):
    machine.lock(replace(H100, name="NVIDIA A100", sm_count=108, compute_capability=80))
    assert machine.asks(driver) == expected


@pytest.mark.parametrize("mode", ["auto", "locked"])
@pytest.mark.parametrize("driver", DRIVERS)
def test_nothing_where_all_is_compiled_already(machine, driver, mode):
    machine.lock(H100)
    machine.compiled()
    assert machine.asks(driver, mode=mode) == []
    assert machine.asks(driver, mode="force") == FOR_DRIVER[driver], "which measures anew"
    assert machine.asks(driver, mode=mode, architectures=("sm_120",)) == FOR_LOCK, "one more is not there"
    assert machine.asks(driver, mode=mode, cuda="12.9") != [], "nor what another compiler makes"


def test_a_stale_row_needs_no_binary(machine):
    """It is not baked: only the others' have to be in the cache."""
    machine.lock(H100)
    machine.compiled()
    lock = lockfile.read(machine.project.lock)
    first = replace(lock.rows[0], choices=tuple(replace(c, candidate="of yesterday") for c in lock.rows[0].choices))
    lockfile.write(machine.project.lock, lock.updated({}, [first]))
    assert machine.asks("none") == []
    assert machine.asks("13.0") == FOR_LOCK, "where there is a GPU it is tuned again"


@pytest.mark.parametrize("driver", DRIVERS)
def test_nothing_without_cubins_unless_something_is_tuned(machine, driver):
    assert machine.asks(driver, cubins=False, mode="off") == []
    machine.lock(H100)
    assert machine.asks(driver, cubins=False) == []
    other = machine.asks(driver, cubins=False, mode="force")
    assert other == (FOR_DRIVER[driver] if driver != "none" else [])


def test_a_driver_that_is_too_old_gets_sources_and_one_line_that_says_why(machine):
    said = Reported()
    assert machine.asks("11.8") == []
    machine.patch.setattr(probe, "driver", lambda: DRIVERS["11.8"])
    (baked,) = core.bake_project(machine.project, machine.settings, said)
    assert not [name for name in baked.files if name.endswith((".cubin", ".ptx"))]
    assert [name for name in baked.files if name.endswith(".cu")]
    reason = "the driver supports CUDA 11.8, and CuPy needs one that supports CUDA 12 or newer"
    assert said == [
        f"warning: NVIDIA H100 80GB HBM3 is here, but nothing was tuned: {reason}: only the defaults are baked",
        f"warning: {reason}: no machine code is baked, the kernels ship as sources",
    ]
