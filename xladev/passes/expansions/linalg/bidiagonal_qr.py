"""Singular values and vectors of upper bidiagonal matrices by implicit QR steps (bdsqr).

As `tridiagonal_qr`: a step chases one bulge through the last block that has not fallen apart, all
lanes together, each in its own block (Golub and Kahan 1965).
"""

from __future__ import annotations

from typing import NamedTuple

from xladev.hlo import dtype as dt
from xladev.passes.expansions.emit import Emitter, Values
from xladev.passes.expansions.linalg import lanes as ln
from xladev.passes.expansions.linalg import matrices as mx
from xladev.passes.expansions.linalg.matrices import Value
from xladev.passes.expansions.linalg.tridiagonal_qr import (
    FLOOR,
    MAX_SWEEPS_PER_ROW,
    Block,
    crossed,
    last_block,
    linear,
    rotation,
    rows_turned,
    without_small,
)


class BidiagonalSingular(NamedTuple):
    """B = U diag(s) V'.

    Attributes:
        s: in any order and of any sign, ``[n, *lanes]``.
        vectors: of each value the right one and the left one, ``[n, 2, n, *lanes]``, or None.
        found: False where there was no end to it, pred ``lanes``.
    """

    s: Value
    vectors: Value | None
    found: Value


class _Chase(NamedTuple):
    """A step under way.

    Attributes:
        h: the diagonal element of the row that comes next, as turned so far.
        x, z: what the next rotation of columns turns into one number and zero.
        c: cosine of the rotation of rows before.
        d, f: diagonal, and what is above it.
        vectors: pairs of rows; none if they are not wanted.
    """

    h: Value
    x: Value
    z: Value
    c: Value
    d: Value
    f: Value
    vectors: tuple[Value, ...]


def bidiagonal_singular(e: Emitter, d: Value, f: Value, *, vectors: bool) -> BidiagonalSingular:
    """Of matrices with elements not far from one.

    Args:
        e: where instructions go.
        d: diagonals, real ``[n, *lanes]``.
        f: what is above them, ``[n - 1, *lanes]``.
        vectors: whether they are wanted.
    """
    n, *lanes = d.shape.dims
    unit = mx.eye(e, d.shape.element_type, (1, n, n))
    pairs = e.broadcast(e.reshape(unit, (n, n)), (n, 2, n, *lanes), (0, 2))
    held = [pairs] if vectors else []
    if n == 1:
        return BidiagonalSingular(d, pairs if vectors else None, e.full(True, dt.PRED, lanes))
    d, f, block = _apart(e, d, f)
    state = (e.scalar(0, dt.S32), *block, d, f, *held)

    def unfinished(e: Emitter, values: list[Value]) -> Value:
        number, first, last = values[:3]
        left = ln.some(e, e.compare("LT", first, last))
        return mx.both(e, left, e.compare("LT", number, MAX_SWEEPS_PER_ROW * n))

    def body(e: Emitter, values: list[Value]) -> Values:
        number, first, last, d, f, *held = values
        d, f, *held = _step(e, d, f, held, Block(first, last))
        d, f, block = _apart(e, d, f)
        return e.add(number, 1), *block, d, f, *held

    _, first, last, d, f, *held = e.while_loop(state, unfinished, body)
    return BidiagonalSingular(d, held[0] if held else None, e.compare("EQ", first, last))


def _apart(e: Emitter, d: Value, f: Value) -> tuple[Value, Value, Block]:
    """Without what is negligible, and the last block that is left."""
    f = without_small(e, d, f)
    d = e.select(e.compare("LE", mx.magnitude(e, d), FLOOR[d.shape.element_type]), 0, d)
    return d, f, last_block(e, e.compare("NE", f, 0))


def _shift(e: Emitter, d: Value, f: Value, block: Block) -> Value:
    """The smaller singular value of the last 2 x 2 block (las2); zero where that is safer.

    A zero on the diagonal falls off the end in a step without shift.
    """
    before = e.elementwise("maximum", e.subtract(block.last, 1), 0)
    upper, lower, off = (
        mx.magnitude(e, ln.each(e, x, at)) for x, at in ((d, before), (d, block.last), (f, before))
    )
    square = e.multiply(off, off)
    sum_, apart = e.add(upper, lower), e.subtract(upper, lower)
    roots = [e.op("sqrt", e.add(e.multiply(x, x), square)) for x in (sum_, apart)]
    below = e.add(*roots)
    product = e.multiply(e.multiply(upper, lower), 2)
    least = e.divide(product, e.select(e.compare("EQ", below, 0), 1, below))
    number = e.iota(dt.S32, d.shape.dims, 0)
    inside = mx.both(
        e,
        e.compare("GE", number, ln.spread(e, block.first, number)),
        e.compare("LE", number, ln.spread(e, block.last, number)),
    )
    has_zero = e.reduce(mx.both(e, inside, e.compare("EQ", d, 0)), (0,), "or", False)
    top = mx.magnitude(e, ln.each(e, d, block.first))
    ratio = e.divide(least, e.select(e.compare("EQ", top, 0), 1, top))
    tiny = e.compare("LT", e.multiply(ratio, ratio), mx.EPSILON[d.shape.element_type])
    return e.select(e.op("or", has_zero, tiny), 0, least)


def _step(e: Emitter, d: Value, f: Value, held: list[Value], block: Block) -> list[Value]:
    """One QR step in every block."""
    n, zero = d.shape.dims[0], e.full_like(ln.one(e, d, 0), 0)
    open_ = e.compare("LT", block.first, block.last)
    begin = ln.outermost(e, e.select(open_, block.first, n), "minimum", n)
    end = ln.outermost(e, block.last, "maximum", 0)
    shift = _shift(e, d, f, block)

    def step(e: Emitter, number: Value, state: list[Value]) -> Values:
        begin, shift, first, last, h, x, z, c, d, f, *held = state
        k = e.add(number, begin)
        before = _Chase(h, x, z, c, d, f, tuple(held))
        chase = _rotate(e, before, k, shift, Block(first, last))
        return begin, shift, first, last, *chase[:6], *chase.vectors

    count = e.add(e.subtract(end, begin), 1)
    start = (begin, shift, *block, zero, zero, zero, zero, d, f, *held)
    return e.repeat(count, start, step)[8:]


def _first(e: Emitter, h: Value, shift: Value) -> Value:
    """What a step begins with: (h^2 - shift^2) / h, without squares."""
    safe = e.select(e.compare("EQ", h, 0), 1, h)
    signed = e.add(e.op("sign", h), e.divide(shift, safe))
    return e.multiply(e.subtract(mx.magnitude(e, h), shift), signed)


def _rotate(e: Emitter, s: _Chase, k: Value, shift: Value, block: Block) -> _Chase:
    """The rotations of columns, and then rows, k and k + 1."""
    number = e.broadcast(k, block.first.shape.dims, ())
    is_first = e.compare("EQ", number, block.first)
    is_before_end = e.compare("LT", number, block.last)
    within = mx.both(e, e.compare("GT", number, block.first), e.compare("LE", number, block.last))
    turns = mx.both(e, e.op("or", is_first, within), is_before_end)
    h = e.select(within, s.h, ln.one(e, s.d, k))
    here = ln.one(e, s.f, k)
    off = e.select(within, e.multiply(here, s.c), here)
    x = e.select(is_first, _first(e, h, shift), s.x)
    c, sine = rotation(e, x, e.select(turns, e.select(is_first, here, s.z), 0))
    before = e.elementwise("maximum", e.subtract(k, 1), 0)
    length = linear(e, c, x, sine, s.z)
    f = ln.put(e, s.f, e.select(within, length, ln.one(e, s.f, before)), before)
    next_d, next_f = ln.one(e, s.d, e.add(k, 1)), ln.one(e, s.f, e.add(k, 1))
    diagonal, above = linear(e, c, h, sine, off), crossed(e, c, off, sine, h)
    bulge, corner = e.multiply(sine, next_d), e.multiply(c, next_d)
    c2, sine2 = rotation(e, diagonal, bulge)
    vectors = tuple(_pairs_turned(e, v, (c, c2), (sine, sine2), k) for v in s.vectors)
    return _Chase(
        crossed(e, c2, corner, sine2, above),
        linear(e, c2, above, sine2, corner),
        e.multiply(sine2, next_f),
        c2,
        ln.put(e, s.d, linear(e, c2, diagonal, sine2, bulge), k),
        f,
        vectors,
    )


def _pairs_turned(
    e: Emitter, a: Value, cs: tuple[Value, Value], sines: tuple[Value, Value], k: Value
) -> Value:
    """Rows k and k + 1 of right vectors turned by the first rotation, of left by the second."""
    c, s = (
        e.concatenate([e.reshape(x, (1, *x.shape.dims)) for x in pair], 0) for pair in (cs, sines)
    )
    return rows_turned(e, a, c, s, k, (1, *range(3, a.shape.rank)))
