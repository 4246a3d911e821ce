"""LU factors with partial pivoting: one loop over columns inside one over panels of columns.

Right-looking, as LAPACK's getrf: a panel is factored, its row exchanges are applied to the whole
matrix, and one product of matrices brings what is right of and below it up to date. Rows and
columns are padded by zeros to whole panels; padding is never chosen as pivot.
"""

from __future__ import annotations

from typing import NamedTuple

from xladev.hlo import dtype as dt
from xladev.passes.expansions.blocking import SMALL, blocking
from xladev.passes.expansions.emit import Emitter, Values
from xladev.passes.expansions.linalg import matrices as mx
from xladev.passes.expansions.linalg.matrices import Value
from xladev.passes.expansions.triangular_solve import substitute

_NARROWEST = 16


class LuFactors(NamedTuple):
    """P A = L U.

    Attributes:
        packed: L below the diagonal (which is one), U from it on, ``[batch, m, n]``.
        pivots: the row exchanged with row i, from 0, s32 ``[batch, min(m, n)]``.
        order: the row of A that became row i, s32 ``[batch, m]``.
        info: the number (from 1) of the first zero pivot, or 0, s32 ``[batch]``.
    """

    packed: Value
    pivots: Value
    order: Value
    info: Value


def lu_factor(e: Emitter, a: Value) -> LuFactors:
    """The factors of matrices ``[batch, m, n]``, none of the dimensions zero."""
    batch, m, n = a.shape.dims
    k = min(m, n)
    blocks = blocking(k, 1, _panel_width(k))
    width = blocks.small
    a = e.pad(a, ((0, 0, 0), (0, max(blocks.rows - m, 0), 0), (0, max(blocks.rows - n, 0), 0)))
    padded_rows = a.shape.dims[1]
    state = LuFactors(
        a,
        e.full(0, dt.S32, (batch, blocks.rows)),
        e.iota(dt.S32, (batch, padded_rows), 1),
        e.full(0, dt.S32, (batch,)),
    )

    def step(e: Emitter, number: Value, state: list[Value]) -> Values:
        return _panel_step(e, LuFactors(*state), e.multiply(number, width), width, k)

    found = LuFactors(*e.repeat(blocks.per_large, state, step))
    packed = e.slice_in(e.slice_in(found.packed, 1, 0, m), 2, 0, n)
    pivots, order = e.slice_in(found.pivots, 1, 0, k), e.slice_in(found.order, 1, 0, m)
    return LuFactors(packed, pivots, order, found.info)


def _panel_width(k: int) -> int:
    """Most columns of a panel: each is gone over once for each of its columns."""
    return min(max(k // 16, _NARROWEST), SMALL)


def _panel_step(e: Emitter, state: LuFactors, start: Value, width: int, k: int) -> LuFactors:
    """Factors the panel that begins at ``start`` and updates the rest."""
    a, pivots, order, info = state
    batch, m, n = a.shape.dims
    panel = e.dynamic_slice(a, (0, 0, start), (batch, m, width))
    panel, swaps, moved, info = _factor_panel(e, panel, start, info, k)
    pivots = e.dynamic_update_slice(pivots, swaps, (0, start))
    if n == width:
        return LuFactors(panel, pivots, moved, info)
    a = e.dynamic_update_slice(mx.rows_at(e, a, moved), panel, (0, 0, start))
    order = mx.elements_at(e, order, moved)
    return LuFactors(_update_rest(e, a, panel, start), pivots, order, info)


def _factor_panel(
    e: Emitter, panel: Value, start: Value, info: Value, k: int
) -> tuple[Value, Value, Value, Value]:
    """The factored panel, its pivots, the rows in their new order, and info."""
    batch, m, width = panel.shape.dims
    pivots, order = e.full(0, dt.S32, (batch, width)), e.iota(dt.S32, (batch, m), 1)

    def step(e: Emitter, number: Value, state: list[Value]) -> Values:
        panel, pivots, order, info, start = state
        at = e.add(start, number)
        pivot = _pivot_row(e, mx.column(e, panel, number), at, k)
        order = mx.elements_exchanged(e, order, pivot, at)
        panel = mx.rows_exchanged(e, panel, pivot, at)
        zero = e.compare("EQ", mx.element(e, mx.row(e, panel, at), number), 0)
        first = mx.both(e, zero, e.compare("EQ", info, 0), _below(e, at, k, info))
        info = e.select(first, e.broadcast(e.add(at, 1), info.shape.dims, ()), info)
        panel = _eliminated(e, panel, at, number)
        pivots = mx.with_element(e, pivots, pivot, number)
        return panel, pivots, order, info, start

    panel, pivots, order, info, _ = e.repeat(width, (panel, pivots, order, info, start), step)
    return panel, pivots, order, info


def _below(e: Emitter, number: Value, limit: int, like: Value) -> Value:
    """``number < limit``, for every matrix."""
    return e.broadcast(e.compare("LT", number, limit), like.shape.dims, ())


def _pivot_row(e: Emitter, x: Value, at: Value, k: int) -> Value:
    """The row of the largest element from ``at`` on, by |re| + |im| as LAPACK; ``at`` from k on."""
    size = e.select(e.compare("GE", mx.rows(e, x), at), mx.size(e, x), -1)
    largest = mx.first_largest(e, size)
    here = e.broadcast(at, largest.shape.dims, ())
    return e.select(_below(e, at, k, largest), largest, here)


def _eliminated(e: Emitter, panel: Value, at: Value, number: Value) -> Value:
    """The panel after the step at row ``at``, its column ``number``."""
    x, upper = mx.column(e, panel, number), mx.row(e, panel, at)
    pivot = mx.element(e, upper, number)
    divisor = e.select(e.compare("EQ", pivot, 0), 1, pivot)
    factors = e.divide(x, mx.spread(e, divisor, x, 0))
    rest = e.subtract(panel, mx.outer(e, factors, upper))
    column = mx.columns(e, panel)
    here = e.select(e.compare("EQ", column, number), mx.down(e, factors, panel), panel)
    new = e.select(e.compare("GT", column, number), rest, here)
    return e.select(e.compare("GT", mx.rows(e, panel), at), new, panel)


def _update_rest(e: Emitter, a: Value, panel: Value, start: Value) -> Value:
    """What is right of the panel: its rows solved for U, those below them reduced."""
    batch, _, n = a.shape.dims
    width = panel.shape.dims[2]
    limit = e.add(start, width)
    lower = e.dynamic_slice(panel, (0, start, 0), (batch, width, width))
    old = e.dynamic_slice(a, (0, start, 0), (batch, width, n))
    right = e.compare("GE", mx.columns(e, old), limit)
    solved = substitute(e, lower, old, unit_diagonal=True)
    a = e.dynamic_update_slice(a, e.select(right, solved, old), (0, start, 0))
    below = e.select(e.compare("GE", mx.rows(e, panel), limit), panel, 0)
    rest = e.subtract(a, e.matmul(below, e.select(right, solved, 0)))
    inside = mx.both(
        e, e.compare("GE", mx.rows(e, a), limit), e.compare("GE", mx.columns(e, a), limit)
    )
    return e.select(inside, rest, a)
