"""grad, vmap and shard_map over the kernels, by XLA's CPU client and a driver that computes on the CPU."""

import importlib

import numpy as np
import pytest

jax = pytest.importorskip("jax")
jnp = jax.numpy

X = np.linspace(-2, 3, 4 * 64, dtype="float32").reshape(4, 64)
W = np.linspace(0.5, 1.5, 64, dtype="float32")


def norm(tuned, x, w):
    return tuned.norm(x, w, 1e-5, centred=False)[0]


def plain(x, w):
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * w


def test_the_gradient_is_that_of_the_kernel_that_the_spec_names(tuned, cuda):
    def loss(f):
        return lambda x, w: (f(x, w) ** 2).sum()

    found = jax.jit(jax.grad(loss(lambda x, w: norm(tuned, x, w)), argnums=(0, 1)))(X, W)
    for one, wanted in zip(found, jax.jit(jax.grad(loss(plain), argnums=(0, 1)))(X, W), strict=True):
        np.testing.assert_allclose(one, wanted, rtol=1e-4, atol=1e-5)
    assert [launch.function for launch in cuda.launches] == ["norm", "norm_backward"]


def test_value_and_grad_outside_of_jit(tuned, cuda):
    value, slope = jax.value_and_grad(lambda x: norm(tuned, x, W).sum())(jnp.asarray(X))
    np.testing.assert_allclose(value, plain(X, W).sum(), rtol=1e-5)
    np.testing.assert_allclose(slope, jax.jit(jax.grad(lambda x: plain(x, W).sum()))(X), rtol=1e-4, atol=1e-5)


def test_an_array_of_more_dimensions_and_its_gradient(tuned, cuda):
    x = np.stack([X, X + 1])
    slope = jax.jit(jax.grad(lambda x: norm(tuned, x, W).sum()))(x)
    np.testing.assert_allclose(slope, jax.jit(jax.grad(lambda x: plain(x, W).sum()))(x), rtol=1e-4, atol=1e-5)


def test_vmap_adds_a_leading_dimension_where_the_spec_has_such(tuned, cuda):
    x = np.stack([X, X + 1, X - 1])
    np.testing.assert_allclose(jax.vmap(lambda x: norm(tuned, x, W))(x), plain(x, W), rtol=1e-5, atol=1e-6)
    assert [launch.function for launch in cuda.launches] == ["norm"]
    assert cuda.launches[0].arguments[5:] == (12, 64)


def test_vmap_over_what_has_no_leading_dimension_runs_one_call_after_another(tuned, cuda):
    w = np.stack([W, W + 1])
    y = jax.vmap(lambda w: norm(tuned, X, w))(w)
    np.testing.assert_allclose(y, np.stack([plain(X, one) for one in w]), rtol=1e-5, atol=1e-6)
    assert len(cuda.launches) == 2


def test_the_gradient_of_each_example_by_vmap(tuned, cuda):
    x = np.stack([X, X + 1])
    found = jax.jit(jax.vmap(jax.grad(lambda w, x: norm(tuned, x, w).sum()), in_axes=(None, 0)))(W, x)
    wanted = jax.jit(jax.vmap(jax.grad(lambda w, x: plain(x, w).sum()), in_axes=(None, 0)))(W, x)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_the_gradient_of_a_vmap_and_a_vmap_of_a_vmap(tuned, cuda):
    x = np.stack([np.stack([X, X + 1]), np.stack([X, X - 1])])
    call = jax.vmap(jax.vmap(lambda x: norm(tuned, x, W)))
    np.testing.assert_allclose(call(x), plain(x, W), rtol=1e-5, atol=1e-6)
    slope = jax.jit(jax.grad(lambda x: (call(x) ** 2).sum()))(x)
    np.testing.assert_allclose(slope, jax.jit(jax.grad(lambda x: (plain(x, W) ** 2).sum()))(x), rtol=1e-4, atol=1e-4)


def test_checkpointed_and_in_a_scan(tuned, cuda):
    def loss(f):
        return lambda x: jax.lax.scan(lambda c, _: (jax.checkpoint(f)(c), None), x, None, length=3)[0].sum()

    slope = jax.jit(jax.grad(loss(lambda x: norm(tuned, x, W))))(X)
    np.testing.assert_allclose(slope, jax.jit(jax.grad(loss(lambda x: plain(x, W))))(X), rtol=1e-3, atol=1e-4)


def test_a_second_derivative_is_an_error_that_says_how_to_stop(tuned, cuda):
    with pytest.raises(ValueError, match=r"^jpkg\.tuned\.norm_backward: has no gradient, and one through .* is asked"):
        jax.grad(lambda x: jax.grad(lambda x: norm(tuned, x, W).sum())(x).sum())(X)


@pytest.mark.parametrize(
    "asked",
    [
        lambda f: jax.grad(lambda x: f(x).sum())(X),
        lambda f: jax.jit(jax.grad(lambda x: f(x).sum()))(X),
        lambda f: jax.jvp(f, (X,), (X,)),
        lambda f: jax.linearize(f, X),
    ],
)
def test_a_kernel_without_a_backward_says_so_and_names_stop_gradient(tuned, asked):
    with pytest.raises(ValueError, match="has no gradient") as error:
        asked(lambda x: tuned.affine(x, 1.5, relu=False))
    assert str(error.value) == (
        "jpkg.tuned.affine: has no gradient, and one through x is asked for; pass jax.lax.stop_gradient(x), or write "
        "[backward] in its spec"
    )


def test_what_is_behind_stop_gradient_is_not_asked_for(tuned, cuda):
    slope = jax.grad(lambda x: (x * tuned.affine(jax.lax.stop_gradient(x), 2.0, relu=False)).sum())(X)
    np.testing.assert_allclose(slope, 2 * X, rtol=1e-6)


def test_integers_that_a_kernel_writes_have_no_gradient_and_ask_for_none(tuned, cuda):
    slope = jax.jit(jax.grad(lambda x: (x * (2 + tuned.counted(x)[0])).sum()))(X[0])
    np.testing.assert_allclose(slope, np.full(64, 2.0))


def test_an_input_without_a_gradient_is_an_error_that_names_it(tuned, cuda, monkeypatch):
    record = importlib.import_module("jpkg.tuned._runtime.table").KERNELS["norm"].backward
    monkeypatch.setattr(record, "outputs", record.outputs[:1])
    with pytest.raises(ValueError, match="computes no gradient") as error:
        jax.grad(lambda w: norm(tuned, X, w).sum())(W)
    assert str(error.value) == (
        "jpkg.tuned.norm: weight: norm_backward computes no gradient of it; pass jax.lax.stop_gradient(weight)"
    )


@pytest.mark.skipif(not hasattr(jax, "shard_map"), reason="this JAX has it elsewhere")
def test_shard_map_calls_the_kernel_with_the_part_of_each_device(tuned):
    mesh = jax.sharding.AbstractMesh((2,), ("rows",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = jax.sharding.PartitionSpec("rows")
    sharded = jax.shard_map(lambda x: tuned.affine(x, 2.0, relu=False), mesh=mesh, in_specs=spec, out_specs=spec)
    text = jax.jit(sharded).trace(jax.ShapeDtypeStruct((32, 64), "float32")).lower(lowering_platforms=("cuda",))
    assert "[\\22float32\\22,[16,64]]" in text.as_text()
