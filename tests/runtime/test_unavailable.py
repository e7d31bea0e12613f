"""Importing is cheap and needs nothing; calling says what is missing."""

import subprocess
import sys

import pytest

from fake_cupy import external


def python(baked, code):
    """Run `code` in a new interpreter without site packages, where neither CuPy nor NumPy is."""
    command = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(baked)!r})\n{code}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_importing_loads_the_package_and_its_declarations_alone(baked):
    code = "before = set(sys.modules)\nimport pkg.tuned\nprint(*sorted(set(sys.modules) - before))"
    runtime = ["pkg.tuned._runtime", "pkg.tuned._runtime.table"]
    assert python(baked, code).split() == ["__future__", "pkg", "pkg.tuned", *runtime]


def test_a_call_without_a_driver(load, baked, monkeypatch):
    def broken(name):
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr("ctypes.CDLL", broken)
    tuned = load(baked)
    with pytest.raises(RuntimeError, match="needs an NVIDIA GPU: no driver is installed") as caught:
        tuned.affine(None, 1.0, relu=False)
    assert isinstance(caught.value, tuned.PretunedError)


def test_a_call_without_a_gpu(tuned, cuda):
    cuda.devices = []
    with pytest.raises(RuntimeError, match=r"pkg\.tuned\.affine needs an NVIDIA GPU: .*CUDA_ERROR_NO_DEVICE"):
        tuned.affine(None, 1.0, relu=False)


@pytest.mark.parametrize("missing", ["cuLaunchKernelEx", "cuLibraryLoadData"])
def test_a_driver_that_is_too_old_is_told(tuned, cuda, monkeypatch, missing):
    monkeypatch.delattr(type(cuda), missing)
    with pytest.raises(RuntimeError, match=r"the driver is older than CUDA 12\.0"):
        tuned.affine(None, 1.0, relu=False)


def test_an_output_that_cannot_be_allocated_is_asked_for(tuned, cuda, monkeypatch):
    facts = {"shape": (16, 1024), "data": (1 << 40, False), "typestr": "<f4", "strides": None, "version": 3}
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(RuntimeError, match=r"needs cupy to allocate an output: install .*, or pass the output"):
        tuned.affine(external(facts), 1.0, relu=False)
    out = external(facts | {"data": (2 << 40, False)})
    assert tuned.affine(external(facts), 1.0, relu=False, y=out) is out
    assert cuda.launches[0].arguments[:2] == (2 << 40, 1 << 40)


def test_explain_answers_without_a_gpu_where_nothing_was_measured(tuned, cuda, tmp_path):
    cuda.devices = []
    problem = {"rows": 16, "cols": 1024, "T": "float32", "relu": False}
    with pytest.raises(RuntimeError, match="needs an NVIDIA GPU"):
        tuned.explain("affine", **problem)  # there are rows, and which count is the device's to say
    kernels = __import__(f"{tuned.__name__}._runtime.table", fromlist=["table"]).KERNELS
    for literal in kernels["affine"].literals[1:3]:  # rows, selections
        literal.clear()
    answers = __import__(f"{tuned.__name__}._runtime.answers", fromlist=["answers"])
    answers._own.clear()
    found = tuned.explain("affine", **problem)
    assert (found.device, found.configuration, found.tuned) == ("any GPU", {"block": 128, "vec": 1}, False)


def test_a_gpu_that_appears_is_used(tuned, cupy, cuda):
    devices, cuda.devices = cuda.devices, []
    with pytest.raises(RuntimeError, match="needs an NVIDIA GPU"):
        tuned.affine(cupy.ndarray((1, 1), "float32"), 1.0, relu=False)
    cuda.devices = devices
    tuned.affine(cupy.ndarray((1, 1), "float32"), 1.0, relu=False)
    assert len(cuda.launches) == 1
