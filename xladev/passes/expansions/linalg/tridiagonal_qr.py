"""Eigenvalues and vectors of symmetric tridiagonal matrices by implicit QR steps (steqr).

A step chases one bulge through the last block that has not fallen apart, and turns two rows of
vectors at a time. All lanes take each step together, each in its own block with its own shift, and
a rotation does nothing where a lane has its block elsewhere.
"""

from __future__ import annotations

from typing import NamedTuple

from xladev.hlo import dtype as dt
from xladev.passes.expansions.emit import Emitter, Values
from xladev.passes.expansions.linalg import lanes as ln
from xladev.passes.expansions.linalg import matrices as mx
from xladev.passes.expansions.linalg.matrices import Value

MAX_SWEEPS_PER_ROW = 30
Dims = tuple[int, ...]
FLOOR = {dt.F32: 2.0**-62, dt.F64: 2.0**-510}
"""What is nothing beside one, and whose square is still a normal number."""


class Block(NamedTuple):
    """What of each matrix is not diagonal yet: rows ``first .. last``, equal if nothing is."""

    first: Value
    last: Value


class _Chase(NamedTuple):
    """A step under way.

    Attributes:
        h: the diagonal element of the row that comes next, as turned so far.
        x, z: what the next rotation turns into one number and zero.
        c: cosine of the rotation before.
        d, o: diagonal, and the elements next to it.
        vectors: one each row.
    """

    h: Value
    x: Value
    z: Value
    c: Value
    d: Value
    o: Value
    vectors: Value


def tridiagonal_eigen(e: Emitter, d: Value, o: Value) -> tuple[Value, Value, Value]:
    """Of matrices with elements not far from one.

    Args:
        e: where instructions go.
        d: diagonals, real ``[n, *lanes]``.
        o: what is next to them, ``[n - 1, *lanes]``.

    Returns:
        Eigenvalues in any order ``[n, *lanes]``, their vectors as rows ``[n, n, *lanes]``, and
        whether they were found, pred ``lanes``.
    """
    n, *lanes = d.shape.dims
    unit = mx.eye(e, d.shape.element_type, (1, n, n))
    vectors = e.broadcast(e.reshape(unit, (n, n)), (n, n, *lanes), (0, 1))
    if n == 1:
        return d, vectors, e.full(True, dt.PRED, lanes)
    o, block = _apart(e, d, o)
    state = (e.scalar(0, dt.S32), *block, d, o, vectors)

    def unfinished(e: Emitter, values: list[Value]) -> Value:
        number, first, last = values[:3]
        left = ln.some(e, e.compare("LT", first, last))
        return mx.both(e, left, e.compare("LT", number, MAX_SWEEPS_PER_ROW * n))

    def body(e: Emitter, values: list[Value]) -> Values:
        number, first, last, d, o, vectors = values
        d, o, vectors = _step(e, d, o, vectors, Block(first, last))
        o, block = _apart(e, d, o)
        return e.add(number, 1), *block, d, o, vectors

    _, first, last, d, _, vectors = e.while_loop(state, unfinished, body)
    return d, vectors, e.compare("EQ", first, last)


def _apart(e: Emitter, d: Value, o: Value) -> tuple[Value, Block]:
    """Without what is negligible next to the diagonal, and the last block that is left."""
    o = without_small(e, d, o)
    return o, last_block(e, e.compare("NE", o, 0))


def without_small(e: Emitter, d: Value, o: Value) -> Value:
    """What is beside a diagonal, zero where it is negligible."""
    n, kind = d.shape.dims[0], d.shape.element_type
    size = mx.magnitude(e, d)
    around = e.add(e.slice_in(size, 0, 0, n - 1), e.slice_in(size, 0, 1, n))
    limit = e.add(e.multiply(around, mx.EPSILON[kind] / 2), FLOOR[kind])
    return e.select(e.compare("LE", mx.magnitude(e, o), limit), 0, o)


def last_block(e: Emitter, joined: Value) -> Block:
    """The last rows that belong together; ``joined`` says whether each does with the next one."""
    number = e.iota(dt.S32, joined.shape.dims, 0)
    last = e.reduce(e.select(joined, e.add(number, 1), 0), (0,), "maximum", 0)
    apart = mx.both(e, e.op("not", joined), e.compare("LT", number, ln.spread(e, last, number)))
    return Block(e.reduce(e.select(apart, e.add(number, 1), 0), (0,), "maximum", 0), last)


def _shift(e: Emitter, d: Value, o: Value, last: Value) -> Value:
    """Wilkinson's: the eigenvalue of the last 2 x 2 block that is nearer to its last element."""
    before = e.elementwise("maximum", e.subtract(last, 1), 0)
    upper, lower, off = ln.each(e, d, before), ln.each(e, d, last), ln.each(e, o, before)
    half = e.multiply(e.subtract(upper, lower), 0.5)
    square = e.multiply(off, off)
    root = e.op("sqrt", e.add(e.multiply(half, half), square))
    sum_ = e.add(half, e.select(mx.is_negative(e, half), e.op("negate", root), root))
    return e.subtract(lower, e.divide(square, e.select(e.compare("EQ", sum_, 0), 1, sum_)))


def _step(e: Emitter, d: Value, o: Value, vectors: Value, block: Block) -> tuple[Value, ...]:
    """One QR step in every block."""
    n, zero = d.shape.dims[0], e.full_like(ln.one(e, d, 0), 0)
    open_ = e.compare("LT", block.first, block.last)
    begin = ln.outermost(e, e.select(open_, block.first, n), "minimum", n)
    end = ln.outermost(e, block.last, "maximum", 0)
    shift = _shift(e, d, o, block.last)
    start = _Chase(zero, zero, zero, zero, d, o, vectors)

    def step(e: Emitter, number: Value, state: list[Value]) -> Values:
        *held, begin, shift, first, last = state
        k = e.add(number, begin)
        chase = _rotate(e, _Chase(*held), k, shift, Block(first, last))
        return *chase, begin, shift, first, last

    count = e.add(e.subtract(end, begin), 1)
    return tuple(e.repeat(count, (*start, begin, shift, *block), step)[4:7])


def _rotate(e: Emitter, s: _Chase, k: Value, shift: Value, block: Block) -> _Chase:
    """The rotation of rows k and k + 1, and what is left to do for the row before."""
    number = e.broadcast(k, block.first.shape.dims, ())
    is_first = e.compare("EQ", number, block.first)
    within = mx.both(e, e.compare("GT", number, block.first), e.compare("LE", number, block.last))
    turns = mx.both(e, e.compare("GE", number, block.first), e.compare("LT", number, block.last))
    h = e.select(within, s.h, ln.one(e, s.d, k))
    here = ln.one(e, s.o, k)
    off = e.select(within, e.multiply(here, s.c), here)
    x = e.select(is_first, e.subtract(h, shift), s.x)
    c, sine = rotation(e, x, e.select(turns, e.select(is_first, here, s.z), 0))
    before = e.elementwise("maximum", e.subtract(k, 1), 0)
    length = e.add(e.multiply(c, x), e.multiply(sine, s.z))
    o = ln.put(e, s.o, e.select(within, length, ln.one(e, s.o, before)), before)
    next_h, following = ln.one(e, s.d, e.add(k, 1)), ln.one(e, s.o, e.add(k, 1))
    upper, right = linear(e, c, h, sine, off), linear(e, c, off, sine, next_h)
    lower, corner = crossed(e, c, off, sine, h), crossed(e, c, next_h, sine, off)
    return _Chase(
        crossed(e, c, corner, sine, lower),
        crossed(e, c, right, sine, upper),
        e.multiply(sine, following),
        c,
        ln.put(e, s.d, linear(e, c, upper, sine, right), k),
        o,
        rows_turned(e, s.vectors, c, sine, k),
    )


def linear(e: Emitter, c: Value, x: Value, s: Value, y: Value) -> Value:
    """c x + s y."""
    return e.add(e.multiply(c, x), e.multiply(s, y))


def crossed(e: Emitter, c: Value, x: Value, s: Value, y: Value) -> Value:
    """c x - s y."""
    return e.subtract(e.multiply(c, x), e.multiply(s, y))


def rotation(e: Emitter, x: Value, z: Value) -> tuple[Value, Value]:
    """Cosine and sine of the rotation that turns (x, z) into (r, 0); none where z is nothing."""
    square = e.add(e.multiply(x, x), e.multiply(z, z))
    floor = FLOOR[x.shape.element_type]
    idle = e.op("or", e.compare("EQ", z, 0), e.compare("LT", square, floor * floor))
    length = e.op("sqrt", e.select(idle, 1, square))
    return e.select(idle, 1, e.divide(x, length)), e.select(idle, 0, e.divide(z, length))


def rows_turned(e: Emitter, a: Value, c: Value, s: Value, k: Value, dims: Dims = ()) -> Value:
    """Rows k and k + 1 of the matrices turned by each lane's rotation.

    Args:
        e: where instructions go.
        a: ``[m, ..., *lanes]``.
        c, s: cosine and sine.
        k: the upper row, a scalar.
        dims: which of the dimensions of ``a`` theirs are; none for the lanes.
    """
    pair = ln.at(e, a, k, 2)
    rank = pair.shape.rank
    dims = dims or tuple(range(rank - c.shape.rank, rank))
    c, s = (e.broadcast(x, pair.shape.dims, dims) for x in (c, s))
    is_upper = e.compare("EQ", e.iota(dt.S32, pair.shape.dims, 0), 0)
    sine = e.select(is_upper, s, e.op("negate", s))
    return ln.put(e, a, linear(e, c, pair, sine, e.reverse(pair, 0)), k)
