"""Eigenvalues and eigenvectors of general matrices (geev), from their Schur form."""

from __future__ import annotations

from typing import NamedTuple

from xladev.hlo import dtype as dt
from xladev.passes.expansions.emit import Emitter, Values
from xladev.passes.expansions.linalg import matrices as mx
from xladev.passes.expansions.linalg.complex_form import complex_form
from xladev.passes.expansions.linalg.matrices import Value
from xladev.passes.expansions.linalg.real_schur import real_schur
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
    if a.shape.element_type.is_complex:
        found = complex_schur(e, usable)
    else:
        found = complex_form(e, real_schur(e, usable))
    values = mx.diagonal(e, found.t)
    values = mx.scaled(e, values, scale, "multiply")
    q = mx.adjoint(e, found.qh)
    sides = _sides(e, q, found.t, left=left, right=right)
    info = e.select(good, found.info, 1)
    lefts, rights = (None if x is None else mx.nan_unless(e, good, x) for x in sides)
    return GeneralEigen(mx.nan_unless(e, good, values), lefts, rights, info)


def _sides(
    e: Emitter, q: Value, t: Value, *, left: bool, right: bool
) -> tuple[Value | None, Value | None]:
    """Left and right vectors, those that are wanted, found together as one stack.

    Left ones are right ones of the adjoint, whose rows and columns in reverse order make it upper
    triangular.
    """
    if not (left or right):
        return None, None
    turned = [e.reverse(mx.adjoint(e, t), 1, 2)] if left else []
    x = _triangular_vectors(e, e.concatenate([*turned, *([t] if right else [])], 0))
    batch = t.shape.dims[0]
    parts = [e.slice_in(x, 0, i, i + batch) for i in range(0, x.shape.dims[0], batch)]
    if left:
        parts[0] = e.reverse(parts[0], 1, 2)
    found = _vectors(e, e.concatenate([q] * len(parts), 0), e.concatenate(parts, 0))
    whole = [e.slice_in(found, 0, i, i + batch) for i in range(0, x.shape.dims[0], batch)]
    return (whole[0] if left else None), (whole[-1] if right else None)


def _triangular_vectors(e: Emitter, t: Value) -> Value:
    """Eigenvectors of upper triangular matrices as columns, row after row from the last.

    A difference of eigenvalues that is nothing but rounding counts as a rounding error.
    """
    batch, n, _ = t.shape.dims
    values = mx.diagonal(e, t)
    real = values.shape.element_type.component
    size = e.reduce(mx.magnitude(e, t), (1, 2), "maximum", 0)
    least = e.elementwise("maximum", e.multiply(size, mx.EPSILON[real]), mx.TINY[real])
    above = _parts(e, mx.upper_part(e, t, 1))

    def step(e: Emitter, number: Value, state: list[Value]) -> Values:
        x, above, values, least = state
        r = e.subtract(e.index(n - 1), number)
        known = _row_times(e, e.dynamic_slice(above, (0, e.multiply(r, 2), 0), (batch, 2, n)), x)
        gap = e.subtract(values, mx.spread(e, mx.element(e, values, r), values, 0))
        floor = mx.spread(e, least, values, 0)
        small = e.compare("LT", mx.magnitude(e, gap), floor)
        gap = e.select(small, mx.as_type_of(e, floor, gap), gap)
        column = mx.rows(e, gap)
        new = e.select(e.compare("GT", column, r), e.divide(known, gap), 0)
        new = e.select(e.compare("EQ", column, r), 1, new)
        x = mx.with_row(e, x, e.concatenate((e.op("real", new), e.op("imag", new)), 1), r)
        big = e.compare("GT", mx.magnitude(e, new), _LARGE)
        factor = e.select(big, e.full(1 / _LARGE, real, new.shape.dims), 1)
        # Seldom: a loop of one step or none, since all of the vectors would be gone over.
        times = e.convert(e.reduce(big, (0, 1), "or", False), dt.S32)
        x, _ = e.repeat(times, (x, factor), lambda e, _, s: (_scaled_down(e, *s), s[1]))
        return x, above, values, least

    x = e.repeat(n, (e.full(0, real, (batch, n, 2 * n)), above, values, least), step)[0]
    return e.op("complex", e.slice_in(x, 2, 0, n), e.slice_in(x, 2, n, 2 * n))


def _parts(e: Emitter, x: Value) -> Value:
    """Real and imaginary parts of each row, one below the other, ``[batch, 2 n, n]``."""
    batch, n, _ = x.shape.dims
    parts = e.op("real", x), e.op("imag", x)
    rows = [e.reshape(part, (batch, n, 1, n)) for part in parts]
    return e.reshape(e.concatenate(rows, 2), (batch, 2 * n, n))


def _row_times(e: Emitter, row: Value, x: Value) -> Value:
    """A row vector times matrices, as one product of their parts, which is four times as fast.

    Args:
        e: where instructions go.
        row: real and imaginary parts, ``[batch, 2, n]``.
        x: real and imaginary parts side by side, ``[batch, n, 2 n]``.
    """
    batch, _, n = row.shape.dims
    whole = e.reshape(e.matmul(row, x), (batch, 4 * n))
    real, cross, other, square = (e.slice_in(whole, 1, i * n, i * n + n) for i in range(4))
    return e.op("complex", e.subtract(real, square), e.add(cross, other))


def _scaled_down(e: Emitter, x: Value, factor: Value) -> Value:
    """Columns, real parts and imaginary ones, times their factors."""
    return e.multiply(x, mx.across(e, e.concatenate((factor, factor), 1), x))


def _vectors(e: Emitter, q: Value, x: Value) -> Value:
    """Columns of Q X, of length 1, turned so that each one's largest element is real."""
    rows = e.swap_last(mx.complex_product(e, q, _unit_rows(e, x, swap=True)))
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
