"""Eigenvalues and eigenvectors of general matrices (geev), from their Schur form."""

from __future__ import annotations

from typing import NamedTuple

from xladev.passes.expansions.emit import Emitter, Values
from xladev.passes.expansions.linalg import matrices as mx
from xladev.passes.expansions.linalg.matrices import Value
from xladev.passes.expansions.linalg.schur import complex_schur

_LARGE = 2.0**40
"""Vectors that grow beyond this are scaled down by it, so that none overflows."""


class GeneralEigen(NamedTuple):
    """A v = w v and u* A = w u*.

    Attributes:
        values: complex, ``[batch, n]``.
        left, right: columns of length 1 whose largest element is real; None if not wanted.
        info: 0; 1 for infinities and NaN in A; or the number of rows without an eigenvalue.
    """

    values: Value
    left: Value | None
    right: Value | None
    info: Value


def general_eigen(e: Emitter, a: Value, *, left: bool, right: bool) -> GeneralEigen:
    """Of real or complex matrices ``[batch, n, n]``, n not zero."""
    good, scale = mx.all_finite(e, a), mx.scale_of(e, a)
    usable = mx.zero_unless(e, good, mx.scaled(e, a, scale))
    element_type = a.shape.element_type
    wide = mx.COMPLEX.get(element_type, element_type)
    found = complex_schur(e, e.convert(usable, wide))
    values = mx.diagonal(e, found.t)
    if not element_type.is_complex:
        values = _as_of_real_matrices(e, values)
    values = mx.scaled(e, values, scale, "multiply")
    q = mx.adjoint(e, found.qh)
    turned = e.reverse(mx.adjoint(e, found.t), 1, 2)
    rights = _vectors(e, q, _triangular_vectors(e, found.t)) if right else None
    lefts = None
    if left:
        lefts = _vectors(e, q, e.reverse(_triangular_vectors(e, turned), 1, 2))
    info = e.select(good, found.info, 1)
    lefts = None if lefts is None else mx.nan_unless(e, good, lefts)
    rights = None if rights is None else mx.nan_unless(e, good, rights)
    return GeneralEigen(mx.nan_unless(e, good, values), lefts, rights, info)


def _as_of_real_matrices(e: Emitter, values: Value) -> Value:
    """The eigenvalues made real, or conjugates of each other, where rounding kept them from it.

    Each belongs with the one nearest to its conjugate, if that is so the other way round too: with
    itself, then it is real, or with another, then both become the mean.
    """
    batch, n = values.shape.dims
    wide = e.full(0, values.shape.element_type, (batch, n, n))
    apart = e.subtract(mx.down(e, values, wide), mx.across(e, e.conjugate(values), wide))
    distances = e.reshape(mx.magnitude(e, apart), (batch * n, n))
    nearest = mx.first_largest(e, e.op("negate", distances))
    partner = e.reshape(nearest, (batch, n))
    back = mx.elements_at(e, partner, partner)
    mutual = e.compare("EQ", back, mx.rows(e, back))
    other = e.conjugate(mx.elements_at(e, values, partner))
    return e.select(mutual, e.multiply(e.add(values, other), 0.5), values)


def _triangular_vectors(e: Emitter, t: Value) -> Value:
    """Eigenvectors of upper triangular matrices as columns, row after row from the last.

    A difference of eigenvalues that is nothing but rounding counts as a rounding error.
    """
    n = t.shape.dims[1]
    values = mx.diagonal(e, t)
    real = values.shape.element_type.component
    size = e.reduce(mx.magnitude(e, t), (1, 2), "maximum", 0)
    least = e.elementwise("maximum", e.multiply(size, mx.EPSILON[real]), mx.TINY[real])
    above = mx.upper_part(e, t, 1)

    def step(e: Emitter, number: Value, state: list[Value]) -> Values:
        x, above, values, least = state
        r = e.subtract(e.index(n - 1), number)
        known = mx.row_times(e, mx.row(e, above, r), x)
        gap = e.subtract(values, mx.spread(e, mx.element(e, values, r), values, 0))
        floor = mx.spread(e, least, values, 0)
        small = e.compare("LT", mx.magnitude(e, gap), floor)
        gap = e.select(small, mx.as_type_of(e, floor, gap), gap)
        column = mx.rows(e, gap)
        new = e.select(e.compare("GT", column, r), e.divide(known, gap), 0)
        new = e.select(e.compare("EQ", column, r), 1, new)
        x = mx.with_row(e, x, new, r)
        big = e.compare("GT", mx.magnitude(e, new), _LARGE)
        factor = e.select(big, e.full_like(new, 1 / _LARGE), 1)
        return e.multiply(x, mx.across(e, factor, x)), above, values, least

    return e.repeat(n, (e.full_like(t, 0), above, values, least), step)[0]


def _vectors(e: Emitter, q: Value, x: Value) -> Value:
    """Columns of Q X, of length 1, turned so that each one's largest element is real."""
    rows = e.swap_last(e.matmul(q, _unit_rows(e, x, swap=True)))
    rows = _unit_rows(e, rows, swap=False)
    batch, n, _ = rows.shape.dims
    flat = e.reshape(rows, (batch * n, n))
    largest = mx.picked(e, flat, mx.first_largest(e, mx.magnitude(e, flat)))
    size = mx.magnitude(e, largest)
    safe = e.select(e.compare("EQ", size, 0), 1, size)
    phase = e.divide(e.conjugate(largest), mx.as_type_of(e, safe, largest))
    turned = e.multiply(flat, mx.spread(e, phase, flat, 0))
    return e.swap_last(e.reshape(turned, (batch, n, n)))


def _unit_rows(e: Emitter, x: Value, *, swap: bool) -> Value:
    """Rows of length 1; columns if ``swap``."""
    x = e.swap_last(x) if swap else x
    lengths = mx.lengths(e, x)
    safe = e.select(e.compare("EQ", lengths, 0), 1, lengths)
    unit = e.divide(x, mx.as_type_of(e, mx.down(e, safe, x), x))
    return e.swap_last(unit) if swap else unit
