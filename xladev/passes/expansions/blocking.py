"""How factorisations and triangular systems are cut into blocks.

A few large blocks are written out one after the other, so that each deals only with what is left;
within each runs one loop over small blocks. The program stays short and no work is wasted.
"""

from __future__ import annotations

from typing import NamedTuple

from xladev.hlo import dtype as dt
from xladev.hlo.ir import HloInstruction
from xladev.passes.expansions.emit import Emitter

SMALL = 64
"""Most rows of a small block."""


class Blocking(NamedTuple):
    """``large`` blocks of ``per_large`` small ones of ``small`` rows each."""

    large: int
    per_large: int
    small: int

    @property
    def large_rows(self) -> int:
        """Rows of a large block."""
        return self.per_large * self.small

    @property
    def rows(self) -> int:
        """Rows of all blocks; a little more than there are."""
        return self.large * self.large_rows


def blocking(n: int, most_large: int, most_small: int = SMALL) -> Blocking:
    """Blocks for ``n`` rows, of equal sizes, small ones of ``most_small`` rows at most."""
    large = max(1, min(most_large, -(-n // most_small)))
    per_large = max(1, -(-n // (large * most_small)))
    return Blocking(large, per_large, -(-n // (large * per_large)))


def padded_square(e: Emitter, a: HloInstruction, rows: int) -> HloInstruction:
    """Matrices ``[..., n, n]`` grown to ``rows`` by ones on the diagonal."""
    rank, n = a.shape.rank, a.shape.dims[-1]
    if n == rows:
        return a
    none = ((0, 0, 0),) * (rank - 2)
    grown = e.pad(a, (*none, (0, rows - n, 0), (0, rows - n, 0)))
    row, column = e.iota(dt.S32, (rows, rows), 0), e.iota(dt.S32, (rows, rows), 1)
    added = e.op("and", e.compare("EQ", row, column), e.compare("GE", row, n))
    spread = e.broadcast(added, grown.shape.dims, (rank - 2, rank - 1))
    return e.select(spread, 1, grown)


def padded_rows(e: Emitter, b: HloInstruction, rows: int) -> HloInstruction:
    """Matrices ``[..., n, k]`` grown to ``rows`` by zeros."""
    none = ((0, 0, 0),) * (b.shape.rank - 2)
    return e.pad(b, (*none, (0, rows - b.shape.dims[-2], 0), (0, 0, 0)))
