"""Unitary reductions of square matrices: to Hessenberg form (gehrd), to tridiagonal form (sytrd).

Packed as LAPACK packs: the reflectors' vectors lie where the result has zeros.
"""

from __future__ import annotations

from typing import NamedTuple

from xladev.passes.expansions.emit import Emitter, Operand, Values
from xladev.passes.expansions.linalg import matrices as mx
from xladev.passes.expansions.linalg.matrices import Value
from xladev.passes.expansions.linalg.qr import Reflector, reflected, reflected_right, reflector


def hessenberg(e: Emitter, a: Value, low: int, high: int) -> tuple[Value, Value]:
    """Q* A Q = H with zeros below the first subdiagonal.

    Args:
        a: ``[batch, n, n]``.
        low, high: first and last row (from 1) of the block that is not triangular already.

    Returns:
        H with the reflectors' vectors below its subdiagonal; their scales, ``[batch, n - 1]``.
    """
    batch, n, _ = a.shape.dims
    taus = e.full(0, a.shape.element_type, (batch, max(n - 1, 0)))

    def step(e: Emitter, number: Value, state: list[Value]) -> Values:
        a, taus = state
        at = e.add(number, low - 1)
        found = _reflector_below(e, a, at, high)
        right = reflected_right(e, a, found.v, found.tau)
        above = e.compare("LT", mx.rows(e, a), high)
        a = e.select(mx.both(e, above, e.compare("GT", mx.columns(e, a), at)), right, a)
        a = _reduced_left(e, a, found, at)
        return a, mx.with_element(e, taus, found.tau, at)

    a, taus = e.repeat(max(high - low, 0), (a, taus), step)
    return a, taus


def _reflector_below(e: Emitter, a: Value, at: Value, limit: int) -> Reflector:
    """The reflector that leaves of column ``at``, below its diagonal, one element."""
    x = mx.column(e, a, at)
    inside = e.compare("LT", mx.rows(e, x), limit)
    return reflector(e, e.select(inside, x, 0), e.add(at, 1))


def _reduced_left(e: Emitter, a: Value, found: Reflector, at: Value) -> Value:
    """H* A right of column ``at``, whose reduced form and reflector replace it."""
    left = reflected(e, a, found.v, e.conjugate(found.tau))
    row, column = mx.rows(e, a), mx.columns(e, a)
    first = e.compare("EQ", row, e.add(at, 1))
    packed = e.select(first, mx.spread(e, found.beta, a, 0), mx.down(e, found.v, a))
    here = mx.both(e, e.compare("EQ", column, at), e.compare("GT", row, at))
    return e.select(here, packed, e.select(e.compare("GT", column, at), left, a))


class Tridiagonal(NamedTuple):
    """Q* A Q = T for Hermitian A.

    Attributes:
        packed: T and the reflectors' vectors in one triangle, the other as it was.
        diagonal, off_diagonal: of T, real, ``[batch, n]`` and ``[batch, n - 1]``.
        taus: ``[batch, n - 1]``.
    """

    packed: Value
    diagonal: Value
    off_diagonal: Value
    taus: Value


def tridiagonal(e: Emitter, a: Value, *, lower: bool) -> Tridiagonal:
    """The form of matrices ``[batch, n, n]``, n not zero, of which one triangle is read.

    The upper triangle is reduced from its last column on: as the lower one of the matrix with rows
    and columns in reverse order.
    """
    if lower:
        return _tridiagonal_lower(e, a)
    found = _tridiagonal_lower(e, e.reverse(a, 1, 2))
    others = (e.reverse(x, 1) for x in (found.diagonal, found.off_diagonal, found.taus))
    return Tridiagonal(e.reverse(found.packed, 1, 2), *others)


def _tridiagonal_lower(e: Emitter, a: Value) -> Tridiagonal:
    batch, n, _ = a.shape.dims
    taus = e.full(0, a.shape.element_type, (batch, n - 1))

    def step(e: Emitter, number: Value, state: list[Value]) -> Values:
        whole, packed, taus = state
        found = _reflector_below(e, whole, number, n)
        x = mx.column(e, packed, number)
        row = mx.rows(e, x)
        after = e.select(e.compare("GT", row, e.add(number, 1)), found.v, x)
        beta = mx.spread(e, found.beta, x, 0)
        after = e.select(e.compare("EQ", row, e.add(number, 1)), beta, after)
        whole = _two_sided(e, whole, found, number)
        packed = mx.with_column(e, packed, after, number)
        packed = _with_diagonal(e, packed, whole, e.add(number, 1))
        return whole, packed, mx.with_element(e, taus, found.tau, number)

    whole = mx.hermitian(e, a, lower=True)
    start = (whole, _with_diagonal(e, a, whole, 0), taus)
    _, packed, taus = e.repeat(n - 1, start, step)
    below = e.slice_in(e.slice_in(packed, 1, 1, n), 2, 0, n - 1)
    diagonal, off = (e.real(mx.diagonal(e, x)) for x in (packed, below))
    return Tridiagonal(packed, diagonal, off, taus)


def _two_sided(e: Emitter, a: Value, found: Reflector, number: Value) -> Value:
    """H* A H for the rows and columns behind ``number``."""
    left = reflected(e, a, found.v, e.conjugate(found.tau))
    turned = reflected_right(e, left, found.v, found.tau)
    inside = mx.both(
        e, e.compare("GT", mx.rows(e, a), number), e.compare("GT", mx.columns(e, a), number)
    )
    return e.select(inside, turned, a)


def _with_diagonal(e: Emitter, packed: Value, whole: Value, number: Operand) -> Value:
    """``packed`` with one element of its diagonal as in ``whole``, real."""
    here = mx.both(
        e,
        e.compare("EQ", mx.rows(e, packed), number),
        e.compare("EQ", mx.columns(e, packed), number),
    )
    return e.select(here, mx.as_type_of(e, e.real(whole), packed), packed)
