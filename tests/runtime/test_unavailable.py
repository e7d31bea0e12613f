"""Importing is cheap and needs nothing; calling says what is missing."""

import subprocess
import sys

import pytest


def python(baked, code):
    """Run `code` in a new interpreter without site packages, where neither CuPy nor NumPy is."""
    command = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(baked)!r})\n{code}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_importing_loads_the_package_and_one_module_beside_it(baked):
    code = "before = set(sys.modules)\nimport pkg.tuned\nprint(*sorted(set(sys.modules) - before))"
    assert python(baked, code).split() == ["__future__", "pkg", "pkg.tuned", "pkg.tuned._runtime"]


def test_a_call_without_cupy(baked):
    code = (
        "import pkg.tuned\ntry:\n    pkg.tuned.affine(None, 1.0, relu=False)\nexcept pkg.tuned.PretunedError as e:\n"
        "    print(type(e).__mro__[2].__name__, e)"
    )
    message = "pkg.tuned.affine needs CuPy to run: install cupy-cuda13x (or cupy-cuda12x)"
    assert python(baked, code) == f"RuntimeError {message}"


def test_a_cupy_that_cannot_be_imported_says_why(load, baked, monkeypatch):
    def broken(name, *_):
        if name == "cupy":
            raise ImportError("libcuda.so.1: cannot open shared object file")
        return real(name)

    tuned = load(baked)
    real = __import__("importlib").import_module
    monkeypatch.setattr("importlib.import_module", broken)
    with pytest.raises(RuntimeError, match=r"or cupy-cuda12x\) \(libcuda\.so\.1: cannot open shared object file\)"):
        tuned.affine(None, 1.0, relu=False)


@pytest.mark.parametrize(
    ("version", "message"),
    [
        (13000, "pkg.tuned.affine needs an NVIDIA GPU: cudaErrorNoDevice: no CUDA-capable device is detected"),
        (0, "pkg.tuned.affine needs an NVIDIA GPU: no driver is installed (cudaErrorNoDevice: no CUDA-capable device"),
    ],
)
def test_a_call_without_a_gpu(tuned, cupy, version, message):
    cupy.devices, cupy.cuda_version = [], version
    with pytest.raises(RuntimeError) as caught:
        tuned.affine(None, 1.0, relu=False)
    assert isinstance(caught.value, tuned.PretunedError)
    assert str(caught.value).startswith(message)


def test_a_gpu_that_appears_is_used(tuned, cupy):
    devices, cupy.devices = cupy.devices, []
    with pytest.raises(RuntimeError, match="needs an NVIDIA GPU"):
        tuned.affine(cupy.ndarray((1, 1), "float32"), 1.0, relu=False)
    cupy.devices = devices
    tuned.affine(cupy.ndarray((1, 1), "float32"), 1.0, relu=False)
    assert len(cupy.launches) == 1
