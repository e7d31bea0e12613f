"""The functions for JAX on a GPU: jit, grad, arrays that are changed in place, loops, threads, command buffers."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from baking import baked
from jax_kernels import kernels

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # or no memory is left to others
jax = pytest.importorskip("jax")
cupy = pytest.importorskip("cupy")
jnp = jax.numpy

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    if jax.default_backend() != "gpu":
        pytest.skip("JAX has no GPU here")
    return tmp_path_factory.mktemp("jax")


@pytest.fixture(scope="module")
def tuned(folder):
    package = baked(folder, "jax_on_gpu", kernels(), cupy.cuda.Device().compute_capability, jax=True)
    return importlib.import_module(f"{package.__name__}.jax")


def drawn(*shape, seed=0, dtype="float32"):
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape, dtype="float32")).astype(dtype)


def plain(x, weight, eps=1e-6):
    wide = x.astype("float32")
    return (wide * jax.lax.rsqrt((wide * wide).mean(-1, keepdims=True) + eps) * weight).astype(x.dtype)


def close(found, wanted, rtol=1e-4):
    found, wanted = np.asarray(found, "float64"), np.asarray(wanted, "float64")
    np.testing.assert_allclose(found, wanted, rtol=rtol, atol=rtol * max(1e-30, float(np.sqrt((wanted**2).mean()))))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("shape", [(7, 100), (256, 1024), (3, 5, 64), (0, 64)])
def test_calls_in_and_out_of_jit(tuned, shape, dtype):
    x, weight = drawn(*shape, dtype=dtype), drawn(shape[-1], seed=1, dtype=dtype)
    rtol = 1e-5 if dtype == "float32" else 2e-2
    for call in (tuned.rms_norm, jax.jit(tuned.rms_norm)):
        y, rstd = call(x, weight)
        assert (y.shape, y.dtype, rstd.shape) == (x.shape, x.dtype, x.shape[:-1])
        if x.size:
            close(y.astype("float32"), plain(x, weight).astype("float32"), rtol)


def test_gradients_in_and_out_of_jit(tuned):
    x, weight = drawn(64, 1024), drawn(1024, seed=1)

    def slopes(f):
        return jax.grad(lambda x, weight: (f(x, weight) ** 2).sum(), argnums=(0, 1))

    wanted = slopes(plain)(x, weight)
    own = slopes(lambda x, weight: tuned.rms_norm(x, weight)[0])
    for call in (own, jax.jit(own)):
        for found, one in zip(call(x, weight), wanted, strict=True):
            close(found, one)


def test_training_by_steps_with_donated_weights(tuned):
    x, goal, weight = drawn(64, 256), drawn(64, 256, seed=1), jnp.ones(256)

    @jax.jit
    def loss(weight):
        return ((tuned.rms_norm(x, weight)[0] - goal) ** 2).mean()

    step = jax.jit(lambda weight: weight - 0.5 * jax.grad(loss)(weight), donate_argnums=0)
    before = float(loss(weight))
    for _ in range(20):
        weight = step(weight)
    assert float(loss(weight)) < before


def test_vmap_is_one_launch_and_each_examples_gradient(tuned):
    x, weight = drawn(3, 8, 256), drawn(256, seed=1)
    close(jax.vmap(lambda x: tuned.rms_norm(x, weight)[0])(x), plain(x, weight))
    each = jax.jit(jax.vmap(jax.grad(lambda w, x: tuned.rms_norm(x, w)[0].sum()), in_axes=(None, 0)))
    wanted = jax.vmap(jax.grad(lambda w, x: plain(x, w).sum()), in_axes=(None, 0))(weight, x)
    close(each(weight, x), wanted)


def test_an_array_that_is_changed_in_place_is_donated_or_copied(tuned):
    x = drawn(5000)
    total = jnp.ones(5000)
    added, count = tuned.add_to(total, x, 0.5)
    close(added, 1 + 0.5 * x)
    assert count.tolist() == [5000]
    assert float(total.min()) == float(total.max()) == 1
    address = total.unsafe_buffer_pointer()
    donating = jax.jit(lambda total, x: tuned.add_to(total, x, 0.5)[0], donate_argnums=0)
    changed = donating(total, x)
    close(changed, added)
    assert total.is_deleted()
    assert changed.unsafe_buffer_pointer() == address


def test_in_a_scan(tuned):
    xs = drawn(50, 4096)
    total, counts = jax.jit(lambda xs: jax.lax.scan(lambda t, x: tuned.add_to(t, x, 1.0), jnp.zeros(4096), xs))(xs)
    close(total, np.asarray(xs, "float64").sum(0), 1e-4)
    assert set(np.asarray(counts).ravel()) == {4096}


def test_threads_with_programs_of_their_own(tuned):
    wrong = []

    def work(index):
        x, weight = drawn(64, 512, seed=index), drawn(512, seed=index + 100)
        call = jax.jit(lambda x, weight: tuned.rms_norm(x, weight * (index + 1))[0])
        wanted = np.asarray(plain(x, weight * (index + 1)))
        for turn in range(200):
            found = call(x, weight)
            if turn % 20 == 0 and not np.allclose(found, wanted, rtol=1e-4, atol=1e-5):
                wrong.append((index, turn))

    threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_each_device_runs_its_part(tuned):
    devices = jax.devices("gpu")
    if len(devices) < 2 or not hasattr(jax, "shard_map"):
        pytest.skip("one GPU, or a JAX without shard_map")
    x, weight = drawn(64, 256), drawn(256, seed=1)
    for device in devices[::-1]:
        with jax.default_device(device):
            here, there = (jax.device_put(one, device) for one in (x, weight))
            close(jax.jit(tuned.rms_norm)(here, there)[0], plain(x, weight))
    mesh = jax.make_mesh((2,), ("rows",), axis_types=(jax.sharding.AxisType.Auto,), devices=devices[:2])
    rows, whole = jax.sharding.PartitionSpec("rows"), jax.sharding.PartitionSpec()
    part = jax.shard_map(lambda x, w: tuned.rms_norm(x, w)[0], mesh=mesh, in_specs=(rows, whole), out_specs=rows)
    close(jax.jit(part)(x, weight), plain(x, weight))


def test_an_exported_program_runs(tuned):
    x, weight = drawn(16, 256), drawn(256, seed=1)
    export = importlib.import_module("jax.export")
    allowed = [export.DisabledSafetyCheck.custom_call("jax_on_gpu.rms_norm")]
    made = export.export(jax.jit(lambda x, w: tuned.rms_norm(x, w)[0]), disabled_checks=allowed, platforms=["cuda"])
    again = export.deserialize(made(x, weight).serialize())
    close(again.call(x, weight), plain(x, weight))


CAPTURED = """
import importlib, sys
import jax, jax.numpy as jnp, numpy as np
sys.path.insert(0, sys.argv[1])
tuned = importlib.import_module("jax_on_gpu.jax")
handler = importlib.import_module("jax_on_gpu._runtime.jax.handler")
executed, plain = [], handler.FfiTarget.execute
handler.FfiTarget.execute = lambda self, frame: (executed.append(1), plain(self, frame))[1]

def block(x, total, weight):
    for _ in range(8):
        x, _ = tuned.rms_norm(x, weight)
        total, count = tuned.add_to(total, x.mean(0), 0.5)
    slope = jax.grad(lambda x: (tuned.rms_norm(x, weight)[0] ** 2).sum())(x)
    return x, total, count, slope

call = jax.jit(block)
rng = np.random.default_rng(0)
given = [jnp.asarray(rng.standard_normal(shape, dtype="float32")) for shape in ((64, 1024), (1024,), (1024,))]
x, total, weight = (np.asarray(one, "float64") for one in given)
for _ in range(8):
    x = x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * weight
    total = total + 0.5 * x.mean(0)
counts = []
for turn in range(12):
    found = jax.block_until_ready(call(*given))
    np.testing.assert_allclose(found[0], x, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(found[1], total, rtol=1e-3, atol=1e-3)
    assert found[2].tolist() == [1024]
    assert np.isfinite(found[3]).all()
    del found  # so that the next turn gets the same memory: XLA captures anew where addresses change
    counts.append(len(executed))
print("handler calls after each execution:", counts)
again = counts[-1] - counts[-2]  # of 18 calls; XLA decides which of them it captures
assert again < 18 if sys.argv[2] == "captured" else again == 18, counts
"""
FLAGS = {
    "captured": "--xla_gpu_enable_command_buffer=FUSION,CUSTOM_CALL --xla_gpu_graph_min_graph_size=1",
    "launched": "--xla_gpu_enable_command_buffer=",
}


@pytest.mark.parametrize("how", FLAGS)
def test_in_command_buffers_and_out_of_them(tuned, folder, how):
    environment = os.environ | {"XLA_FLAGS": FLAGS[how], "XLA_PYTHON_CLIENT_PREALLOCATE": "false", "PRETUNED_WARN": "0"}
    command = [sys.executable, "-c", CAPTURED, str(folder), how]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    print(done.stdout)
    assert done.returncode == 0, done.stderr[-3000:]
