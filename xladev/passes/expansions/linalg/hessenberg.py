"""Unitary reductions of square matrices: to Hessenberg form (gehrd), to tridiagonal form (sytrd).

Packed as LAPACK packs: the reflectors' vectors lie where the result has zeros.
"""

from __future__ import annotations

from typing import NamedTuple

from xladev.hlo import dtype as dt
from xladev.passes.expansions.emit import Emitter, Operand, Values
from xladev.passes.expansions.linalg import lanes as ln
from xladev.passes.expansions.linalg import matrices as mx
from xladev.passes.expansions.linalg.matrices import Value
from xladev.passes.expansions.linalg.qr import Reflector, reflected, reflected_right, reflector
from xladev.passes.expansions.linalg.row_reflectors import turned_back


class Hessenberg(NamedTuple):
    """Q* A Q = H, zero below the first subdiagonal.

    Attributes:
        h: from the subdiagonal on, without it and what is below, ``[n, n, *lanes]``.
        below: the subdiagonal of the columns that were reduced, real ``[n, *lanes]``.
        v: vectors of the reflectors whose product is Q, as rows, ``[n, n, *lanes]``.
        taus: their scales, ``[n, *lanes]``.
    """

    h: Value
    below: Value
    v: Value
    taus: Value


def hessenberg(e: Emitter, a: Value, low: int, high: int) -> tuple[Value, Value]:
    """H with the reflectors' vectors below its subdiagonal; their scales, ``[batch, n - 1]``.

    Args:
        e: where instructions go.
        a: ``[batch, n, n]``.
        low, high: first and last row (from 1) of the block that is not triangular already.
    """
    batch, n, _ = a.shape.dims
    if high <= low:
        return a, e.full(0, a.shape.element_type, (batch, max(n - 1, 0)))
    scale = mx.scale_of(e, a)

    def solve(e: Emitter, operands: list[Value]) -> Values:
        return _reduced(e, operands[0], low, high)

    h, below, v, taus = ln.in_lanes(e, [mx.scaled(e, a, scale)], n, solve)
    h, below = (mx.scaled(e, x, scale, "multiply") for x in (h, below))
    return _packed(e, Hessenberg(h, below, v, taus), low, high), e.slice_in(taus, 1, 0, n - 1)


def _packed(e: Emitter, form: Hessenberg, low: int, high: int) -> Value:
    """The subdiagonal and the reflectors' vectors in their places; stacks."""
    h = form.h
    row, column = mx.rows(e, h), mx.columns(e, h)
    under = e.add(column, 1)
    chosen = mx.both(
        e,
        e.compare("GE", column, low - 1),
        e.compare("GE", row, under),
        e.compare("LT", row, high),
    )
    below = mx.across(e, mx.as_type_of(e, form.below, h), h)
    new = e.select(e.compare("EQ", row, under), below, e.swap_last(form.v))
    return e.select(chosen, new, h)


def hessenberg_with_q(e: Emitter, a: Value) -> tuple[Value, Value]:
    """H and Q* of stacks ``[batch, n, n]``, n at least 2, with elements not far from one."""
    n = a.shape.dims[1]
    found = ln.in_lanes(e, [a], n, _with_q)
    return found[0], found[1]


def _with_q(e: Emitter, operands: list[Value]) -> Values:
    (a,) = operands
    n = a.shape.dims[0]
    form = _reduced(e, a, 1, n)
    row, column = (e.iota(dt.S32, a.shape.dims, i) for i in (0, 1))
    wide = mx.as_type_of(e, form.below, a)
    on = e.compare("EQ", row, e.add(column, 1))
    upper = e.select(e.compare("LE", row, column), form.h, 0)
    unit = e.convert(e.compare("EQ", row, column), a.shape.element_type)
    turned = turned_back(e, form.v, form.taus, unit, 1)
    return e.select(on, ln.spread(e, wide, a), upper), e.conjugate(turned)


def _reduced(e: Emitter, a: Value, low: int, high: int) -> Hessenberg:
    """The form of matrices ``[n, n, *lanes]``; columns lose what is below them at the end."""
    n = a.shape.dims[0]
    taus = e.full(0, a.shape.element_type, a.shape.dims[1:])
    start = Hessenberg(a, e.full_like(e.real(taus), 0), e.full_like(a, 0), taus)

    def step(e: Emitter, number: Value, state: list[Value]) -> Values:
        a, *parts = state
        at = e.add(number, low - 1)
        shape = (n, 1, *a.shape.dims[2:])
        x = e.dynamic_slice(a, (0, at, *[0] * (a.shape.rank - 2)), shape)
        x = e.reshape(x, a.shape.dims[1:])
        place = e.iota(dt.S32, x.shape.dims, 0)
        x = x if high == n else e.select(e.compare("LT", place, high), x, 0)
        found = ln.reflector(e, x, e.add(at, 1))
        a = _turned(e, a, found, at, high)
        new = (found.beta, found.v, found.tau)
        return a, *(ln.put(e, x, y, at) for x, y in zip(parts, new, strict=True))

    return Hessenberg(*e.repeat(high - low, start, step))


def _turned(e: Emitter, a: Value, found: ln.Reflector, at: Value, high: int) -> Value:
    """H* A H right of column ``at``, from the left in all rows and from the right above ``high``.

    With p = A v, q = v* A and r = tau (p - conj(tau) (q v) v) that is A - r v* - conj(tau) v q.
    """
    tau = e.conjugate(found.tau)
    place = e.iota(dt.S32, found.v.shape.dims, 0)
    along = ln.row_times(e, e.conjugate(found.v), a)
    across = e.reduce(e.multiply(along, found.v), (0,))
    beside = ln.times(e, a, found.v)
    beside = beside if high == a.shape.dims[0] else e.select(
        e.compare("LT", place, high), beside, 0
    )  # fmt: skip
    turned = ln.scaled(e, found.v, tau)
    right = ln.scaled(e, e.subtract(beside, ln.scaled(e, turned, across)), found.tau)
    along = e.select(e.compare("GT", place, at), along, 0)
    taken = e.add(ln.outer(e, right, e.conjugate(found.v)), ln.outer(e, turned, along))
    return e.subtract(a, taken)


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
    diagonal, off = (e.real(x) for x in (mx.diagonal(e, packed), _below(e, packed)))
    return Tridiagonal(packed, diagonal, off, taus)


def _reflector_below(e: Emitter, a: Value, at: Value, limit: int) -> Reflector:
    """The reflector that leaves of column ``at``, below its diagonal, one element."""
    x = mx.column(e, a, at)
    inside = e.compare("LT", mx.rows(e, x), limit)
    return reflector(e, e.select(inside, x, 0), e.add(at, 1))


def _below(e: Emitter, a: Value) -> Value:
    """What is next below the diagonal, ``[batch, n - 1]``."""
    batch, n, _ = a.shape.dims
    return mx.diagonal(e, a, -1) if n > 1 else e.full(0, a.shape.element_type, (batch, 0))


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
