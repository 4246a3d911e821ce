"""The No-U-Turn sampler in JAX.

Trees are built without recursion: of each size a power of two, one point is kept, and turns are
looked for between it and the newest one (Phan, Pradhan and Jankowiak 2019). A point is drawn among
all by its weight.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

LEAST_LOG_WEIGHT = -1000.0
"""A point of less weight says that the steps diverged."""


@dataclass(frozen=True)
class NoUTurnSampler:
    """Draws by a potential.

    Attributes:
        potential: minus the log density of a position, up to a constant.
        depths: most doublings of a tree.
        step: size of a step.
    """

    potential: Callable[[Any], Any]
    depths: int
    step: float

    def draw(self, w: Any, key: Any) -> tuple[Any, Any]:
        """The next position after ``w``, twice: for `lax.scan`."""
        first, key = jax.random.split(key)
        momentum = jax.random.normal(first, w.shape)
        energy = self.potential(w) + (momentum**2).sum() / 2
        start = w, momentum
        state = 0, start, start, w, jnp.float32(0), False, key
        made = lax.while_loop(
            lambda s: (s[0] < self.depths) & ~s[5], lambda s: self._doubled(s, energy), state
        )
        return made[3], made[3]

    def _doubled(self, state: Any, energy: Any) -> Any:
        """The tree with as many more points on one side."""
        depth, left, right, drawn, weight, _, key = state
        key, side, inner, choice = jax.random.split(key, 4)
        forward = jax.random.bernoulli(side)
        direction = jnp.where(forward, 1.0, -1.0)
        edge = _chosen(forward, right, left)
        edge, new, more, stop = self._subtree(edge, depth, direction, energy, inner)
        left, right = _chosen(forward, left, edge), _chosen(forward, edge, right)
        taken = ~stop & (jnp.log(jax.random.uniform(choice)) < more - weight)
        stop = stop | _turns(left, right, 1.0)
        drawn = jnp.where(taken, new, drawn)
        return depth + 1, left, right, drawn, jnp.logaddexp(weight, more), stop, key

    def _subtree(self, edge: Any, depth: Any, direction: Any, energy: Any, key: Any) -> Any:
        """The new edge, a draw among the new points, their weight, and whether they turned."""
        empty = jnp.zeros((self.depths, edge[0].shape[0]))
        first = 0, edge, (empty, empty), edge[0], -jnp.inf, False, key
        made = lax.while_loop(
            lambda s: (s[0] < 1 << depth) & ~s[5],
            lambda s: self._grown(s, direction, energy),
            first,
        )
        return made[1], made[3], made[4], made[5]

    def _grown(self, state: Any, direction: Any, energy: Any) -> Any:
        """One point more."""
        number, at, kept, drawn, weight, _, key = state
        at = self._leap(*at, direction * self.step)
        key, mine = jax.random.split(key)
        log = energy - self.potential(at[0]) - (at[1] ** 2).sum() / 2
        total = jnp.logaddexp(weight, log)
        taken = jnp.log(jax.random.uniform(mine)) < log - total
        size = 2 << jnp.arange(self.depths)
        begins, ends = number % size == 0, (number + 1) % size == 0
        kept = tuple(jnp.where(begins[:, None], v, k) for v, k in zip(at, kept, strict=True))
        turned = jax.vmap(lambda *start: _turns(start, at, direction))(*kept)
        stop = (ends & turned).any() | (log < LEAST_LOG_WEIGHT)
        return number + 1, at, kept, jnp.where(taken, at[0], drawn), total, stop, key

    def _leap(self, w: Any, momentum: Any, size: Any) -> tuple[Any, Any]:
        """A leapfrog step."""
        slope = jax.grad(self.potential)
        momentum = momentum - size / 2 * slope(w)
        w = w + size * momentum
        return w, momentum - size / 2 * slope(w)


def _turns(first: Any, last: Any, direction: Any) -> Any:
    """Whether two points of a path, each a position and a momentum, come nearer to each other."""
    way = direction * (last[0] - first[0])
    return ((way * first[1]).sum() <= 0) | ((way * last[1]).sum() <= 0)


def _chosen(condition: Any, one: Any, other: Any) -> tuple[Any, ...]:
    return tuple(jnp.where(condition, a, b) for a, b in zip(one, other, strict=True))
