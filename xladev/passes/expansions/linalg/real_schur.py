"""Real Schur form by Francis's double-shift QR algorithm, many matrices at a time.

As `schur`: all matrices of a stack take each sweep together, every one in its own window with its
own two shifts (as LAPACK's lahqr, in lockstep). One row and column of zeros at the end spare the
last, shorter reflector of a sweep a case of its own.
"""

from __future__ import annotations

from typing import NamedTuple

from xladev.hlo import dtype as dt
from xladev.passes.expansions.emit import Emitter, Values
from xladev.passes.expansions.linalg import lanes as ln
from xladev.passes.expansions.linalg import matrices as mx
from xladev.passes.expansions.linalg.blocks import Blocks, blocks_of, blocks_turned
from xladev.passes.expansions.linalg.hessenberg import hessenberg
from xladev.passes.expansions.linalg.matrices import Value
from xladev.passes.expansions.linalg.schur import (
    EXCEPTIONAL,
    MAX_SWEEPS_PER_ROW,
    Rotation,
    Schur,
    Window,
    hessenberg_q,
    negligible,
    without_negligible,
)


def real_schur(e: Emitter, a: Value) -> Schur:
    """A = Q T Q' with blocks of one or two rows on the diagonal of T.

    Blocks of two rows have equal diagonal elements, and off-diagonal ones of opposite signs.

    Args:
        a: real, ``[batch, n, n]``, n not zero, all finite.
    """
    batch, n, _ = a.shape.dims
    if n == 1:
        return Schur(a, e.full_like(a, 1), e.full(0, dt.S32, (batch,)))
    packed, taus = hessenberg(e, a, 1, n)
    qh = e.swap_last(hessenberg_q(e, packed, taus))
    wider = ((0, 0, 0), (0, 1, 0), (0, 1, 0))
    t, qh = e.pad(mx.upper_part(e, packed, -1), wider), e.pad(qh, ((0, 0, 0), (0, 1, 0), (0, 0, 0)))
    t, window = _deflated(e, t)
    state = (e.scalar(0, dt.S32), e.full(0, dt.S32, (batch,)), *window, t, qh)

    def unfinished(e: Emitter, values: list[Value]) -> Value:
        some = e.reduce(e.compare("GT", values[3], 0), (0,), "or", False)
        return mx.both(e, some, e.compare("LT", values[0], MAX_SWEEPS_PER_ROW * max(10, n)))

    def body(e: Emitter, values: list[Value]) -> Values:
        number, fruitless, first, last, t, qh = values
        t, qh = _sweep(e, t, qh, Window(first, last), fruitless)
        t, after = _deflated(e, t)
        fruitless = e.select(e.compare("EQ", after.last, last), e.add(fruitless, 1), 0)
        return e.add(number, 1), fruitless, *after, t, qh

    final = e.while_loop(state, unfinished, body)
    info = e.select(e.compare("GT", final[3], 0), e.add(final[3], 1), 0)
    t, qh = final[4:]
    t = mx.upper_part(e, e.slice_in(e.slice_in(t, 1, 0, n), 2, 0, n), -1)
    return Schur(*_standard_blocks(e, t, e.slice_in(qh, 1, 0, n)), info)


def _deflated(e: Emitter, t: Value) -> tuple[Value, Window]:
    """The matrices without negligible subdiagonal elements, and their last block of three rows.

    A matrix without any such block has a window of last row 0.
    """
    small = negligible(e, t)
    t = without_negligible(e, t, small)
    n = t.shape.dims[1]
    upper, lower = (e.slice_in(small, 1, i, n - 2 + i) for i in (0, 1))
    number = mx.rows(e, upper)
    apart = e.op("or", upper, lower)
    last = e.reduce(e.select(apart, 0, e.add(number, 2)), (1,), "maximum", 0)
    ends = mx.both(e, upper, e.compare("LT", number, mx.spread(e, last, number, 0)))
    first = e.reduce(e.select(ends, e.add(number, 1), 0), (1,), "maximum", 0)
    return t, Window(first, last)


class _Shifts(NamedTuple):
    """Sum and product of two shifts, ``[batch]``."""

    sum: Value
    product: Value


def _shifts(e: Emitter, t: Value, window: Window, fruitless: Value) -> _Shifts:
    """The eigenvalues of each window's last 2 x 2 block; now and then something else."""
    last = window.last
    before = e.elementwise("maximum", e.subtract(last, 1), 0)
    upper, lower = mx.picked(e, t, before), mx.picked(e, t, last)
    a, b = mx.picked(e, upper, before), mx.picked(e, upper, last)
    c, d = mx.picked(e, lower, before), mx.picked(e, lower, last)
    sum_ = e.add(a, d)
    product = e.subtract(e.multiply(a, d), e.multiply(b, c))
    size = e.add(mx.magnitude(e, c), mx.magnitude(e, mx.picked(e, upper, _back(e, before))))
    # The pair that LAPACK's hqr takes every ten sweeps: 1.5 size, and its square.
    odd = e.elementwise("remainder", e.add(fruitless, 1), e.full_like(fruitless, EXCEPTIONAL))
    usual = e.compare("NE", odd, 0)
    return _Shifts(
        e.select(usual, sum_, e.multiply(size, 1.5)),
        e.select(usual, product, e.multiply(size, size)),
    )


def _back(e: Emitter, number: Value) -> Value:
    return e.elementwise("maximum", e.subtract(number, 1), 0)


def _sweep(
    e: Emitter, t: Value, qh: Value, window: Window, fruitless: Value
) -> tuple[Value, Value]:
    """One double step in every window of three rows or more."""
    shifts = _shifts(e, t, window, fruitless)
    unfinished = e.compare("GT", window.last, 0)
    n = t.shape.dims[1]
    begin = e.reduce(e.select(unfinished, window.first, n), (0,), "minimum", n)
    end = e.reduce(window.last, (0,), "maximum", 0)

    def step(e: Emitter, number: Value, state: list[Value]) -> Values:
        t, qh, sum_, product, first, last, begin = state
        k = e.add(number, begin)
        v, tau = _bulge(e, t, _Shifts(sum_, product), Window(first, last), k)
        t = _columns_reflected(e, _rows_reflected(e, t, v, tau, k), v, tau, k)
        return _with_zeros(e, t, k), _rows_reflected(e, qh, v, tau, k), *state[2:]

    t, qh, *_ = e.repeat(e.subtract(end, begin), (t, qh, *shifts, *window, begin), step)
    return t, qh


def _bulge(e: Emitter, t: Value, shifts: _Shifts, window: Window, k: Value) -> tuple[Value, Value]:
    """The reflector of rows k to k + 2, ``[batch, 3]`` and ``[batch]``; tau 0 outside."""
    batch = t.shape.dims[0]
    left = _back(e, k)
    here = e.broadcast(e.compare("EQ", window.first, k), (batch, 3), (0,))
    block = e.dynamic_slice(t, (0, k, k), (batch, 3, 2))
    chased = e.reshape(e.dynamic_slice(t, (0, k, left), (batch, 3, 1)), (batch, 3))
    x = e.select(here, _first_column(e, block, shifts), chased)
    short = e.compare("EQ", k, e.subtract(window.last, 1))
    third = e.compare("EQ", mx.rows(e, x), 2)
    x = e.select(mx.both(e, e.broadcast(short, (batch, 3), (0,)), third), 0, x)
    found = ln.reflector(e, e.swap_last(x), e.scalar(0, dt.S32))
    inside = mx.both(
        e,
        e.compare("LE", window.first, k),
        e.compare("LT", k, window.last),
    )
    return e.swap_last(found.v), e.select(inside, found.tau, 0)


def _first_column(e: Emitter, block: Value, shifts: _Shifts) -> Value:
    """What (T - s1) (T - s2) has in the window's first column, from its first 3 x 2 elements."""
    batch = block.shape.dims[0]
    part = {(i, j): mx.element(e, mx.row(e, block, i), j) for i in range(3) for j in range(2)}
    gap = e.subtract(part[0, 0], shifts.sum)
    x = e.add(e.multiply(part[0, 0], gap), shifts.product)
    x = e.add(x, e.multiply(part[0, 1], part[1, 0]))
    y = e.multiply(part[1, 0], e.add(gap, part[1, 1]))
    z = e.multiply(part[1, 0], part[2, 1])
    return e.concatenate([e.reshape(value, (batch, 1)) for value in (x, y, z)], 1)


def _rows_reflected(e: Emitter, a: Value, v: Value, tau: Value, k: Value) -> Value:
    """(1 - tau v v') A for the rows k to k + 2."""
    batch, _, n = a.shape.dims
    part = e.dynamic_slice(a, (0, k, 0), (batch, 3, n))
    along = mx.row_times(e, v, part)
    scaled = e.multiply(v, mx.spread(e, tau, v, 0))
    return e.dynamic_update_slice(a, e.subtract(part, mx.outer(e, scaled, along)), (0, k, 0))


def _columns_reflected(e: Emitter, a: Value, v: Value, tau: Value, k: Value) -> Value:
    """A (1 - tau v v') for the columns k to k + 2."""
    batch, n, _ = a.shape.dims
    part = e.dynamic_slice(a, (0, 0, k), (batch, n, 3))
    along = mx.times_column(e, part, v)
    scaled = e.multiply(v, mx.spread(e, tau, v, 0))
    return e.dynamic_update_slice(a, e.subtract(part, mx.outer(e, along, scaled)), (0, 0, k))


def _with_zeros(e: Emitter, t: Value, k: Value) -> Value:
    """What the reflector of rows k to k + 2 removed from column k - 1."""
    batch = t.shape.dims[0]
    at = (0, e.add(k, 1), _back(e, k))
    old = e.dynamic_slice(t, at, (batch, 2, 1))
    chasing = e.broadcast(e.compare("GT", k, 0), old.shape.dims, ())
    return e.dynamic_update_slice(t, e.select(chasing, e.full_like(old, 0), old), at)


# Blocks of two rows


def _standard_blocks(e: Emitter, t: Value, qh: Value) -> tuple[Value, Value]:
    """Blocks with real eigenvalues triangular, others with equal diagonal elements (lanv2).

    No two blocks share a row, so that all of them are turned at once.
    """
    blocks = blocks_of(e, t)
    diagonal, right = mx.diagonal(e, t), mx.beside_diagonal(e, t, 1, 1)
    under = mx.elements_at(e, diagonal, blocks.other)
    turn, real = _standard_turn(e, diagonal, right, blocks.starts, under)
    cosine, sine = (mx.elements_at(e, x, blocks.first) for x in turn)
    sine = e.select(blocks.is_last, e.op("negate", sine), sine)
    t = blocks_turned(e, t, cosine, sine, blocks.other)
    t = e.swap_last(blocks_turned(e, e.swap_last(t), cosine, sine, blocks.other))
    qh = blocks_turned(e, qh, cosine, sine, blocks.other)
    splits = e.compare("NE", mx.elements_at(e, e.convert(real, dt.S32), blocks.first), 0)
    return _exact_blocks(e, t, blocks, splits), qh


def _standard_turn(e: Emitter, a: Value, b: Value, c: Value, d: Value) -> tuple[Rotation, Value]:
    """The rotations for blocks [[a, b], [c, d]], and whether their eigenvalues are real."""
    half = e.multiply(e.subtract(a, d), 0.5)
    inside = e.add(e.multiply(half, half), e.multiply(b, c))
    real = e.compare("GE", inside, 0)
    root = e.op("sqrt", e.select(real, inside, 0))
    z = e.add(half, e.select(mx.is_negative(e, half), e.op("negate", root), root))
    level = _levelling(e, half, e.add(b, c))
    turn = _turn_of(e, *(e.select(real, x, y) for x, y in zip((z, c), level, strict=True)))
    idle = e.compare("EQ", c, 0)
    return Rotation(e.select(idle, 1, turn.c), e.select(idle, 0, turn.s)), real


def _levelling(e: Emitter, half: Value, sum_: Value) -> tuple[Value, Value]:
    """Cosine and sine, times one number, of the rotation that makes both diagonal elements equal.

    With d half the difference and f half the sum of the off-diagonal elements it is the smaller
    angle with d cos 2x + f sin 2x = 0.
    """
    f = e.multiply(sum_, 0.5)
    length = e.op("sqrt", e.add(e.multiply(f, f), e.multiply(half, half)))
    turned = e.select(mx.is_negative(e, f), half, e.op("negate", half))
    level = e.compare("EQ", length, 0)
    cosine = e.add(mx.magnitude(e, f), length)
    return e.select(level, 1, cosine), e.select(level, 0, turned)


def _turn_of(e: Emitter, x: Value, y: Value) -> Rotation:
    """The rotation along (x, y); none if both are zero."""
    scale = mx.power_of_two_near(e, e.op("maximum", mx.magnitude(e, x), mx.magnitude(e, y)))
    x, y = e.divide(x, scale), e.divide(y, scale)
    length = e.op("sqrt", e.add(e.multiply(x, x), e.multiply(y, y)))
    idle = e.compare("EQ", length, 0)
    safe = e.select(idle, 1, length)
    return Rotation(e.select(idle, 1, e.divide(x, safe)), e.divide(y, safe))


def _exact_blocks(e: Emitter, t: Value, blocks: Blocks, splits: Value) -> Value:
    """The matrices after the rotations, with what those were to make zero or equal exactly so."""
    row, column = mx.rows(e, t), mx.columns(e, t)
    zero = mx.both(
        e,
        e.compare("EQ", row, e.add(column, 1)),
        mx.down(e, mx.both(e, splits, blocks.is_last), t),
    )
    diagonal = mx.diagonal(e, t)
    mean = e.multiply(e.add(diagonal, mx.elements_at(e, diagonal, blocks.other)), 0.5)
    diagonal = e.select(splits, diagonal, mean)
    t = e.select(e.compare("EQ", row, column), mx.down(e, diagonal, t), t)
    return e.select(zero, 0, t)


def block_eigenvalues(e: Emitter, t: Value) -> list[Value]:
    """Real and imaginary parts of the eigenvalues of standard blocks; of pairs, plus first."""
    real = mx.diagonal(e, t)
    if t.shape.dims[1] == 1:
        return [real, e.full_like(real, 0)]
    starts, ends = (_pair_size(e, t, dimension) for dimension in (2, 1))
    return [real, e.subtract(starts, ends)]


def _pair_size(e: Emitter, t: Value, dimension: int) -> Value:
    """Size of the imaginary parts at the first rows of blocks, or (dimension 1) at the last."""
    below = mx.beside_diagonal(e, t, -1, dimension)
    above = mx.beside_diagonal(e, t, 1, 3 - dimension)
    roots = [e.op("sqrt", mx.magnitude(e, x)) for x in (below, above)]
    return e.select(e.compare("EQ", below, 0), 0, e.multiply(*roots))
