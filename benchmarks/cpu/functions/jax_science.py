"""Programs of science in JAX: fluids, statistics, filters, differential equations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
from jax import lax

from benchmarks.cpu.functions.inputs import Parameters
from benchmarks.cpu.functions.jax_nuts import NoUTurnSampler

Function = Callable[..., Any]


def _waves(n: int) -> tuple[Any, Any]:
    """Wave numbers of a real transform of n x n values, along each axis."""
    whole = jnp.fft.fftfreq(n, 1 / n).astype(jnp.float32)
    return whole[:, None], jnp.arange(n // 2 + 1, dtype=jnp.float32)[None, :]


def _navier_stokes(p: Parameters) -> Function:
    """A step of the vorticity equation on a torus: pseudo-spectral, two-thirds rule, midpoint."""
    n, viscosity, dt = p["n"], 1e-3, 1e-3

    def run(vorticity: Any) -> Any:
        ky, kx = _waves(n)
        square = kx**2 + ky**2
        inverse = jnp.where(square > 0, 1 / jnp.where(square > 0, square, 1), 0)
        kept = (jnp.abs(kx) < n / 3) & (jnp.abs(ky) < n / 3)

        def tendency(w: Any) -> Any:
            stream = w * inverse
            u, v, wx, wy = (
                jnp.fft.irfft2(s, (n, n))
                for s in (1j * ky * stream, -1j * kx * stream, 1j * kx * w, 1j * ky * w)
            )
            return jnp.where(kept, -jnp.fft.rfft2(u * wx + v * wy), 0)

        w = jnp.fft.rfft2(vorticity)
        half = (w + dt / 2 * tendency(w)) / (1 + dt / 2 * viscosity * square)
        after = (w + dt * tendency(half)) / (1 + dt * viscosity * square)
        return jnp.fft.irfft2(after, (n, n))

    return run


def _poisson(p: Parameters) -> Function:
    """The periodic solution of a Poisson equation without mean."""
    n = p["n"]

    def run(source: Any) -> Any:
        ky, kx = _waves(n)
        square = kx**2 + ky**2
        spectrum = jnp.fft.rfft2(source)
        return jnp.fft.irfft2(jnp.where(square > 0, -spectrum / jnp.maximum(square, 1), 0), (n, n))

    return run


def _gaussian_process(p: Parameters) -> Function:
    """Negative log likelihood of a Gaussian process, and its gradient."""

    def loss(theta: Any, x: Any, y: Any) -> Any:
        scale, width, noise = jnp.exp(theta)
        distance = ((x[:, None] - x[None]) ** 2).sum(-1)
        k = scale * jnp.exp(-distance / (2 * width**2)) + (noise + 0.1) * jnp.eye(x.shape[0])
        factor = jnp.linalg.cholesky(k)
        white = jsl.solve_triangular(factor, y, lower=True)
        return (white**2).sum() / 2 + jnp.log(jnp.diagonal(factor)).sum()

    return jax.value_and_grad(loss)


def _kalman_loss(a: Any, observations: Any) -> Any:
    """Negative log likelihood of a linear system whose first half is observed."""
    n = a.shape[0]
    m = n // 2
    move = 0.9 * jnp.eye(n) + 0.05 * a
    h = jnp.eye(m, n)
    noise, measured = 0.1 * jnp.eye(n), 0.2 * jnp.eye(m)

    def step(state: Any, y: Any) -> Any:
        mean, spread = state
        mean, spread = move @ mean, move @ spread @ move.T + noise
        s = h @ spread @ h.T + measured
        factor = jnp.linalg.cholesky(s)
        gain = jsl.cho_solve((factor, True), h @ spread).T
        gap = y - h @ mean
        white = jsl.solve_triangular(factor, gap, lower=True)
        cost = (white**2).sum() / 2 + jnp.log(jnp.diagonal(factor)).sum()
        return (mean + gain @ gap, spread - gain @ h @ spread), cost

    _, costs = lax.scan(step, (jnp.zeros(n), jnp.eye(n)), observations)
    return costs.sum()


_DOPRI5 = (
    (1 / 5,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
    (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
)
_DOPRI5_ERROR = (71 / 57600, 0.0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40)
"""Coefficients of Dormand and Prince, and of the error estimate."""


def _field(y: Any, rates: Any) -> Any:
    """Predators and prey, one pair for each column."""
    prey, hunters = y
    a, b, c, d = jnp.exp(0.1 * rates)
    return jnp.stack([a * prey - b * prey * hunters, -c * hunters + d * prey * hunters])


def _attempt(y: Any, step: Any, rates: Any) -> tuple[Any, Any]:
    """The state a step later, and the error over what is allowed."""
    slopes = [_field(y, rates)]
    for row in _DOPRI5:
        at = y + step * sum(c * k for c, k in zip(row, slopes, strict=True))
        slopes.append(_field(at, rates))
    error = step * sum(c * k for c, k in zip(_DOPRI5_ERROR, slopes, strict=True))
    allowed = 1e-6 + 1e-4 * jnp.maximum(jnp.abs(y), jnp.abs(at))
    return at, jnp.sqrt(((error / allowed) ** 2).mean())


def _advance(state: Any, rates: Any, end: float) -> Any:
    """One attempt with a step by the controller: taken if the error allows it."""
    t, y, step = state
    step = jnp.minimum(step, end - t)
    after, error = _attempt(y, step, rates)
    fits = error <= 1
    factor = jnp.clip(0.9 * jnp.maximum(error, 1e-10) ** -0.2, 0.2, 10.0)
    return jnp.where(fits, t + step, t), jnp.where(fits, after, y), step * factor


def _ode(p: Parameters) -> Function:
    """An adaptive solution to a fixed time."""
    end = p["end"]

    def run(start: Any, rates: Any) -> Any:
        first = jnp.float32(0), 1 + 0.1 * start, jnp.float32(0.01)
        return lax.while_loop(
            lambda s: s[0] < end, lambda s: _advance(s, rates, end), first
        )[1]  # fmt: skip

    return run


def _ode_backward(p: Parameters) -> Function:
    """The gradient of an adaptive solution, by its rates, over a bounded number of steps."""
    end, most = p["end"], p["most"]

    def loss(rates: Any, start: Any) -> Any:
        def step(state: Any, _: Any) -> Any:
            return lax.cond(
                state[0] < end, lambda s: _advance(s, rates, end), lambda s: s, state
            ), ()

        first = jnp.float32(0), 1 + 0.1 * start, jnp.float32(0.01)
        (_, y, _), _ = lax.scan(step, first, None, length=most)
        return (y**2).sum()

    return lambda start, rates: jax.value_and_grad(loss)(rates, start)


def _hamiltonian(p: Parameters) -> Function:
    """Draws from the posterior of a logistic regression, by Hamiltonian Monte Carlo."""
    draws, leaps, step = p["draws"], p["leaps"], 0.02

    def run(seed: Any, x: Any, labels: Any) -> Any:
        def energy(w: Any) -> Any:
            scores = x @ w
            return (jax.nn.softplus(scores) - (labels % 2) * scores).sum() + (w**2).sum() / 2

        slope = jax.grad(energy)

        def leap(_: Any, state: Any) -> Any:
            w, momentum = state
            momentum = momentum - step / 2 * slope(w)
            w = w + step * momentum
            return w, momentum - step / 2 * slope(w)

        def draw(w: Any, key: Any) -> Any:
            first, second = jax.random.split(key)
            momentum = jax.random.normal(first, w.shape)
            new, after = lax.fori_loop(0, leaps, leap, (w, momentum))
            gain = energy(w) + (momentum**2).sum() / 2 - energy(new) - (after**2).sum() / 2
            w = jnp.where(jnp.log(jax.random.uniform(second)) < gain, new, w)
            return w, w

        keys = jax.random.split(jax.random.key(seed[0]), draws)
        _, drawn = lax.scan(draw, jnp.zeros(x.shape[1]), keys)
        return drawn.mean(0)

    return run


def _nuts(p: Parameters) -> Function:
    """Draws from the posterior of a logistic regression, by the No-U-Turn sampler."""

    def run(seed: Any, x: Any, labels: Any) -> Any:
        def potential(w: Any) -> Any:
            scores = x @ w
            return (jax.nn.softplus(scores) - (labels % 2) * scores).sum() + (w**2).sum() / 2

        sampler = NoUTurnSampler(potential, p["depths"], p["step"])
        keys = jax.random.split(jax.random.key(seed[0]), p["draws"])
        _, drawn = lax.scan(sampler.draw, jnp.zeros(x.shape[1]), keys)
        return drawn.mean(0)

    return run


def _pca(p: Parameters) -> Function:
    """Coordinates along the axes of greatest variance, as absolute values."""

    def run(x: Any) -> Any:
        centred = x - x.mean(0)
        values, axes = jnp.linalg.eigh(centred.T @ centred / (x.shape[0] - 1))
        return values, jnp.abs(centred @ axes[:, -p["kept"] :])

    return run


FUNCTIONS: Mapping[str, Callable[[Parameters], Function]] = {
    "navier_stokes": _navier_stokes,
    "poisson": _poisson,
    "gaussian_process": _gaussian_process,
    "kalman": lambda p: _kalman_loss,
    "kalman_backward": lambda p: jax.value_and_grad(_kalman_loss),
    "ode": _ode,
    "ode_backward": _ode_backward,
    "hamiltonian": _hamiltonian,
    "nuts": _nuts,
    "pca": _pca,
}
"""By kind of row."""
