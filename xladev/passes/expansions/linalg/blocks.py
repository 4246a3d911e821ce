"""Blocks of two rows on the diagonal of a real Schur form: all of them are turned at once."""

from __future__ import annotations

from typing import NamedTuple

from xladev.passes.expansions.emit import Emitter
from xladev.passes.expansions.linalg import matrices as mx
from xladev.passes.expansions.linalg.matrices import Value


class Blocks(NamedTuple):
    """Which rows belong together, all ``[batch, n]``.

    Attributes:
        starts: of a block's first row what is below its diagonal, else zero.
        is_last: whether a row is a block's last.
        first: number of the first row of each one's block, s32.
        other: number of the other row of its block, or its own, s32.
    """

    starts: Value
    is_last: Value
    first: Value
    other: Value


def blocks_of(e: Emitter, t: Value) -> Blocks:
    """Of matrices ``[batch, n, n]`` whose blocks have no row in common."""
    starts, ends = (mx.beside_diagonal(e, t, -1, dimension) for dimension in (2, 1))
    is_last, number = e.compare("NE", ends, 0), mx.rows(e, starts)
    first = e.select(is_last, e.subtract(number, 1), number)
    other = e.select(e.compare("NE", starts, 0), e.add(number, 1), first)
    return Blocks(starts, is_last, first, other)


def blocks_turned(e: Emitter, a: Value, c: Value, s: Value, other: Value) -> Value:
    """Each row times its cosine, and the other row of its block times its sine."""
    beside = mx.rows_at(e, a, other)
    return e.add(e.multiply(mx.down(e, c, a), a), e.multiply(mx.down(e, s, a), beside))
