"""XLA's calls through the handler, for real: XLA's CPU client makes the call frames, a driver on the CPU launches."""

import importlib
import threading

import numpy as np
import pytest

jax = pytest.importorskip("jax")
jnp = jax.numpy


def test_a_call_in_jit_reads_and_writes_xlas_buffers(tuned, cuda):
    x = np.arange(-512, 512, dtype="float32").reshape(16, 64)
    y = jax.jit(lambda x: tuned.affine(x + 1, 1.5, relu=False))(x)
    np.testing.assert_array_equal(y, 1.5 * (x + 1))
    assert cuda.launches[0].stream == 7


def test_a_call_outside_of_jit(tuned, cuda):
    x = np.ones((16, 64), "float32")
    np.testing.assert_array_equal(tuned.affine(x, -2.0, relu=False), -2 * x)
    np.testing.assert_array_equal(tuned.affine(jnp.asarray(x), 3, relu=False), 3 * x)


def test_a_program_is_prepared_before_it_runs_and_runs_under_capture(tuned, cuda):
    x = jnp.ones((16, 64))
    compiled = jax.jit(lambda x: tuned.affine(x, 1.5, relu=False)).lower(x).compile()
    assert len(cuda.loaded) == 1
    cuda.captured = {7}
    compiled(x).block_until_ready()
    compiled(x).block_until_ready()
    assert len(cuda.launches) == 2
    assert len(cuda.loaded) == 1


def test_what_was_not_prepared_is_loaded_under_capture_in_relaxed_mode(tuned, cuda):
    cuda.in_use, cuda.captured = set(), {7}
    y = jax.jit(lambda x: tuned.affine(x, 1.5, relu=False))(jnp.ones((16, 64)))
    assert float(y[3, 3]) == 1.5
    assert cuda._local.__dict__.get("mode", 0) == 0


def test_an_array_that_is_changed_in_place_is_a_new_one_outside(tuned, cuda):
    total, x = jnp.asarray([10.0, 20.0]), jnp.ones((256, 2))
    added, last = tuned.accumulate(total, x)
    assert added.tolist() == [266, 276]
    assert last.tolist() == [256]
    assert total.tolist() == [10, 20]
    assert cuda.memsets


def test_scratch_is_a_result_that_is_dropped(tuned, cuda):
    total, x = jnp.zeros(2), jnp.ones((65536, 2))
    jax.jit(tuned.accumulate)(total, x)[0].block_until_ready()
    partials, finish = cuda.launches
    assert partials.function == "partials"
    assert partials.arguments[0] == finish.arguments[2]
    assert (partials.arguments[0], 0, 64 * 2 * 4, 7) in cuda.memsets


def test_a_call_that_has_nothing_to_do_launches_nothing(tuned, cuda):
    assert tuned.affine(jnp.ones((0, 64)), 1.5, relu=False).shape == (0, 64)
    assert cuda.launches == []


def test_a_call_with_two_gpus_goes_to_the_one_that_xla_names(tuned, cuda, monkeypatch):
    cuda.devices = [*cuda.devices, *cuda.devices]
    y = jax.jit(lambda x: tuned.affine(x, 3.0, relu=False))(jnp.ones((16, 64)))
    assert float(y[0, 0]) == 3
    assert [launch.device for launch in cuda.launches] == [0]


def test_a_loop_of_xlas(tuned, cuda):
    def step(total, x):
        return tuned.accumulate(total, x)[0], None

    total, _ = jax.jit(lambda xs: jax.lax.scan(step, jnp.zeros(2), xs))(jnp.ones((5, 256, 2)))
    assert total.tolist() == [5 * 256, 5 * 256]


def test_threads_run_one_program(tuned, cuda):
    compiled = jax.jit(lambda x: tuned.affine(x, 2.0, relu=False)).lower(jnp.ones((16, 64))).compile()
    wrong = []

    def run(value):
        for _ in range(20):
            y = compiled(jnp.full((16, 64), value))
            wrong.extend([value] * bool((np.asarray(y) != 2 * value).any()))

    threads = [threading.Thread(target=run, args=(float(i),)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len(cuda.launches) == 80


def test_a_launch_that_the_driver_refuses_is_an_error_of_jax(tuned, cuda):
    cuda.status = 700
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"jpkg\.tuned\.affine: the driver refused the launch: CUDA_"):
        tuned.affine(jnp.ones((16, 64)), 1.5, relu=False).block_until_ready()


def test_a_program_whose_text_is_not_that_of_its_buffers_is_refused(tuned, cuda):
    text = '{"arrays":[["float32",[16,64]],["float32",[16,64]]],"scalars":[1.5],"keywords":[false],"scratch":0}'
    wrong = jax.ffi.ffi_call("jpkg.tuned.affine", [jax.ShapeDtypeStruct((16, 32), "float32")])
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"jpkg\.tuned\.affine: expected the buffers .*, found"):
        jax.jit(lambda x: wrong(x, call=text))(jnp.ones((16, 64)))[0].block_until_ready()


def test_use_reaches_calls_that_were_made_before(tuned, cuda):
    eager = importlib.import_module("jpkg.tuned")
    call = jax.jit(lambda x: tuned.affine(x, 2.0, relu=False))
    x = jnp.ones((16, 64))
    call(x).block_until_ready()
    try:
        eager.use(defaults=True)
        call(x).block_until_ready()
    finally:
        eager.use()
    assert cuda.launches[0].block != cuda.launches[1].block


def test_vmap_runs_one_call_after_another_where_the_spec_has_no_leading_dimensions(tuned, cuda):
    x = np.arange(3 * 16 * 64, dtype="float32").reshape(3, 16, 64)
    y = jax.vmap(lambda x: tuned.affine(x, 2.0, relu=False))(x)
    np.testing.assert_array_equal(y, 2 * x)
    assert len(cuda.launches) == 3
