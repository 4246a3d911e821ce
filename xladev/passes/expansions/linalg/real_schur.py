"""Real Schur form by Francis's double-shift QR algorithm, many matrices at a time.

As `schur`: all matrices of a stack take each sweep together, every one in its own window with its
own two shifts (as LAPACK's lahqr, in lockstep). One row and column of zeros at the end spare the
last, shorter reflector of a sweep a case of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xladev.hlo import dtype as dt
from xladev.passes.expansions.emit import Emitter, Values
from xladev.passes.expansions.linalg import lanes as ln
from xladev.passes.expansions.linalg import matrices as mx
from xladev.passes.expansions.linalg.blocks import Blocks, blocks_of, blocks_turned
from xladev.passes.expansions.linalg.hessenberg import hessenberg_with_q
from xladev.passes.expansions.linalg.matrices import Value
from xladev.passes.expansions.linalg.schur import (
    EXCEPTIONAL,
    MAX_SWEEPS_PER_ROW,
    Rotation,
    Schur,
    Window,
    negligible,
    negligible_below,
    without_negligible,
)

_LINE = 16
"""Elements of f32 in a cache line of 64 bytes."""
_WIDE = 64
"""Matrices of so many rows leave a first-level cache."""


def real_schur(e: Emitter, a: Value) -> Schur:
    """A = Q T Q' with blocks of one or two rows on the diagonal of T.

    Blocks of two rows have equal diagonal elements, and off-diagonal ones of opposite signs.

    Args:
        a: real, ``[batch, n, n]``, n not zero, all finite.
    """
    batch, n, _ = a.shape.dims
    if n == 1:
        return Schur(a, e.full_like(a, 1), e.full(0, dt.S32, (batch,)))
    h, qh = hessenberg_with_q(e, a)
    whole = e.reduce(mx.magnitude(e, h), (1, 2), "maximum", 0)
    # T and Q' side by side: a reflector turns rows of both at once.
    grown = ((0, 0, 0), (0, 1, 0), (0, _width(n) - 2 * n, 0))
    t = e.pad(e.concatenate((h, qh), 2), grown)
    window = _window(e, t, whole)
    state = (e.scalar(0, dt.S32), e.full(0, dt.S32, (batch,)), *window, whole, t)

    def unfinished(e: Emitter, values: list[Value]) -> Value:
        some = e.reduce(e.compare("GT", values[3], 0), (0,), "or", False)
        return mx.both(e, some, e.compare("LT", values[0], MAX_SWEEPS_PER_ROW * max(10, n)))

    def body(e: Emitter, values: list[Value]) -> Values:
        number, fruitless, first, last, whole, t = values
        t = _sweep(e, t, Window(first, last), fruitless)
        after = _window(e, t, whole)
        fruitless = e.select(e.compare("EQ", after.last, last), e.add(fruitless, 1), 0)
        return e.add(number, 1), fruitless, *after, whole, t

    final = e.while_loop(state, unfinished, body)
    info = e.select(e.compare("GT", final[3], 0), e.add(final[3], 1), 0)
    rows = e.slice_in(final[5], 1, 0, n)
    t, qh = e.slice_in(rows, 2, 0, n), e.slice_in(rows, 2, n, 2 * n)
    t = without_negligible(e, mx.upper_part(e, t, -1), negligible(e, t, final[4]))
    return Schur(*_standard_blocks(e, t, qh), info)


def _width(n: int) -> int:
    """How long rows of T and Q' are.

    Long ones have an odd number of cache lines: a column is then spread over all of a cache's sets.
    """
    if n < _WIDE:
        return 2 * n
    return (-(-2 * n // _LINE) | 1) * _LINE


class _Bands(NamedTuple):
    """Diagonal, and what is below and above it, ``[batch, n]`` and twice ``[batch, n - 1]``."""

    on: Value
    below: Value
    above: Value


def _bands(e: Emitter, t: Value) -> _Bands:
    """Of the T of matrices T and Q' side by side."""
    n = t.shape.dims[1] - 1
    return _Bands(*(e.slice_in(mx.diagonal(e, t, i), 1, 0, n - abs(i)) for i in (0, -1, 1)))


def _window(e: Emitter, t: Value, whole: Value) -> Window:
    """The last block of three rows or more, between negligible subdiagonal elements.

    A matrix without any such block has a window of last row 0.
    """
    on, below, _ = _bands(e, t)
    small = negligible_below(e, on, below, whole)
    count = small.shape.dims[1]
    upper, lower = (e.slice_in(small, 1, i, count - 1 + i) for i in (0, 1))
    number = mx.rows(e, upper)
    apart = e.op("or", upper, lower)
    last = e.reduce(e.select(apart, 0, e.add(number, 2)), (1,), "maximum", 0)
    ends = mx.both(e, upper, e.compare("LT", number, mx.spread(e, last, number, 0)))
    first = e.reduce(e.select(ends, e.add(number, 1), 0), (1,), "maximum", 0)
    return Window(first, last)


class _Start(NamedTuple):
    """What (T - s1) (T - s2) has in a window's first column, three times ``[batch]``."""

    x: Value
    y: Value
    z: Value


def _start(e: Emitter, bands: _Bands, window: Window, fruitless: Value) -> _Start:
    """With the eigenvalues of the window's last 2 x 2 block as shifts; now and then others."""
    on, below, above = bands
    before = _back(e, window.last)
    a, d = mx.picked(e, on, before), mx.picked(e, on, window.last)
    c = mx.picked(e, below, before)
    product = e.subtract(e.multiply(a, d), e.multiply(mx.picked(e, above, before), c))
    size = e.add(mx.magnitude(e, c), mx.magnitude(e, mx.picked(e, below, _back(e, before))))
    # The pair that LAPACK's hqr takes every ten sweeps: 1.5 size, and its square.
    odd = e.elementwise("remainder", e.add(fruitless, 1), e.full_like(fruitless, EXCEPTIONAL))
    usual = e.compare("NE", odd, 0)
    sum_ = e.select(usual, e.add(a, d), e.multiply(size, 1.5))
    product = e.select(usual, product, e.multiply(size, size))
    following = e.add(window.first, 1)
    upper, lower = mx.picked(e, on, window.first), mx.picked(e, on, following)
    beside = mx.picked(e, below, window.first)
    gap = e.subtract(upper, sum_)
    x = e.add(e.multiply(upper, gap), product)
    x = e.add(x, e.multiply(mx.picked(e, above, window.first), beside))
    y = e.multiply(beside, e.add(gap, lower))
    return _Start(x, y, e.multiply(beside, mx.picked(e, below, following)))


def _back(e: Emitter, number: Value) -> Value:
    return e.elementwise("maximum", e.subtract(number, 1), 0)


def _sweep(e: Emitter, t: Value, window: Window, fruitless: Value) -> Value:
    """One double step in every window of three rows or more."""
    start = _start(e, _bands(e, t), window, fruitless)
    unfinished = e.compare("GT", window.last, 0)
    n = t.shape.dims[1]
    begin = e.reduce(e.select(unfinished, window.first, n), (0,), "minimum", n)
    end = e.reduce(window.last, (0,), "maximum", 0)

    def step(e: Emitter, number: Value, state: list[Value]) -> Values:
        t, x, y, z, first, last, begin = state
        k = e.add(number, begin)
        found = _bulge(e, t, _Start(x, y, z), Window(first, last), k)
        t = _rows_reflected(e, t, found, Window(first, last), k)
        return _columns_reflected(e, t, found, k), *state[1:]

    count = e.subtract(end, begin)
    return e.repeat(count, (t, *start, *window, begin), step)[0]


class _Reflector(NamedTuple):
    """1 - tau w w' for three rows or columns.

    Attributes:
        tau: ``[batch]``.
        w: it begins with a one, ``[batch, 3]``.
    """

    tau: Value
    w: Value


def _along(e: Emitter, by: _Reflector, parts: Sequence[Value]) -> Value:
    """tau (w' x) for three rows or columns x, ``[batch, n]``, without a reduction of three."""
    first, *others = parts
    sum_ = first
    for number, part in enumerate(others, 1):
        sum_ = e.add(sum_, e.multiply(mx.spread(e, mx.element(e, by.w, number), part, 0), part))
    return e.multiply(sum_, mx.spread(e, by.tau, first, 0))


def _bulge(e: Emitter, t: Value, start: _Start, window: Window, k: Value) -> _Reflector:
    """The reflector of rows k to k + 2; tau 0 outside of a window."""
    batch = t.shape.dims[0]
    left = _back(e, k)
    number = e.broadcast(k, (batch,), ())
    begins = e.compare("EQ", window.first, number)
    chased = (e.dynamic_slice(t, (0, e.add(k, i), left), (batch, 1, 1)) for i in range(3))
    x, y, z = (
        e.select(begins, new, e.reshape(old, (batch,)))
        for new, old in zip(start, chased, strict=True)
    )
    z = e.select(e.compare("EQ", e.add(number, 1), window.last), 0, z)
    inside = mx.both(e, e.compare("LE", window.first, number), e.compare("LT", number, window.last))
    tau, *others = ln.short_reflector(e, x, (y, z), inside)
    w = [e.reshape(x, (batch, 1)) for x in (e.full_like(x, 1), *others)]
    return _Reflector(tau, e.concatenate(w, 1))


def _rows_reflected(e: Emitter, t: Value, by: _Reflector, window: Window, k: Value) -> Value:
    """The rows k to k + 2, and zeros where they are meant to be."""
    batch, _, width = t.shape.dims
    part = e.dynamic_slice(t, (0, k, 0), (batch, 3, width))
    rows = [e.reshape(e.slice_in(part, 1, i, i + 1), (batch, width)) for i in range(3)]
    new = e.subtract(part, mx.outer(e, by.w, _along(e, by, rows)))
    column = mx.columns(e, part)
    zero = [e.compare("EQ", column, mx.down(e, x, part)) for x in _zeros(e, window, k)]
    return e.dynamic_update_slice(t, e.select(e.op("or", *zero), 0, new), (0, k, 0))


def _zeros(e: Emitter, window: Window, k: Value) -> tuple[Value, Value]:
    """Numbers of the columns in which the rows k to k + 2 have zeros, twice s32 ``[batch, 3]``.

    They are what the reflector removed from column k - 1, and the negligible elements at both ends
    of a window. -1 is no column.
    """
    dims = (*window.first.shape.dims, 3)
    row, number = e.iota(dt.S32, dims, 1), e.broadcast(k, dims, ())
    begins = e.compare("EQ", number, e.broadcast(window.first, dims, (0,)))
    ends = e.compare("EQ", e.add(number, 1), e.broadcast(window.last, dims, (0,)))
    left = e.select(e.op("or", begins, e.compare("GT", row, 0)), e.subtract(number, 1), -1)
    right = e.select(mx.both(e, ends, e.compare("EQ", row, 2)), e.add(number, 1), -1)
    return left, right


def _columns_reflected(e: Emitter, t: Value, by: _Reflector, k: Value) -> Value:
    """The columns k to k + 2 of T."""
    batch, n, _ = t.shape.dims
    part = e.dynamic_slice(t, (0, 0, k), (batch, n, 3))
    columns = [e.reshape(e.slice_in(part, 2, i, i + 1), (batch, n)) for i in range(3)]
    new = e.subtract(part, mx.outer(e, _along(e, by, columns), by.w))
    return e.dynamic_update_slice(t, new, (0, 0, k))


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
