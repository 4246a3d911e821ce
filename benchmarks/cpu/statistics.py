"""Medians, ratios with bootstrap intervals, and capped geometric means."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

CAP = 4.0
"""No row counts for more than this ratio, so that no single one carries a mean."""
RESAMPLES = 2000
SEED = 20_260_101


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times as long a peer takes, with a 95% interval.

    Attributes:
        value: median of the peer over median of ours; above 1, we are faster.
        low: 2.5th percentile of the bootstrap.
        high: 97.5th percentile.
    """

    value: float
    low: float
    high: float

    @property
    def is_behind(self) -> bool:
        """True if the whole interval says that the peer is faster."""
        return self.high < 1.0

    @property
    def is_ahead(self) -> bool:
        """True if the whole interval says that we are faster."""
        return self.low > 1.0

    def __str__(self) -> str:
        return f"{self.value:.2f} ({self.low:.2f}-{self.high:.2f})"


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> Ratio:
    """The ratio of medians of two series that were measured in the same rounds.

    Rounds are resampled, not single times: what disturbed a round disturbed both.

    Args:
        ours: seconds per call, one for each round.
        theirs: the peer's, as many.

    Raises:
        ValueError: no rounds, or not as many of one as of the other.
    """
    if not ours or len(ours) != len(theirs):
        raise ValueError(f"{len(ours)} rounds of ours, {len(theirs)} of the peer")
    mine, other = np.asarray(ours, np.float64), np.asarray(theirs, np.float64)
    picks = np.random.default_rng(SEED).integers(0, len(mine), (RESAMPLES, len(mine)))
    samples = np.median(other[picks], axis=1) / np.median(mine[picks], axis=1)
    low, high = np.percentile(samples, (2.5, 97.5))
    return Ratio(float(np.median(other) / np.median(mine)), float(low), float(high))


def capped_geometric_mean(ratios: Iterable[float]) -> float:
    """Geometric mean of ratios, each counted as `CAP` at most; not a number if there are none."""
    logs = [math.log(min(r, CAP)) for r in ratios]
    return math.exp(sum(logs) / len(logs)) if logs else math.nan
