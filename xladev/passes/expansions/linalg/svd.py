"""Singular values and vectors: bidiagonal form, then implicit QR steps.

Matrices that are not square become so by a QR factorisation first. Small ones of a stack are solved
many at a time, in lanes.
"""

from __future__ import annotations

from typing import NamedTuple

from xladev.passes.expansions.emit import Emitter, Values
from xladev.passes.expansions.linalg import lanes as ln
from xladev.passes.expansions.linalg import matrices as mx
from xladev.passes.expansions.linalg.bidiagonal import bidiagonal
from xladev.passes.expansions.linalg.bidiagonal_qr import bidiagonal_singular
from xladev.passes.expansions.linalg.matrices import Value
from xladev.passes.expansions.linalg.order import sorted_with_order
from xladev.passes.expansions.linalg.qr import apply_q, qr_factor
from xladev.passes.expansions.linalg.row_reflectors import turned_back


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
    a = mx.zero_unless(e, good, mx.scaled(e, a, scale))
    _, m, n = a.shape.dims
    tall = a if m >= n else mx.adjoint(e, a)
    packed, taus = qr_factor(e, tall) if m != n else (tall, None)
    k = min(m, n)
    square = packed if taus is None else mx.upper_part(e, e.slice_in(packed, 1, 0, k))
    solve = _decomposed if vectors else _values
    s, found, *rows = ln.in_lanes(e, [square], k, solve)
    good = mx.both(e, good, found)
    if not vectors:
        s, _ = sorted_with_order(e, mx.magnitude(e, s), descending=True)
        return Singular(_finished(e, s, scale, good), None, None, good)
    signs = e.select(e.compare("LT", s, 0), e.full_like(s, -1), 1)
    s, order = sorted_with_order(e, mx.magnitude(e, s), descending=True)
    right, left = rows
    right = e.multiply(right, mx.as_type_of(e, mx.down(e, signs, right), right))
    left, right = (mx.straightened(e, mx.rows_at(e, x, order)) for x in (left, right))
    if taus is not None:
        left = _left_vectors(e, packed, taus, left, full=full)
    right = mx.adjoint(e, right)
    left, right = mx.nan_unless(e, good, left), mx.nan_unless(e, good, right)
    s = _finished(e, s, scale, good)
    if m >= n:
        return Singular(s, left, right, good)
    return Singular(s, mx.adjoint(e, right), mx.adjoint(e, left), good)


def _finished(e: Emitter, s: Value, scale: Value, good: Value) -> Value:
    return mx.nan_unless(e, good, mx.scaled(e, s, scale, "multiply"))


def _values(e: Emitter, operands: list[Value]) -> Values:
    """Singular values of square matrices, in any order and of any sign; whether they were found."""
    form = bidiagonal(e, operands[0])
    found = bidiagonal_singular(e, form.diagonal, form.above, vectors=False)
    return found.s, found.found


def _decomposed(e: Emitter, operands: list[Value]) -> Values:
    """The same, and right and left vectors as rows."""
    (a,) = operands
    form = bidiagonal(e, a)
    found = bidiagonal_singular(e, form.diagonal, form.above, vectors=True)
    assert found.vectors is not None
    right, left = (
        mx.as_type_of(e, e.reshape(e.slice_in(found.vectors, 1, i, i + 1), a.shape.dims), a)
        for i in (0, 1)
    )
    right = turned_back(e, form.right, form.right_taus, right, 1)
    return found.s, found.found, right, turned_back(e, form.left, form.left_taus, left, 0)


def _left_vectors(e: Emitter, packed: Value, taus: Value, turns: Value, *, full: bool) -> Value:
    """Q [J 0; 0 I], or only its first columns."""
    batch, m, k = packed.shape.dims
    if not full or m == k:
        return apply_q(e, packed, taus, e.pad(turns, ((0, 0, 0), (0, m - k, 0), (0, 0, 0))))
    grown = e.pad(turns, ((0, 0, 0), (0, m - k, 0), (0, m - k, 0)))
    unit = mx.eye(e, turns.shape.element_type, (batch, m, m))
    grown = e.select(e.compare("GE", mx.columns(e, grown), k), unit, grown)
    return apply_q(e, packed, taus, grown)
