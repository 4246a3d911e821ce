"""Reduction of square matrices to upper bidiagonal form by reflectors from both sides, in lanes."""

from __future__ import annotations

from typing import NamedTuple

from xladev.passes.expansions.emit import Emitter, Values
from xladev.passes.expansions.linalg import lanes as ln
from xladev.passes.expansions.linalg.matrices import Value


class Bidiagonal(NamedTuple):
    """U* A V = B.

    Attributes:
        diagonal, above: of B, real ``[n, *lanes]`` and ``[n - 1, *lanes]``.
        left, right: vectors of the reflectors whose products are U and V, as rows,
            ``[n, n, *lanes]``.
        left_taus, right_taus: their scales, ``[n, *lanes]``.
    """

    diagonal: Value
    above: Value
    left: Value
    right: Value
    left_taus: Value
    right_taus: Value


def bidiagonal(e: Emitter, a: Value) -> Bidiagonal:
    """The form of matrices ``[n, n, *lanes]`` whose elements are not far from one."""
    n = a.shape.dims[0]
    taus = e.full(0, a.shape.element_type, a.shape.dims[1:])
    zero, none = e.full_like(e.real(taus), 0), e.full_like(a, 0)

    def step(e: Emitter, number: Value, state: list[Value]) -> Values:
        a, *parts = state
        a, found = _reduced(e, a, number)
        return a, *(ln.put(e, x, new, number) for x, new in zip(parts, found, strict=True))

    start = (a, zero, zero, none, none, taus, taus)
    diagonal, above, *others = e.repeat(n, start, step)[1:]
    return Bidiagonal(diagonal, e.slice_in(above, 0, 0, n - 1), *others)


def _reduced(e: Emitter, a: Value, number: Value) -> tuple[Value, tuple[Value, ...]]:
    """The matrices after the step of one column and one row, and what they leave in the form."""
    column = e.reshape(
        e.dynamic_slice(a, _start(a, number), (a.shape.dims[0], 1, *a.shape.dims[2:])),
        a.shape.dims[1:],
    )
    left = ln.reflector(e, column, number)
    along = ln.row_times(e, e.conjugate(left.v), a)
    tau = e.conjugate(left.tau)
    row = e.subtract(ln.one(e, a, number), ln.scaled(e, along, tau))
    right = ln.reflector(e, e.conjugate(row), e.add(number, 1))
    # (H* A) v, from A and what H* takes from it.
    across = e.reduce(e.multiply(along, right.v), (0,))
    turned = ln.scaled(e, left.v, tau)
    beside = e.subtract(ln.times(e, a, right.v), ln.scaled(e, turned, across))
    taken = e.add(
        ln.outer(e, turned, along),
        ln.outer(e, ln.scaled(e, beside, right.tau), e.conjugate(right.v)),
    )
    found = (left.beta, right.beta, left.v, right.v, left.tau, right.tau)
    return e.subtract(a, taken), found


def _start(a: Value, number: Value) -> list[Value | int]:
    return [0, number, *[0] * (a.shape.rank - 2)]
