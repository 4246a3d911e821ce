"""Products of reflectors, kept as rows, with vectors that are rows; in lanes."""

from __future__ import annotations

from xladev.passes.expansions.emit import Emitter, Values
from xladev.passes.expansions.linalg import lanes as ln
from xladev.passes.expansions.linalg.matrices import Value
from xladev.passes.expansions.linalg.qr import apply_q

_IN_PANELS = 128
"""Reflectors of matrices of more rows are applied in panels; of others, one after the other."""


def turned_back(e: Emitter, v: Value, taus: Value, vectors: Value, first: int) -> Value:
    """H_0 H_1 ... times each of the vectors.

    Args:
        e: where instructions go.
        v: the reflectors' vectors as rows, ``[n, n, *lanes]``.
        taus: their scales, ``[n, *lanes]``.
        vectors: as rows, ``[n, n, *lanes]``.
        first: where the first reflector's vector has its one; each next one has it one further,
            and the last ``first`` do not count.
    """
    n = vectors.shape.dims[0]
    if n <= first:
        return vectors
    if n > _IN_PANELS and vectors.shape.rank == 2:
        return _in_panels(e, v, taus, vectors, first)

    def step(e: Emitter, number: Value, state: list[Value]) -> Values:
        vectors, v, taus = state
        k = e.subtract(e.index(n - 1 - first), number)
        reflector = ln.one(e, v, k)
        along = ln.times(e, vectors, e.conjugate(reflector))
        along = e.multiply(along, ln.spread(e, ln.one(e, taus, k), along))
        return e.subtract(vectors, ln.outer(e, along, reflector)), v, taus

    return e.repeat(n - first, (vectors, v, taus), step)[0]


def _in_panels(e: Emitter, v: Value, taus: Value, vectors: Value, first: int) -> Value:
    n = vectors.shape.dims[0]
    count = n - first
    packed = e.slice_in(e.slice_in(e.swap_last(v), 0, first, n), 1, 0, count)
    scales = e.reshape(e.slice_in(taus, 0, 0, count), (1, count))
    columns = e.swap_last(vectors)
    lower = e.reshape(e.slice_in(columns, 0, first, n), (1, count, n))
    turned = apply_q(e, e.reshape(packed, (1, count, count)), scales, lower)
    turned = e.reshape(turned, (count, n))
    if first:
        turned = e.concatenate((e.slice_in(columns, 0, 0, first), turned), 0)
    return e.swap_last(turned)
