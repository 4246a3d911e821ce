"""Singular values and vectors: QR factors, then one-sided Jacobi rotations of the small factor.

With A = Q R, rotations J from the right make the columns of R* J orthogonal (Hestenes 1958); R* is
rotated rather than R because it converges in fewer sweeps (Drmac and Veselic 2008). The columns'
lengths are the singular values. A second QR turns the columns into orthonormal ones, and completes
them where the matrix has not full rank.
"""

from __future__ import annotations

from typing import NamedTuple

from xladev.hlo import dtype as dt
from xladev.passes.expansions.emit import Emitter, Values
from xladev.passes.expansions.linalg import matrices as mx
from xladev.passes.expansions.linalg.matrices import Value
from xladev.passes.expansions.linalg.order import sorted_with_order
from xladev.passes.expansions.linalg.qr import apply_q, householder_product, qr_factor
from xladev.passes.expansions.linalg.rotations import MAX_SWEEPS, moved_on, rotated, rotations


class Singular(NamedTuple):
    """A = U diag(s) V*.

    Attributes:
        s: descending, real, ``[batch, min(m, n)]``.
        u: ``[batch, m, m]``, or its first min(m, n) columns; None if not wanted.
        vt: V*, ``[batch, n, n]``, or its first min(m, n) rows; None if not wanted.
        good: False for matrices with infinities or NaN, whose results are NaN; pred ``[batch]``.
    """

    s: Value
    u: Value | None
    vt: Value | None
    good: Value


def singular_values(e: Emitter, a: Value, *, vectors: bool, full: bool) -> Singular:
    """Of matrices ``[batch, m, n]``, none of the dimensions zero.

    Args:
        vectors: whether U and V* are wanted.
        full: all of their columns and rows, rather than the first min(m, n).
    """
    good, scale = mx.all_finite(e, a), mx.scale_of(e, a)
    a = mx.scaled(e, a, scale)
    _, m, n = a.shape.dims
    tall = a if m >= n else mx.adjoint(e, a)
    packed, taus = qr_factor(e, tall)
    k = min(m, n)
    r = mx.upper_part(e, e.slice_in(packed, 1, 0, k))
    found = _rotated_apart(e, e.conjugate(r), vectors)
    s, order = sorted_with_order(e, found.lengths, descending=True)
    s = mx.nan_unless(e, good, mx.scaled(e, s, scale, "multiply"))
    if found.turns is None:
        return Singular(s, None, None, good)
    turns = e.swap_last(mx.rows_at(e, found.turns, order))
    left = _left_vectors(e, packed, taus, turns, full=full)
    right = mx.adjoint(e, _orthonormal(e, e.swap_last(mx.rows_at(e, found.columns, order))))
    left, right = mx.nan_unless(e, good, left), mx.nan_unless(e, good, right)
    if m >= n:
        return Singular(s, left, right, good)
    return Singular(s, mx.adjoint(e, right), mx.adjoint(e, left), good)


def _left_vectors(e: Emitter, packed: Value, taus: Value, turns: Value, *, full: bool) -> Value:
    """Q [J 0; 0 I], or only its first columns."""
    batch, m, k = packed.shape.dims
    if not full or m == k:
        return apply_q(e, packed, taus, e.pad(turns, ((0, 0, 0), (0, m - k, 0), (0, 0, 0))))
    grown = e.pad(turns, ((0, 0, 0), (0, m - k, 0), (0, m - k, 0)))
    unit = mx.eye(e, turns.shape.element_type, (batch, m, m))
    grown = e.select(e.compare("GE", mx.columns(e, grown), k), unit, grown)
    return apply_q(e, packed, taus, grown)


def _orthonormal(e: Emitter, columns: Value) -> Value:
    """Unit vectors along orthogonal columns, longest first; any that fit along those of zero."""
    packed, taus = qr_factor(e, columns)
    q = householder_product(e, packed, taus)
    r = e.real(mx.diagonal(e, packed))
    signs = e.select(mx.is_negative(e, r), e.full_like(r, -1), 1)
    return e.multiply(q, mx.as_type_of(e, mx.across(e, signs, q), q))


# Rotations


class _Apart(NamedTuple):
    """X J = W with orthogonal columns.

    Attributes:
        lengths: of the columns of W, ``[batch, n]``.
        columns: of W, as rows.
        turns: columns of J, as rows; None if not wanted.
    """

    lengths: Value
    columns: Value
    turns: Value | None


def _rotated_apart(e: Emitter, x: Value, vectors: bool) -> _Apart:
    """Rotates columns, given as rows of ``x``, until they are orthogonal."""
    batch, n, _ = x.shape.dims
    k = (n + 1) // 2
    grown = e.pad(x, ((0, 0, 0), (0, 2 * k - n, 0), (0, 0, 0)))
    unit = mx.eye(e, x.shape.element_type, (batch, 2 * k, n))
    kept = (grown, unit) if vectors else (grown,)
    parts = [e.slice_in(y, 1, at, at + k) for y in kept for at in (0, k)]
    real = x.shape.element_type.component
    tolerance = mx.EPSILON[real] * n**0.5

    def unfinished(e: Emitter, state: list[Value]) -> Value:
        far = e.compare("GT", state[1], tolerance)
        return mx.both(e, far, e.compare("LT", state[0], MAX_SWEEPS))

    def sweep(e: Emitter, state: list[Value]) -> Values:
        number, _, *parts = state
        start = (e.scalar(0, real), *parts)
        return e.add(number, 1), *e.repeat(
            2 * k - 1, start, lambda e, _, s: _round(e, s, tolerance)
        )

    start = (e.scalar(0, dt.S32), e.scalar(1, real), *parts)
    final = e.while_loop(start, unfinished, sweep)[2:]
    halves = [final[at : at + 2] for at in range(0, len(final), 2)]
    whole = [e.slice_in(e.concatenate(pair, 1), 1, 0, n) for pair in halves]
    return _Apart(mx.lengths(e, whole[0]), whole[0], whole[1] if vectors else None)


def _round(e: Emitter, state: list[Value], tolerance: float) -> Values:
    """Rotates pairs of rows until they are orthogonal, and remembers the largest cosine."""
    worst, top, bottom, *turns = state
    p = e.reduce(mx.square_magnitude(e, top), (2,))
    q = e.reduce(mx.square_magnitude(e, bottom), (2,))
    o = e.reduce(e.multiply(e.conjugate(top), bottom), (2,))
    cosine = _cosine(e, p, q, o)
    o = e.select(e.compare("GT", cosine, tolerance), o, 0)
    worst = e.op("maximum", worst, e.reduce(cosine, (0, 1), "maximum", 0))
    turn = rotations(e, p, q, o)
    pairs = [(top, bottom), *([(turns[0], turns[1])] if turns else [])]
    after = [worst]
    for one, other in pairs:
        one, other = rotated(e, turn, one, other, 1, conjugate=False)
        after.extend(moved_on(e, one, other, 1))
    return after


def _cosine(e: Emitter, p: Value, q: Value, o: Value) -> Value:
    """|o| / sqrt(p q), zero where one of them is zero or NaN."""
    lengths = e.multiply(e.op("sqrt", p), e.op("sqrt", q))
    usable = e.compare("GT", lengths, 0)
    return e.select(usable, e.divide(mx.magnitude(e, o), e.select(usable, lengths, 1)), 0)
