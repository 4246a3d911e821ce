"""What Jacobi methods share: rotations of many pairs at once, and the order in which pairs meet.

Pairs are (top[i], bottom[i]); after each round everybody moves on one seat, as in a round-robin
tournament, so that within n - 1 rounds each meets each (Brent and Luk 1985).
"""

from __future__ import annotations

from typing import NamedTuple

from xladev.passes.expansions.emit import Emitter
from xladev.passes.expansions.linalg import matrices as mx
from xladev.passes.expansions.linalg.matrices import Value

MAX_SWEEPS = 30
"""A bound for matrices on which rounding keeps the test from succeeding; five to ten suffice."""


class Rotations(NamedTuple):
    """J = [[c, s], [-conj(s), c]] with J* [[p, o], [conj(o), q]] J diagonal, one per pair.

    Attributes:
        versine: 1 - c, real, ``[batch, k]``.
        s: sines with the phase of o, of the matrices' type, ``[batch, k]``.
        shift: what p loses and q gains, real, ``[batch, k]``.
    """

    versine: Value
    s: Value
    shift: Value


def rotations(e: Emitter, p: Value, q: Value, o: Value) -> Rotations:
    """The smaller of the two rotations that make ``o`` zero; none where it is zero already."""
    size = mx.magnitude(e, o)
    idle = e.compare("EQ", size, 0)
    safe = e.select(idle, 1, size)
    ratio = e.divide(e.subtract(q, p), e.multiply(safe, 2))
    root = e.op("sqrt", e.add(e.multiply(ratio, ratio), 1))
    sign = e.select(e.compare("LT", ratio, 0), e.full_like(ratio, -1), 1)
    tangent = e.divide(sign, e.add(mx.magnitude(e, ratio), root))
    tangent = e.select(idle, 0, tangent)
    c = e.op("rsqrt", e.add(e.multiply(tangent, tangent), 1))
    sine = e.multiply(tangent, c)
    versine = e.divide(e.multiply(sine, sine), e.add(c, 1))
    phase = e.divide(o, mx.as_type_of(e, safe, o))
    s = e.multiply(mx.as_type_of(e, sine, o), phase)
    return Rotations(versine, s, e.multiply(tangent, size))


def rotated(
    e: Emitter, turn: Rotations, top: Value, bottom: Value, dimension: int, *, conjugate: bool
) -> tuple[Value, Value]:
    """Rows (dimension 1) or columns (2) of two matrices, rotated in pairs.

    What changes is computed and added: rounding is then relative to it, which keeps vectors
    orthogonal through hundreds of rotations (Rutishauser 1966).

    Args:
        conjugate: give J* [top; bottom], otherwise [top, bottom] J.
    """
    versine = mx.as_type_of(e, mx.spread(e, turn.versine, top, 0, dimension), top)
    s = mx.spread(e, turn.s, top, 0, dimension)
    other = e.conjugate(s)
    s, other = (other, s) if conjugate else (s, other)
    loss = e.add(e.multiply(versine, top), e.multiply(other, bottom))
    gain = e.subtract(e.multiply(s, top), e.multiply(versine, bottom))
    return e.subtract(top, loss), e.add(bottom, gain)


def moved_on(e: Emitter, top: Value, bottom: Value, dimension: int) -> tuple[Value, Value]:
    """Both halves after everybody but the first of ``top`` moved on one seat."""
    k = top.shape.dims[dimension]
    if k == 1:
        return top, bottom
    new_top = [
        e.slice_in(top, dimension, 0, 1),
        e.slice_in(bottom, dimension, 0, 1),
        e.slice_in(top, dimension, 1, k - 1),
    ]
    new_bottom = [e.slice_in(bottom, dimension, 1, k), e.slice_in(top, dimension, k - 1, k)]
    return e.concatenate(new_top, dimension), e.concatenate(new_bottom, dimension)
