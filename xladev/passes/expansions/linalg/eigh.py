"""Eigenvalues and eigenvectors of Hermitian matrices: tridiagonal form, then implicit QR steps.

Small matrices of a stack are solved many at a time, in lanes.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import NamedTuple

from xladev.hlo import dtype as dt
from xladev.passes.expansions.emit import Emitter, Values
from xladev.passes.expansions.linalg import lanes as ln
from xladev.passes.expansions.linalg import matrices as mx
from xladev.passes.expansions.linalg.matrices import Value
from xladev.passes.expansions.linalg.order import sorted_with_order
from xladev.passes.expansions.linalg.row_reflectors import turned_back
from xladev.passes.expansions.linalg.tridiagonal_qr import tridiagonal_eigen

_WHOLE = 128
"""Matrices of at most so many rows are reduced in one loop over all of them."""
_PARTS = 4
"""Loops that reduce a larger one."""


class Eigen(NamedTuple):
    """A v = w v.

    Attributes:
        values: ascending, real, ``[batch, n]``.
        vectors: as columns, ``[batch, n, n]``.
        good: False for matrices with infinities or NaN, whose results are NaN; pred ``[batch]``.
    """

    values: Value
    vectors: Value
    good: Value


def hermitian_eigen(e: Emitter, a: Value, *, lower: bool) -> Eigen:
    """Of matrices ``[batch, n, n]``, n not zero, of which one triangle is read."""
    half = mx.lower_part(e, a) if lower else mx.upper_part(e, a)
    good, scale = mx.all_finite(e, half), mx.scale_of(e, half)
    whole = mx.hermitian(e, mx.scaled(e, half, scale), lower=lower)
    whole = mx.zero_unless(e, good, whole)
    values, vectors, found = ln.in_lanes(e, [whole], a.shape.dims[1], _decomposed)
    good = mx.both(e, good, found)
    values, order = sorted_with_order(e, values)
    values = mx.scaled(e, values, scale, "multiply")
    columns = mx.straightened(e, mx.rows_at(e, vectors, order))
    return Eigen(mx.nan_unless(e, good, values), mx.nan_unless(e, good, columns), good)


def _decomposed(e: Emitter, operands: list[Value]) -> Values:
    """Eigenvalues in any order, their eigenvectors as rows, and whether they were found."""
    (a,) = operands
    form = _tridiagonal(e, a)
    values, vectors, found = tridiagonal_eigen(e, form.diagonal, form.beside)
    return values, turned_back(e, form.v, form.taus, mx.as_type_of(e, vectors, a), 1), found


class _Tridiagonal(NamedTuple):
    """Q* A Q = T.

    Attributes:
        diagonal, beside: of T, real ``[n, *lanes]`` and ``[n - 1, *lanes]``.
        v: vectors of the reflectors whose product is Q, as rows, ``[n, n, *lanes]``.
        taus: their scales, ``[n, *lanes]``.
    """

    diagonal: Value
    beside: Value
    v: Value
    taus: Value


def _tridiagonal(e: Emitter, a: Value) -> _Tridiagonal:
    """The form of Hermitian matrices ``[n, n, *lanes]``, all of whose elements are read.

    Of a large matrix each quarter of the steps has a loop of its own, over the rows and columns
    that are left.
    """
    n = a.shape.dims[0]
    taus = e.full(0, a.shape.element_type, a.shape.dims[1:])
    beside = e.full(0, a.shape.element_type.component, (n - 1, *a.shape.dims[2:]))
    parts = _PARTS if n > _WHOLE and a.shape.rank == 2 else 1
    borders = [(n - 1) * i // parts for i in range(parts + 1)]
    state: list[Value] = [e.full_like(a, 0), taus, beside]
    diagonals = []
    for begin, end in pairwise(borders):
        a, *state = e.repeat(end - begin, (a, *state), partial(_reduced, begin))
        diagonal = _diagonal(e, e.real(a))
        if end < n - 1:
            diagonal = e.slice_in(diagonal, 0, 0, end - begin)
            left = e.slice_in(a, 0, end - begin, n - begin)
            a = e.slice_in(left, 1, end - begin, n - begin)
        diagonals.append(diagonal)
    v, taus, beside = state
    whole = e.concatenate(diagonals, 0) if len(diagonals) > 1 else diagonals[0]
    return _Tridiagonal(whole, beside, v, taus)


def _reduced(begin: int, e: Emitter, number: Value, state: list[Value]) -> Values:
    """A step on the rows and columns from ``begin`` on, whose first ``number`` are done."""
    a, v, taus, beside = state
    found = ln.reflector(e, e.conjugate(ln.one(e, a, number)), e.add(number, 1))
    a = _two_sided(e, a, found)
    place = e.add(number, begin) if begin else number
    row = e.reshape(found.v, (1, *found.v.shape.dims))
    v = e.dynamic_update_slice(v, row, (place, begin, *[0] * (v.shape.rank - 2)))
    return a, v, ln.put(e, taus, found.tau, place), ln.put(e, beside, found.beta, place)


def _diagonal(e: Emitter, a: Value) -> Value:
    row, column = (e.iota(dt.S32, a.shape.dims, i) for i in (0, 1))
    return e.reduce(e.select(e.compare("EQ", row, column), a, 0), (1,))


def _two_sided(e: Emitter, a: Value, found: ln.Reflector) -> Value:
    """H* A H = A - v w* - w v*."""
    p = e.multiply(ln.times(e, a, found.v), ln.spread(e, found.tau, found.v))
    # Half of |tau|^2 v* A v, which is real; tau v* p is that without its half.
    across = e.real(ln.inner(e, ln.scaled(e, found.v, found.tau), p))
    w = e.subtract(p, ln.scaled(e, found.v, e.multiply(across, 0.5)))
    pair = e.add(ln.outer(e, found.v, e.conjugate(w)), ln.outer(e, w, e.conjugate(found.v)))
    return e.subtract(a, pair)
