"""How far each element of a result may be off, from how far noise moves it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xladev.hlo.ir import HloModule
from xladev.hlo.literal import Array, Value
from xladev.testing.noise import NoisyEvaluator, eps_of, evaluated, is_float, is_narrow, wide

_UNKNOWN = (np.nan, 1.0, np.inf)
"""What stands for a value that a correct backend may give or not, round by round.

Not every type has a zero.
"""

ROUNDS = len(_UNKNOWN)
_FACTOR = 8.0
_NARROW_FACTOR = 2.0
"""Of floats that are rounded once: their noise is one unit in the last place, or more."""
_COARSE = 2.0**-5
"""Relative error that the factor may not reach beyond: eight units of an fp8 are a whole number."""


def allowed_differences(
    module: HloModule,
    arguments: Sequence[Value],
    wanted: Sequence[Array],
    seed: int = 0,
    *,
    coarse_sums: bool = False,
) -> list[Array]:
    """For each result, how far each element may be off; 0 where it must be exact.

    Args:
        module: the program.
        arguments: of the run.
        wanted: its results.
        seed: of the noise.
        coarse_sums: True if sums of narrow floats may be accumulated in these, as XLA:CPU does;
            otherwise they are held to f32, rounded once.
    """
    spread = [np.zeros(w.shape) for w in wanted]
    for number in range(ROUNDS):
        evaluator = NoisyEvaluator(
            generator=np.random.default_rng((seed, number // 2)),
            unknown=_UNKNOWN[number],
            sign=-1.0 if number % 2 else 1.0,
            coarse_sums=coarse_sums,
        )
        noisy = evaluated(module, arguments, evaluator)
        spread = [
            np.maximum(s, _distance(moved, want))
            for s, moved, want in zip(spread, noisy, wanted, strict=True)
        ]
    return [_limit(s, want) for s, want in zip(spread, wanted, strict=True)]


def _distance(moved: Array, want: Array) -> Array:
    """How far noise moved each element; infinite where it made a number of none, or none of one."""
    with np.errstate(all="ignore"):
        distance = np.nan_to_num(np.abs(wide(moved) - wide(want)), nan=0.0, posinf=0.0)
    return np.where(np.isfinite(wide(moved)) != np.isfinite(wide(want)), np.inf, distance)


def _limit(spread: Array, want: Array) -> Array:
    """What is allowed, given what moved.

    Where all else in a result moved, noise may by chance have left an element where it was, or
    near: it is allowed a few units in its own last place, and of wide floats what others moved.
    """
    if not (spread > 0).any() or not is_float(want):
        return np.where(spread > 0, _FACTOR * spread, 0.0)
    factor = _factor(want)
    missed = np.zeros(spread.shape)
    if np.median(spread) > 0:
        size = np.abs(wide(want))
        missed = factor * eps_of(want) * np.where(np.isfinite(size), size, 0.0)
    if not is_narrow(want):
        spread = np.where(spread > 0, np.maximum(spread, _typical(spread)), 0.0)
    return np.where(spread > 0, factor * spread, missed)


def _factor(want: Array) -> float:
    """How many times further than the noise a correct result may be."""
    if not is_narrow(want):
        return _FACTOR
    return min(_NARROW_FACTOR, max(1.0, _COARSE / eps_of(want)))


def _typical(spread: Array) -> float:
    """The median of what moved by a finite distance."""
    finite = spread[np.isfinite(spread)]
    return float(np.median(finite)) if finite.size else 0.0
