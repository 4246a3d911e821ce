"""QR factors by Householder reflectors, and products with their Q, in LAPACK's packed forms.

Reflectors of one panel of columns are found one after the other and applied together, as
``I - V T V*`` (compact WY form, Schreiber and Van Loan 1989). Instead of T its inverse is made,
``striu(V* V) + diag(1 / tau)``, and a triangular system is solved.
"""

from __future__ import annotations

from typing import NamedTuple

from xladev.passes.expansions.blocking import blocking
from xladev.passes.expansions.emit import Emitter, Values
from xladev.passes.expansions.linalg import matrices as mx
from xladev.passes.expansions.linalg.matrices import Value
from xladev.passes.expansions.triangular_solve import substitute


class Reflector(NamedTuple):
    """H = 1 - tau v v*, with H* x = beta e.

    Attributes:
        beta, tau: of the matrices' type, ``[batch]``.
        v: one at the place of e, zero before it, ``[batch, n]``.
    """

    beta: Value
    tau: Value
    v: Value


def reflector(e: Emitter, x: Value, at: Value) -> Reflector:
    """The reflector that turns the vectors from element ``at`` on into beta e (larfg).

    The vectors are scaled, and what follows their first element once more, so that no square
    overflows or vanishes: a vector is left alone only if all that follows is zero.
    """
    number = mx.rows(e, x)
    kept = e.select(e.compare("GE", number, at), x, 0)
    behind = e.compare("GT", number, at)
    scale = mx.scale_of(e, kept)
    near = mx.scaled(e, kept, scale)
    alpha, tail = mx.element(e, near, at), e.select(behind, near, 0)
    length = mx.lengths(e, tail)
    squares = e.add(mx.square_magnitude(e, alpha), e.multiply(length, length))
    plain = _all_zero(e, e.select(behind, x, 0))
    if x.shape.element_type.is_complex:
        plain = mx.both(e, plain, e.compare("EQ", e.op("imag", alpha), 0))
    real, norm = e.real(alpha), e.op("sqrt", squares)
    turned = e.select(mx.is_negative(e, real), norm, e.op("negate", norm))
    beta = mx.as_type_of(e, e.select(plain, real, turned), x)
    tau = e.select(plain, 0, e.divide(e.subtract(beta, alpha), e.select(plain, 1, beta)))
    divisor = e.select(plain, 1, e.subtract(alpha, beta))
    v = e.select(e.compare("EQ", number, at), 1, e.divide(tail, mx.spread(e, divisor, x, 0)))
    return Reflector(mx.scaled(e, beta, scale, "multiply"), tau, v)


def _all_zero(e: Emitter, x: Value) -> Value:
    """Which vectors are zero, pred ``[batch]``."""
    return e.compare("EQ", e.reduce(mx.magnitude(e, x), (1,), "maximum", 0), 0)


def reflected(e: Emitter, a: Value, v: Value, tau: Value) -> Value:
    """(1 - tau v v*) A."""
    along = mx.row_times(e, e.conjugate(v), a)
    scaled = e.multiply(v, mx.spread(e, tau, v, 0))
    return e.subtract(a, mx.outer(e, scaled, along))


def reflected_right(e: Emitter, a: Value, v: Value, tau: Value) -> Value:
    """A (1 - tau v v*)."""
    along = mx.times_column(e, a, v)
    scaled = e.multiply(e.conjugate(v), mx.spread(e, tau, v, 0))
    return e.subtract(a, mx.outer(e, along, scaled))


def qr_factor(e: Emitter, a: Value) -> tuple[Value, Value]:
    """A = Q R (geqrf), none of the dimensions zero.

    Args:
        a: ``[batch, m, n]``.

    Returns:
        R from the diagonal on and the reflectors' vectors below it, packed; their scales tau.
    """
    _, m, n = a.shape.dims
    blocks = blocking(min(m, n), 1)
    a = _padded(e, a, blocks.rows)
    batch, width = a.shape.dims[0], blocks.small
    taus = e.full(0, a.shape.element_type, (batch, blocks.rows))

    def step(e: Emitter, number: Value, state: list[Value]) -> Values:
        a, taus = state
        start = e.multiply(number, width)
        panel = e.dynamic_slice(a, (0, 0, start), (batch, a.shape.dims[1], width))
        panel, scales = _factor_panel(e, panel, start)
        taus = e.dynamic_update_slice(taus, scales, (0, start))
        if a.shape.dims[2] == width:
            return panel, taus
        rest = _apply_panel(e, panel, scales, start, a, adjoint=True)
        right = e.compare("GE", mx.columns(e, a), e.add(start, width))
        return e.dynamic_update_slice(e.select(right, rest, a), panel, (0, 0, start)), taus

    packed, taus = e.repeat(blocks.per_large, (a, taus), step)
    packed = e.slice_in(e.slice_in(packed, 1, 0, m), 2, 0, n)
    return packed, e.slice_in(taus, 1, 0, min(m, n))


def _padded(e: Emitter, a: Value, size: int) -> Value:
    """The matrices grown by zeros to at least ``size`` rows and columns."""
    _, m, n = a.shape.dims
    return e.pad(a, ((0, 0, 0), (0, max(size - m, 0), 0), (0, max(size - n, 0), 0)))


def _factor_panel(e: Emitter, panel: Value, start: Value) -> tuple[Value, Value]:
    """The panel, packed, and its scales; its diagonal begins at row ``start``."""
    batch, _, width = panel.shape.dims
    taus = e.full(0, panel.shape.element_type, (batch, width))

    def step(e: Emitter, number: Value, state: list[Value]) -> Values:
        panel, taus, start = state
        at = e.add(start, number)
        panel, tau = column_reduced(e, panel, at, number)
        return panel, mx.with_element(e, taus, tau, number), start

    panel, taus, _ = e.repeat(width, (panel, taus, start), step)
    return panel, taus


def column_reduced(e: Emitter, a: Value, at: Value, number: Value) -> tuple[Value, Value]:
    """The matrices after the step that reduces column ``number`` below row ``at``, and tau."""
    x = mx.column(e, a, number)
    found = reflector(e, x, at)
    rest = reflected(e, a, found.v, e.conjugate(found.tau))
    row = mx.rows(e, x)
    packed = e.select(e.compare("EQ", row, at), mx.spread(e, found.beta, x, 0), found.v)
    column = mx.columns(e, a)
    here = e.select(e.compare("EQ", column, number), mx.down(e, packed, a), a)
    new = e.select(e.compare("GT", column, number), rest, here)
    return e.select(e.compare("GE", mx.rows(e, a), at), new, a), found.tau


def householder_product(e: Emitter, a: Value, taus: Value) -> Value:
    """The first columns of Q from its packed reflectors (orgqr, ungqr), as many as ``a`` has."""
    return apply_q(e, a, taus, mx.eye(e, a.shape.element_type, a.shape.dims))


def apply_q(e: Emitter, a: Value, taus: Value, c: Value, adjoint: bool = False) -> Value:
    """Q C, or Q* C.

    Args:
        a: packed reflectors, ``[batch, m, n]``.
        taus: their scales, ``[batch, k]``, not more than ``a`` has columns or rows.
        c: ``[batch, m, columns]``.
        adjoint: Q* instead of Q.
    """
    batch, m = c.shape.dims[:2]
    count = taus.shape.dims[1]
    if not count or not c.shape.size:
        return c
    blocks = blocking(count, 1)
    a = _padded(e, e.slice_in(a, 2, 0, count), blocks.rows)
    taus = e.pad(taus, ((0, 0, 0), (0, blocks.rows - count, 0)))
    c = e.pad(c, ((0, 0, 0), (0, a.shape.dims[1] - m, 0), (0, 0, 0)))
    width, last = blocks.small, (blocks.per_large - 1) * blocks.small

    def step(e: Emitter, number: Value, state: list[Value]) -> Values:
        c, a, taus = state
        passed = e.multiply(number, width)
        start = passed if adjoint else e.op("subtract", e.index(last), passed)
        panel = e.dynamic_slice(a, (0, 0, start), (batch, a.shape.dims[1], width))
        scales = e.dynamic_slice(taus, (0, start), (batch, width))
        return _apply_panel(e, panel, scales, start, c, adjoint=adjoint), a, taus

    return e.slice_in(e.repeat(blocks.per_large, (c, a, taus), step)[0], 1, 0, m)


def _apply_panel(
    e: Emitter, panel: Value, taus: Value, start: Value, c: Value, *, adjoint: bool
) -> Value:
    """(I - V T V*) C, or its adjoint with T*, for the reflectors of one panel."""
    row, column = mx.rows(e, panel), e.add(mx.columns(e, panel), start)
    v = e.select(e.compare("GT", row, column), panel, 0)
    v = e.select(e.compare("EQ", row, column), 1, v)
    idle = e.compare("EQ", taus, 0)
    v = e.select(mx.across(e, idle, v), 0, v)
    scale = e.divide(e.full_like(taus, 1), e.select(idle, 1, taus))
    gram = e.matmul(mx.adjoint(e, v), v)
    on_diagonal = e.compare("EQ", mx.rows(e, gram), mx.columns(e, gram))
    inverse = e.select(on_diagonal, mx.down(e, scale, gram), mx.upper_part(e, gram, 1))
    along = e.matmul(mx.adjoint(e, v), c)
    if adjoint:
        found = substitute(e, mx.adjoint(e, inverse), along)
    else:
        turned = substitute(e, e.reverse(inverse, 1, 2), e.reverse(along, 1))
        found = e.reverse(turned, 1)
    return e.subtract(c, e.matmul(v, found))
