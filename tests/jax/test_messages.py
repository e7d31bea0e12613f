"""What is said where a call cannot be: by what is passed, by where JAX is to run it, by the JAX that is installed."""

import importlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

jax = pytest.importorskip("jax")
jnp = jax.numpy

X = jnp.ones((16, 64))
ELSEWHERE = (
    "jpkg.tuned.affine: runs on NVIDIA GPUs, and JAX was to run it on another device; install jax[cuda13] or "
    "jax[cuda12], or move its arrays there with jax.device_put(x, jax.devices('gpu')[0])"
)


class Tensor:
    """An array of another library."""

    def __dlpack__(self):
        raise NotImplementedError


MISTAKES = {
    "a number that is traced": (
        lambda tuned: jax.jit(lambda a: tuned.affine(X, a, relu=False))(2.0),
        (
            "alpha: expected a value that is known when JAX traces, found a traced one; name alpha in static_argnames "
            "of jax.jit, or fix it with functools.partial"
        ),
    ),
    "a keyword that is traced": (
        lambda tuned: jax.jit(lambda relu: tuned.affine(X, 1.0, relu=relu))(True),
        (
            "relu: expected a value that is known when JAX traces, found a traced one; name relu in static_argnames of "
            "jax.jit, or fix it with functools.partial"
        ),
    ),
    "a number in an array": (
        lambda tuned: tuned.affine(X, jnp.float32(2), relu=False),
        "alpha: expected a number, found an array of JAX; pass alpha.item(), which waits for it",
    ),
    "a number that is none": (
        lambda tuned: tuned.affine(X, "two", relu=False),
        "alpha: expected float32 (a number up to 3.4e38), found 'two'",
    ),
    "another value of a keyword": (
        lambda tuned: tuned.affine(X, 2.0, relu="yes"),
        "relu: expected one of False, True, found 'yes'",
    ),
    "another library's array": (
        lambda tuned: tuned.affine(Tensor(), 2.0, relu=False),
        "x: expected an array of JAX, found TENSOR; pass jax.dlpack.from_dlpack(x)",
    ),
    "no array": (lambda tuned: tuned.affine("x", 2.0, relu=False), "x: expected an array of JAX, found str"),
    "another type": (
        lambda tuned: tuned.affine(X.astype("int8"), 2.0, relu=False),
        "x: expected dtype float16 or float32, found int8",
    ),
    "a type of JAX's alone": (
        lambda tuned: tuned.affine(X.astype(jnp.float8_e3m4), 2.0, relu=False),
        "x: expected dtype float16 or float32, found float8_e3m4",
    ),
    "other dimensions": (
        lambda tuned: tuned.affine(jnp.ones(3), 2.0, relu=False),
        "x: expected 2 dimensions (rows, cols), found 1: (3,)",
    ),
    "another shape": (
        lambda tuned: tuned.norm(X, jnp.ones(32), 1e-5, centred=False),
        "weight: expected shape (cols,) = (64,), found (32,)",
    ),
    "a size that the kernel refuses": (
        lambda tuned: tuned.affine(jnp.ones((3, 0)), 2.0, relu=False),
        "requires cols >= 1, found cols=0 of x",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_a_call_is_named_as_it_is_traced(tuned, mistake):
    make, message = MISTAKES[mistake]
    with pytest.raises(importlib.import_module("jpkg.tuned").PretunedError) as error:
        make(tuned)
    found = str(error.value).partition("\n")[0].replace(f"{__name__.partition('.')[0]}.Tensor", "TENSOR")
    assert found.partition(": ")[2] == message
    assert isinstance(error.value, (TypeError, ValueError))


def test_on_the_cpu_a_call_says_what_to_do(tuned):
    with pytest.raises(RuntimeError) as error:
        tuned.affine(X, 1.5, relu=False)
    assert str(error.value) == ELSEWHERE
    assert isinstance(error.value, importlib.import_module("jpkg.tuned").PretunedError)
    with pytest.raises(jax.errors.JaxRuntimeError) as error:
        jax.jit(lambda x: tuned.affine(x, 1.5, relu=False))(X)
    assert str(error.value).removeprefix("FAILED_PRECONDITION: ") == ELSEWHERE


def test_arrays_of_64_bits_need_to_be_switched_on(tuned, part, monkeypatch):
    kernel = part("table").KERNELS["accumulate"]
    monkeypatch.setattr(kernel.arrays[1], "dtype", "int64")
    with pytest.raises(ValueError, match="64-bit") as error:
        tuned.accumulate(jnp.ones(2), jnp.ones((256, 2)))
    assert str(error.value) == (
        "jpkg.tuned.accumulate: last: is of int64, and JAX makes 64-bit types only after "
        "jax.config.update('jax_enable_x64', True)"
    )
    monkeypatch.setattr(kernel.arrays[2], "dtype", "float64")
    with pytest.raises(TypeError, match="64-bit") as error:
        tuned.accumulate(jnp.ones(2), np.ones((256, 2)))
    assert str(error.value) == (
        "jpkg.tuned.accumulate: x: expected dtype float64, found float32; JAX makes 64-bit types only after "
        "jax.config.update('jax_enable_x64', True)"
    )


def test_an_error_of_the_package_is_not_jaxs_own(tuned, cuda):
    """A TypeError of JAX's that has nothing to do with the arrays stays as it is."""
    with pytest.raises(TypeError, match="scalar-output"):
        jax.grad(lambda x: tuned.norm(x, jnp.ones(64), 1e-5, centred=False)[0])(X)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("sys.modules['jax'] = None", "jpkg.tuned.jax needs JAX; install jax[cuda13] or jax[cuda12] (import of jax"),
        (
            "import jax; jax.__version_info__, jax.__version__ = (0, 4, 30), '0.4.30'",
            "jpkg.tuned.jax needs JAX 0.6 or newer, found 0.4.30; install jax>=0.6",
        ),
        (
            "import jax, jax.ffi; jax.ffi.include_dir = lambda: '.'; jax.__version__ = '3.0'",
            "jpkg.tuned.jax is written for version 0 of XLA's FFI, and that of JAX 3.0 is 1; build the package again",
        ),
    ],
)
def test_a_jax_that_cannot_be_used_is_named_at_the_import(package, tmp_path, change, message):
    header = tmp_path / "xla/ffi/api/c_api.h"
    header.parent.mkdir(parents=True)
    header.write_text("#define XLA_FFI_API_MAJOR 1\n")
    folder = Path(package.__file__).parents[2]
    code = f"import sys; sys.path.insert(0, {str(folder)!r}); import jpkg.tuned\n{change}\nimport jpkg.tuned.jax"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert f"ImportError: {message}" in done.stderr


def test_importing_the_package_imports_no_jax(package):
    folder = Path(package.__file__).parents[2]
    code = f"import sys; sys.path.insert(0, {str(folder)!r}); import jpkg.tuned; assert 'jax' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_program_is_exported_without_a_gpu_for_sizes_that_are_known(tuned):
    export = pytest.importorskip("jax.export", exc_type=ImportError)  # which may need flatbuffers
    allowed = [export.DisabledSafetyCheck.custom_call("jpkg.tuned.affine")]
    function = jax.jit(lambda x: tuned.affine(x, 1.5, relu=False))
    made = export.export(function, platforms=["cuda"], disabled_checks=allowed)
    assert "stablehlo.custom_call @jpkg.tuned.affine" in made(X).mlir_module()
    sizes = export.symbolic_shape("rows, 64")
    with pytest.raises(ValueError, match="known when JAX traces") as error:
        made(jax.ShapeDtypeStruct(sizes, "float32"))
    assert str(error.value) == (
        "jpkg.tuned.affine: x: expected sizes that are known when JAX traces, found rows; export a program for each "
        "size"
    )
