"""Fit a weight by gradient descent through the tuned RMS norm, under jax.jit: `python train_jax.py`."""

import sys
from collections.abc import Callable

import jax
import jax.numpy as jnp
from layers.tuned import jax as tuned

STEPS, ROWS, COLS, RATE, EPS = 20, 512, 1024, 100.0, 1e-6
TOLERANCE = 1e-2  # of a loss: both round, in another order


def tuned_norm(x: jax.Array, weight: jax.Array) -> jax.Array:
    """Return the RMS norm by the tuned kernel."""
    y, _ = tuned.rms_norm(x, weight, EPS)
    return y


def plain_norm(x: jax.Array, weight: jax.Array) -> jax.Array:
    """Return the RMS norm by JAX's own operations."""
    return x * jax.lax.rsqrt((x * x).mean(axis=1, keepdims=True) + EPS) * weight


def losses(norm: Callable[[jax.Array, jax.Array], jax.Array]) -> list[float]:
    """Return the losses of STEPS steps with a norm."""
    x = jax.random.normal(jax.random.key(0), (ROWS, COLS))
    right = plain_norm(x, jax.random.normal(jax.random.key(1), (COLS,)))

    @jax.jit
    def step(weight: jax.Array) -> tuple[jax.Array, jax.Array]:
        loss, gradient = jax.value_and_grad(lambda w: ((norm(x, w) - right) ** 2).mean())(weight)
        return loss, weight - RATE * gradient

    weight, found = jnp.ones(COLS), []
    for _ in range(STEPS):
        loss, weight = step(weight)
        found.append(float(loss))
    return found


def main() -> int:
    """Print the losses with both; return 1 if they part."""
    if jax.default_backend() != "gpu":
        sys.exit("train_jax.py needs an NVIDIA GPU, and jax[cuda13]")
    apart = 0.0
    for step, (own, plain) in enumerate(zip(losses(tuned_norm), losses(plain_norm), strict=True)):
        apart = max(apart, abs(own - plain) / plain)
        if step % 5 == 0:
            print(f"step {step}: loss {own:.6f} with the tuned norm, {plain:.6f} with JAX's operations")
    print(f"largest difference {apart:.1e}")
    return int(not apart < TOLERANCE)


if __name__ == "__main__":
    sys.exit(main())
