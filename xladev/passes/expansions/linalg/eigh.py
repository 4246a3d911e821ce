"""Eigenvalues and eigenvectors of Hermitian matrices by parallel cyclic Jacobi rotations.

The matrix is kept as four quadrants, so that the pairs of one round are the diagonals of the
quadrants and no element is ever gathered (Brent and Luk 1985, as in XLA's eigh_expander).
"""

from __future__ import annotations

from typing import NamedTuple

from xladev.hlo import dtype as dt
from xladev.passes.expansions.emit import Emitter, Values
from xladev.passes.expansions.linalg import matrices as mx
from xladev.passes.expansions.linalg.matrices import Value
from xladev.passes.expansions.linalg.order import sorted_with_order
from xladev.passes.expansions.linalg.rotations import (
    MAX_SWEEPS,
    Rotations,
    moved_on,
    rotated,
    rotations,
)


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


class _Quadrants(NamedTuple):
    """A matrix in four parts ``[batch, k, k]``, and its eigenvectors so far as rows."""

    top_left: Value
    top_right: Value
    bottom_left: Value
    bottom_right: Value
    top_vectors: Value
    bottom_vectors: Value


def hermitian_eigen(e: Emitter, a: Value, *, lower: bool) -> Eigen:
    """Of matrices ``[batch, n, n]``, n not zero, of which one triangle is read."""
    half = mx.lower_part(e, a) if lower else mx.upper_part(e, a)
    good, scale = mx.all_finite(e, half), mx.scale_of(e, half)
    whole = mx.hermitian(e, mx.scaled(e, half, scale), lower=lower)
    values, vectors = _decomposed(e, whole)
    values, order = sorted_with_order(e, values)
    values = mx.scaled(e, values, scale, "multiply")
    columns = e.swap_last(mx.rows_at(e, vectors, order))
    return Eigen(mx.nan_unless(e, good, values), mx.nan_unless(e, good, columns), good)


def _decomposed(e: Emitter, a: Value) -> tuple[Value, Value]:
    """Eigenvalues in any order, and their eigenvectors as rows."""
    batch, n, _ = a.shape.dims
    k = (n + 1) // 2
    state = _quadrants(e, e.pad(a, ((0, 0, 0), (0, 2 * k - n, 0), (0, 2 * k - n, 0))), k)
    size = e.reduce(mx.square_magnitude(e, a), (1, 2))
    epsilon = mx.EPSILON[size.shape.element_type]
    limit = e.multiply(size, epsilon * epsilon)

    def unfinished(e: Emitter, values: list[Value]) -> Value:
        number, limit, *parts = values
        far = e.compare("GT", _off_diagonal(e, _Quadrants(*parts)), limit)
        some = e.reduce(far, (0,), "or", False)
        return mx.both(e, some, e.compare("LT", number, MAX_SWEEPS))

    def sweep(e: Emitter, values: list[Value]) -> Values:
        number, limit, *parts = values
        after = e.repeat(max(2 * k - 1, 1), parts, lambda e, _, parts: _round(e, parts))
        return e.add(number, 1), limit, *after

    start = (e.scalar(0, dt.S32), limit, *state)
    final = _Quadrants(*e.while_loop(start, unfinished, sweep)[2:])
    diagonals = [mx.diagonal(e, e.real(x)) for x in (final.top_left, final.bottom_right)]
    vectors = e.concatenate((final.top_vectors, final.bottom_vectors), 1)
    vectors = e.slice_in(e.slice_in(vectors, 1, 0, n), 2, 0, n)
    return e.slice_in(e.concatenate(diagonals, 1), 1, 0, n), _of_length_one(e, vectors)


def _of_length_one(e: Emitter, vectors: Value) -> Value:
    """Rows whose length some hundred rotations, each rounded, took away from one."""
    length = e.op("sqrt", e.reduce(mx.square_magnitude(e, vectors), (2,)))
    return e.divide(vectors, mx.as_type_of(e, mx.down(e, length, vectors), vectors))


def _quadrants(e: Emitter, a: Value, k: int) -> _Quadrants:
    """The four parts of a matrix of 2 k rows, and unit vectors."""
    upper, low = e.slice_in(a, 1, 0, k), e.slice_in(a, 1, k, 2 * k)
    unit = mx.eye(e, a.shape.element_type, a.shape.dims)
    return _Quadrants(
        *(e.slice_in(part, 2, at, at + k) for part in (upper, low) for at in (0, k)),
        *(e.slice_in(unit, 1, at, at + k) for at in (0, k)),
    )


def _off_diagonal(e: Emitter, a: _Quadrants) -> Value:
    """Sum of the squares of what is not on the diagonal; NaN never compares as too much."""
    total = []
    for part, has_diagonal in zip(a[:4], (True, False, False, True), strict=True):
        squares = mx.square_magnitude(e, part)
        if has_diagonal:
            on = e.compare("EQ", mx.rows(e, squares), mx.columns(e, squares))
            squares = e.select(on, 0, squares)
        total.append(e.reduce(squares, (1, 2)))
    return e.add(e.add(total[0], total[1]), e.add(total[2], total[3]))


def _round(e: Emitter, parts: Values) -> _Quadrants:
    """Makes the diagonals of the off-diagonal quadrants zero, then changes the pairs."""
    a = _Quadrants(*parts)
    p, q = (mx.diagonal(e, e.real(x)) for x in (a.top_left, a.bottom_right))
    turn = rotations(e, p, q, mx.diagonal(e, a.top_right))
    rotated_parts = _both_sides(e, turn, a)
    exact = _with_diagonals(e, rotated_parts, e.subtract(p, turn.shift), e.add(q, turn.shift))
    vectors = rotated(e, turn, a.top_vectors, a.bottom_vectors, 1, conjugate=False)
    return _next_pairs(e, exact, vectors)


def _both_sides(e: Emitter, turn: Rotations, a: _Quadrants) -> tuple[Value, ...]:
    """J* A J."""
    left_top, left_bottom = rotated(e, turn, a.top_left, a.bottom_left, 1, conjugate=True)
    right_top, right_bottom = rotated(e, turn, a.top_right, a.bottom_right, 1, conjugate=True)
    top = rotated(e, turn, left_top, right_top, 2, conjugate=False)
    bottom = rotated(e, turn, left_bottom, right_bottom, 2, conjugate=False)
    return *top, *bottom


def _with_diagonals(e: Emitter, parts: tuple[Value, ...], p: Value, q: Value) -> tuple[Value, ...]:
    """The quadrants with the diagonals that exact arithmetic would give."""
    on = e.compare("EQ", mx.rows(e, parts[0]), mx.columns(e, parts[0]))
    zero = e.full_like(p, 0)
    wanted = [mx.as_type_of(e, x, parts[0]) for x in (p, zero, zero, q)]
    return tuple(
        e.select(on, mx.down(e, new, part), part) for new, part in zip(wanted, parts, strict=True)
    )


def _next_pairs(e: Emitter, parts: tuple[Value, ...], vectors: tuple[Value, Value]) -> _Quadrants:
    top_left, top_right = moved_on(e, parts[0], parts[1], 2)
    bottom_left, bottom_right = moved_on(e, parts[2], parts[3], 2)
    top_left, bottom_left = moved_on(e, top_left, bottom_left, 1)
    top_right, bottom_right = moved_on(e, top_right, bottom_right, 1)
    moved = moved_on(e, vectors[0], vectors[1], 1)
    return _Quadrants(top_left, top_right, bottom_left, bottom_right, *moved)
