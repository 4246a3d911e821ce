"""Programs of science in JAX: fluids, statistics, filters, differential equations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
from jax import lax

from benchmarks.cpu.functions.inputs import Parameters

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
    """Draws from the posterior of a logistic regression, by the No-U-Turn sampler.

    Trees are built without recursion: of each size a power of two, one point is kept, and turns
    are looked for between it and the newest one (Phan, Pradhan and Jankowiak 2019). A point is
    drawn among all by its weight.
    """
    draws, depths, step = p["draws"], p["depths"], p["step"]

    def run(seed: Any, x: Any, labels: Any) -> Any:
        def potential(w: Any) -> Any:
            scores = x @ w
            return (jax.nn.softplus(scores) - (labels % 2) * scores).sum() + (w**2).sum() / 2

        slope = jax.grad(potential)

        def leap(w: Any, momentum: Any, size: Any) -> tuple[Any, Any]:
            momentum = momentum - size / 2 * slope(w)
            w = w + size * momentum
            return w, momentum - size / 2 * slope(w)

        def turns(first: Any, last: Any, direction: Any) -> Any:
            way = direction * (last[0] - first[0])
            return ((way * first[1]).sum() <= 0) | ((way * last[1]).sum() <= 0)

        def subtree(edge: Any, depth: Any, direction: Any, energy: Any, key: Any) -> Any:
            """As many more points on one side: the new edge, a draw, their weight, if it turned."""

            def grow(state: Any) -> Any:
                number, at, kept, drawn, weight, _, key = state
                at = leap(*at, direction * step)
                key, mine = jax.random.split(key)
                log = energy - potential(at[0]) - (at[1] ** 2).sum() / 2
                total = jnp.logaddexp(weight, log)
                taken = jnp.log(jax.random.uniform(mine)) < log - total
                size = 2 << jnp.arange(depths)
                begins, ends = number % size == 0, (number + 1) % size == 0
                kept = tuple(
                    jnp.where(begins[:, None], v, k) for v, k in zip(at, kept, strict=True)
                )
                turned = jax.vmap(lambda *start, at=at: turns(start, at, direction))(*kept)
                stop = (ends & turned).any() | (log < -1000)
                return number + 1, at, kept, jnp.where(taken, at[0], drawn), total, stop, key

            empty = jnp.zeros((depths, edge[0].shape[0]))
            first = 0, edge, (empty, empty), edge[0], -jnp.inf, False, key
            made = lax.while_loop(lambda s: (s[0] < 1 << depth) & ~s[5], grow, first)
            return made[1], made[3], made[4], made[5]

        def draw(w: Any, key: Any) -> Any:
            first, key = jax.random.split(key)
            momentum = jax.random.normal(first, w.shape)
            energy = potential(w) + (momentum**2).sum() / 2

            def double(state: Any) -> Any:
                depth, left, right, drawn, weight, _, key = state
                key, side, inner, choice = jax.random.split(key, 4)
                forward = jax.random.bernoulli(side)
                direction = jnp.where(forward, 1.0, -1.0)
                edge = tuple(jnp.where(forward, r, q) for q, r in zip(left, right, strict=True))
                edge, new, more, stop = subtree(edge, depth, direction, energy, inner)
                left = tuple(jnp.where(forward, q, e) for q, e in zip(left, edge, strict=True))
                right = tuple(jnp.where(forward, e, r) for e, r in zip(edge, right, strict=True))
                taken = ~stop & (jnp.log(jax.random.uniform(choice)) < more - weight)
                stop = stop | turns(left, right, 1.0)
                drawn = jnp.where(taken, new, drawn)
                return depth + 1, left, right, drawn, jnp.logaddexp(weight, more), stop, key

            start = w, momentum
            first = 0, start, start, w, jnp.float32(0), False, key
            made = lax.while_loop(lambda s: (s[0] < depths) & ~s[5], double, first)
            return made[3], made[3]

        keys = jax.random.split(jax.random.key(seed[0]), draws)
        _, drawn = lax.scan(draw, jnp.zeros(x.shape[1]), keys)
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
