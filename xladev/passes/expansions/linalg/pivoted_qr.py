"""QR factors with column pivoting (geqp3): the longest remaining column first."""

from __future__ import annotations

from xladev.hlo import dtype as dt
from xladev.passes.expansions.emit import Emitter, Values
from xladev.passes.expansions.linalg import matrices as mx
from xladev.passes.expansions.linalg.matrices import Value
from xladev.passes.expansions.linalg.order import sorted_with_order
from xladev.passes.expansions.linalg.qr import column_reduced


def pivoted_qr_factor(e: Emitter, a: Value, fixed: Value) -> tuple[Value, Value, Value]:
    """A P = Q R, none of the dimensions zero.

    Args:
        a: ``[batch, m, n]``.
        fixed: nonzero for columns that go to the front, in their order, s32 ``[batch, n]``.

    Returns:
        Packed factors, the number (from 0) of the column of A that became column j, s32
        ``[batch, n]``, and the reflectors' scales tau.
    """
    batch, m, n = a.shape.dims
    free = e.convert(e.compare("EQ", fixed, 0), dt.S32)
    _, order = sorted_with_order(e, free)
    held = e.subtract(e.full(n, dt.S32, (batch,)), e.reduce(free, (1,)))
    turned = mx.rows_at(e, e.swap_last(a), order)
    taus = e.full(0, a.shape.element_type, (batch, min(m, n)))

    def step(e: Emitter, number: Value, state: list[Value]) -> Values:
        turned, order, taus, held = state
        chosen = _longest(e, turned, number, held)
        turned = mx.rows_exchanged(e, turned, chosen, number)
        order = mx.elements_exchanged(e, order, chosen, number)
        a, tau = column_reduced(e, e.swap_last(turned), number, number)
        return e.swap_last(a), order, mx.with_element(e, taus, tau, number), held

    turned, order, taus, _ = e.repeat(min(m, n), (turned, order, taus, held), step)
    return e.swap_last(turned), order, taus


def _longest(e: Emitter, turned: Value, number: Value, held: Value) -> Value:
    """The longest column that remains, ``[batch]``; the next one while columns are held."""
    rest = e.select(e.compare("GE", mx.columns(e, turned), number), turned, 0)
    lengths = mx.lengths(e, rest)
    remaining = e.select(e.compare("GE", mx.rows(e, lengths), number), lengths, -1)
    here = e.broadcast(number, held.shape.dims, ())
    return e.select(e.compare("GT", held, number), here, mx.first_largest(e, remaining))
