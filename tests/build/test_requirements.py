import subprocess
import sys

import pytest

from pretuned.build.requirements import Installed, Needs, installed, requirements
from pretuned.device.probe import Driver

CUDA_13 = Driver(version="580.159.04", cuda=(13, 0))
CUDA_12 = Driver(version="550.54.15", cuda=(12, 4))
NEXT = Driver(version="700.10", cuda=(14, 1))
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
        pytest.param(Needs(compiler="13.0.88", bfloat16=True), None, [], id="nothing to do, whatever the lock says"),
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
            Needs(compile=True, tune=True, bfloat16=True),
            CUDA_13,
            ["cuda-toolkit[nvrtc,cudart]>=13,<13.1", CUPY_13, "ml_dtypes>=0.4"],
            id="bfloat16 is verified with ml_dtypes",
        ),
        pytest.param(
            Needs(compile=True, bfloat16=True),
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
            Needs(compile=True, tune=True, bfloat16=True),
            CUDA_13,
            Installed(distributions={**STACK_13, "ml-dtypes": "0.5.0"}),
            [],
            id="ml_dtypes is there too",
        ),
    ],
)
def test_an_environment_that_has_some_of_it(need, driver, have, expected):
    assert requirements(need, driver, have, platform="linux") == expected


def test_an_environment_is_asked_without_importing_cuda():
    code = (
        "import sys; from pretuned.build.requirements import installed; print(sorted(installed().distributions));"
        "assert not {'cupy', 'numpy'} & sys.modules.keys()"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == str(sorted(installed().distributions))
