"""Exchanges of rows, one after the other, as one permutation."""

from __future__ import annotations

from xladev.hlo import dtype as dt
from xladev.passes.expansions.emit import Emitter, Values
from xladev.passes.expansions.linalg import matrices as mx
from xladev.passes.expansions.linalg.matrices import Value

_MOST_STEPS = 32


def composed_exchanges(e: Emitter, pivots: Value, rows: int) -> Value:
    """Where each row comes from, s32 ``[batch, rows]``, after row i was exchanged with pivots[i].

    Groups of exchanges become permutations by composing neighbours, which needs few steps; the
    groups follow each other in a loop.

    Args:
        e: where instructions go.
        pivots: s32 ``[batch, count]``, from 0, count at least 1.
        rows: how many there are.
    """
    batch, count = pivots.shape.dims
    width = _power_of_two(max(-(-count // _MOST_STEPS), min(count, _MOST_STEPS)))
    groups = -(-count // width)
    numbers = e.iota(dt.S32, (batch, groups * width), 1)
    given = e.pad(pivots, ((0, 0, 0), (0, groups * width - count, 0)))
    chosen = e.select(e.compare("LT", numbers, count), given, numbers)

    def step(e: Emitter, number: Value, state: list[Value]) -> Values:
        order, chosen, numbers = state
        start = e.multiply(number, width)
        parts = [e.dynamic_slice(x, (0, start), (batch, width)) for x in (numbers, chosen)]
        return mx.elements_at(e, order, _composed(e, parts[0], parts[1], rows)), chosen, numbers

    first = e.iota(dt.S32, (batch, rows), 1)
    state = (first, chosen, numbers)
    if groups == 1:
        return step(e, e.scalar(0, dt.S32), list(state))[0]
    return e.repeat(groups, state, step)[0]


def _power_of_two(least: int) -> int:
    return 1 << (least - 1).bit_length()


def _composed(e: Emitter, one: Value, other: Value, rows: int) -> Value:
    """The permutation of the exchanges of ``one`` and ``other``, both ``[batch, width]``."""
    batch, width = one.shape.dims
    dims = (batch, width, rows)
    row = e.iota(dt.S32, dims, 2)
    first, second = (e.broadcast(x, dims, (0, 1)) for x in (one, other))
    moved = e.select(e.compare("EQ", row, second), first, row)
    found = e.select(e.compare("EQ", row, first), second, moved)
    while width > 1:
        width //= 2
        pairs = e.reshape(found, (batch * width, 2, rows))
        before, after = (
            e.reshape(e.slice_in(pairs, 1, i, i + 1), (batch * width, rows)) for i in (0, 1)
        )
        found = mx.elements_at(e, before, after)
    return e.reshape(found, (batch, rows))
