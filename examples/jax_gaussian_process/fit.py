"""Fits a Gaussian process with jax.random and jax.scipy.linalg; JAX_PLATFORMS says on what.

JAX_PLATFORMS=xladev_cpu python fit.py       the CPU of xladev
JAX_PLATFORMS=template_npu python fit.py     a simulated accelerator

From 40 noisy values of a sine, a ramp and a step it learns how smooth they are (the gradient of a
Cholesky factorisation), predicts between them, and draws curves that are as likely.
"""

import argparse
from functools import partial
from typing import TypeAlias

import jax
import jax.numpy as jnp
from jax.scipy import linalg

POINTS = 40
GRID = 64
DRAWS = 200
NOISE = 0.1

Array: TypeAlias = jax.Array


def truth(x: Array) -> Array:
    """What is to be found."""
    return jnp.sin(3 * x) + 0.5 * x + jnp.where(x > 1, 0.3, 0.0)


def covariance(logs: Array, x: Array, y: Array) -> Array:
    """Covariances ``[n, m]`` of values at points; ``logs`` are those of scale and length."""
    scale, length = jnp.exp(logs[0]), jnp.exp(logs[1])
    return scale**2 * jnp.exp(-0.5 * ((x[:, None] - y[None, :]) / length) ** 2)


def with_noise(logs: Array, x: Array) -> Array:
    """Covariances of the noisy values."""
    return covariance(logs, x, x) + jnp.exp(2 * logs[2]) * jnp.eye(len(x))


def unlikeliness(logs: Array, x: Array, y: Array) -> Array:
    """Minus the logarithm of the values' likelihood, without its constant."""
    factor, lower = linalg.cho_factor(with_noise(logs, x), lower=True)
    weights = linalg.cho_solve((factor, lower), y)
    return 0.5 * y @ weights + jnp.sum(jnp.log(jnp.diagonal(factor)))


@partial(jax.jit, static_argnames="steps")
def fit(logs: Array, x: Array, y: Array, steps: int) -> Array:
    """The likeliest parameters, by steps along the gradient's signs."""

    def step(state: tuple[Array, Array, Array], _: None) -> tuple[tuple[Array, Array, Array], None]:
        logs, before, rates = state
        gradient = jax.grad(unlikeliness)(logs, x, y)
        rates = jnp.clip(rates * jnp.where(gradient * before > 0, 1.2, 0.5), 1e-5, 0.1)
        return (logs - rates * jnp.sign(gradient), gradient, rates), None

    start = (logs, jnp.zeros_like(logs), jnp.full_like(logs, 0.05))
    return jax.lax.scan(step, start, None, length=steps)[0][0]


@jax.jit
def predict(logs: Array, x: Array, y: Array, at: Array) -> tuple[Array, Array]:
    """Mean ``[n]`` and covariance ``[n, n]`` of the values at other points."""
    lower = linalg.cholesky(with_noise(logs, x), lower=True)
    across = linalg.solve_triangular(lower, covariance(logs, x, at), lower=True)
    mean = across.T @ linalg.solve_triangular(lower, y, lower=True)
    return mean, covariance(logs, at, at) - across.T @ across


@jax.jit
def draw(key: Array, mean: Array, spread: Array) -> Array:
    """Curves ``[DRAWS, n]``, from the covariance's eigenvectors."""
    values, vectors = linalg.eigh(spread)
    normal = jax.random.normal(key, (DRAWS, len(mean)))
    return mean + (normal * jnp.sqrt(jnp.maximum(values, 0))) @ vectors.T


def main() -> None:
    """Fits and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--steps", type=int, default=200, help="steps of the fit")
    steps = parser.parse_args().steps
    places, errors, curves = jax.random.split(jax.random.key(0), 3)
    x = jax.random.uniform(places, (POINTS,), minval=-2.0, maxval=2.0)
    y = truth(x) + NOISE * jax.random.normal(errors, (POINTS,))
    logs = fit(jnp.log(jnp.array([1.0, 1.0, 0.3])), x, y, steps)
    print("scale {:.3f}, length {:.3f}, noise {:.3f}".format(*map(float, jnp.exp(logs))))

    at = jnp.linspace(-1.9, 1.9, GRID)
    mean, spread = predict(logs, x, y, at)
    drawn = draw(curves, mean, spread)
    inside = jnp.mean(jnp.abs(truth(at) - mean) < 3 * jnp.std(drawn, axis=0) + NOISE)
    print(f"the truth lies within the drawn curves at {float(inside):.0%} of the points")
    error = float(jnp.sqrt(jnp.mean((mean - truth(at)) ** 2)))
    print(f"mean error {error:.4f} on {jax.default_backend()}")


if __name__ == "__main__":
    main()
