"""Complex Schur form by the shifted QR algorithm on Hessenberg matrices, many at a time.

All matrices of a stack take each sweep together, every one in the window of rows that it has not
finished, with its own shift. The rotation of two neighbouring rows is at the same place in all of
them, and does nothing where a matrix has its window elsewhere (as LAPACK's lahqr, in lockstep).
"""

from __future__ import annotations

from typing import NamedTuple

from xladev.hlo import dtype as dt
from xladev.passes.expansions.emit import Emitter, Values
from xladev.passes.expansions.linalg import matrices as mx
from xladev.passes.expansions.linalg.hessenberg import hessenberg_with_q
from xladev.passes.expansions.linalg.matrices import Value

MAX_SWEEPS_PER_ROW = 30
EXCEPTIONAL = 10
"""Sweeps without a new zero after which a shift is tried that breaks symmetry."""


class Schur(NamedTuple):
    """A = Q T Q*.

    Attributes:
        t: upper triangular, complex, ``[batch, n, n]``.
        qh: Q*, ``[batch, n, n]``.
        info: 0, or the number of rows for which no eigenvalue was found, s32 ``[batch]``.
    """

    t: Value
    qh: Value
    info: Value


class Window(NamedTuple):
    """What of each matrix is not triangular yet: rows ``first .. last``, equal if nothing is."""

    first: Value
    last: Value


def complex_schur(e: Emitter, a: Value) -> Schur:
    """Of complex matrices ``[batch, n, n]``, n not zero, all finite."""
    batch, n, _ = a.shape.dims
    if n == 1:
        return Schur(a, e.full_like(a, 1), e.full(0, dt.S32, (batch,)))
    t, qh = hessenberg_with_q(e, a)
    zeros = e.full(0, dt.S32, (batch,))
    t, window = _deflated(e, t)
    state = (e.scalar(0, dt.S32), zeros, *window, t, qh)

    def unfinished(e: Emitter, values: list[Value]) -> Value:
        number, _, first, last = values[:4]
        some = e.reduce(e.compare("LT", first, last), (0,), "or", False)
        return mx.both(e, some, e.compare("LT", number, MAX_SWEEPS_PER_ROW * max(10, n)))

    def body(e: Emitter, values: list[Value]) -> Values:
        number, fruitless, *rest = values
        window, (t, qh) = Window(*rest[:2]), rest[2:]
        shift = _shift(e, t, window.last, fruitless)
        t, qh = _sweep(e, t, qh, shift, window)
        t, after = _deflated(e, t)
        same = e.compare("EQ", after.last, window.last)
        fruitless = e.select(same, e.add(fruitless, 1), 0)
        return e.add(number, 1), fruitless, *after, t, qh

    _, _, first, last, t, qh = e.while_loop(state, unfinished, body)
    info = e.select(e.compare("LT", first, last), e.add(last, 1), 0)
    return Schur(mx.upper_part(e, t), qh, info)


def _deflated(e: Emitter, t: Value) -> tuple[Value, Window]:
    """The matrices without negligible subdiagonal elements, and their last unfinished block."""
    small = negligible(e, t)
    t = without_negligible(e, t, small)
    number = e.add(mx.rows(e, small), 1)
    last = e.reduce(e.select(small, 0, number), (1,), "maximum", 0)
    ends = mx.both(e, small, e.compare("LT", number, mx.spread(e, last, number, 0)))
    first = e.reduce(e.select(ends, number, 0), (1,), "maximum", 0)
    return t, Window(first, last)


def negligible(e: Emitter, t: Value, whole: Value | None = None) -> Value:
    """Which subdiagonal elements are nothing beside their neighbours, pred ``[batch, n - 1]``.

    Args:
        e: where instructions go.
        t: ``[batch, n, n]``.
        whole: the largest size of an element of each matrix; it is found if it is not given.
    """
    if whole is None:
        whole = e.reduce(mx.size(e, t), (1, 2), "maximum", 0)
    return negligible_below(e, mx.diagonal(e, t), subdiagonal(e, t), whole)


def negligible_below(e: Emitter, diagonal: Value, below: Value, whole: Value) -> Value:
    """The same of a diagonal and what is below it; ``whole`` counts where the diagonal is zero."""
    n = diagonal.shape.dims[1]
    sizes = mx.size(e, diagonal)
    around = e.add(e.slice_in(sizes, 1, 0, n - 1), e.slice_in(sizes, 1, 1, n))
    around = e.select(e.compare("EQ", around, 0), mx.spread(e, whole, around, 0), around)
    epsilon = mx.EPSILON[diagonal.shape.element_type.component]
    return e.compare("LE", mx.size(e, below), e.multiply(around, epsilon))


def without_negligible(e: Emitter, t: Value, small: Value) -> Value:
    """The matrices with those subdiagonal elements zero."""
    below = e.pad(e.convert(small, dt.S32), ((0, 0, 0), (1, 0, 0)))
    on = e.compare("EQ", mx.rows(e, t), e.add(mx.columns(e, t), 1))
    return e.select(mx.both(e, on, e.compare("NE", mx.down(e, below, t), 0)), 0, t)


def subdiagonal(e: Emitter, t: Value) -> Value:
    """The elements next below the diagonal, ``[batch, n - 1]``."""
    return mx.diagonal(e, t, -1)


def _shift(e: Emitter, t: Value, last: Value, fruitless: Value) -> Value:
    """The eigenvalue of each window's last 2 x 2 block that is nearer to its last element.

    After some fruitless sweeps, now and then, something else of that size instead.
    """
    before = e.elementwise("maximum", e.subtract(last, 1), 0)
    upper, lower = mx.picked(e, t, before), mx.picked(e, t, last)
    a, b = mx.picked(e, upper, before), mx.picked(e, upper, last)
    c, d = mx.picked(e, lower, before), mx.picked(e, lower, last)
    half = e.multiply(e.subtract(a, d), 0.5)
    root = e.op("sqrt", e.add(e.multiply(half, half), e.multiply(b, c)))
    turned = e.add(
        e.multiply(e.real(half), e.real(root)),
        e.multiply(e.op("imag", half), e.op("imag", root)),
    )
    root = e.select(e.compare("LT", turned, 0), e.op("negate", root), root)
    sum_ = e.add(half, root)
    nothing = e.compare("EQ", sum_, 0)
    product = e.multiply(b, c)
    step = e.select(nothing, 0, e.divide(product, e.select(nothing, 1, sum_)))
    usual = e.subtract(d, step)
    other = e.add(d, mx.as_type_of(e, e.multiply(mx.size(e, c), 0.75), d))
    every = e.elementwise("remainder", e.add(fruitless, 1), e.full_like(fruitless, EXCEPTIONAL))
    return e.select(e.compare("EQ", every, 0), other, usual)


def _sweep(e: Emitter, t: Value, qh: Value, shift: Value, window: Window) -> tuple[Value, Value]:
    """One QR step in every window."""
    unfinished = e.compare("LT", window.first, window.last)
    n = t.shape.dims[1]
    begin = e.reduce(e.select(unfinished, window.first, n), (0,), "minimum", n)
    end = e.reduce(e.select(unfinished, window.last, 0), (0,), "maximum", 0)

    def step(e: Emitter, number: Value, state: list[Value]) -> Values:
        t, qh, shift, first, last, begin = state
        k = e.add(number, begin)
        turn = _chase(e, t, shift, Window(first, last), k)
        t = rows_turned(e, t, turn, k)
        t = _with_zero(e, columns_turned(e, t, turn, k), k)
        return t, rows_turned(e, qh, turn, k), shift, first, last, begin

    start = (t, qh, shift, *window, begin)
    t, qh, *_ = e.repeat(e.subtract(end, begin), start, step)
    return t, qh


class Rotation(NamedTuple):
    """[[c, s], [-conj(s), c]], both of the matrices' type, ``[batch]``; c is real."""

    c: Value
    s: Value


def _chase(e: Emitter, t: Value, shift: Value, window: Window, k: Value) -> Rotation:
    """The rotation of rows k and k + 1: makes the bulge, chases it, or does nothing outside."""
    batch = t.shape.dims[0]
    left = e.elementwise("maximum", e.subtract(k, 1), 0)
    first = e.compare("EQ", window.first, k)
    column = e.select(e.broadcast(first, (batch, 2), (0,)), _pair(e, t, k, k), _pair(e, t, k, left))
    x, y = mx.element(e, column, 0), mx.element(e, column, 1)
    x = e.select(first, e.subtract(x, shift), x)
    inside = mx.both(e, e.compare("LE", window.first, k), e.compare("GT", window.last, k))
    return _turn(e, x, e.select(inside, y, 0))


def _pair(e: Emitter, t: Value, row: Value, column: Value) -> Value:
    """Two elements below each other, ``[batch, 2]``."""
    batch = t.shape.dims[0]
    return e.reshape(e.dynamic_slice(t, (0, row, column), (batch, 2, 1)), (batch, 2))


def _turn(e: Emitter, x: Value, y: Value) -> Rotation:
    """The rotation that turns (x, y) into (r, 0); the identity if y is zero."""
    sizes = mx.magnitude(e, x), mx.magnitude(e, y)
    scale = mx.power_of_two_near(e, e.op("maximum", *sizes))
    first, second = (e.divide(size, scale) for size in sizes)
    norm = e.op("sqrt", e.add(e.multiply(first, first), e.multiply(second, second)))
    idle = e.compare("EQ", second, 0)
    norm = e.select(idle, 1, norm)
    c = e.select(idle, 1, e.divide(first, norm))
    flat = e.compare("EQ", first, 0)
    phase = e.divide(x, mx.as_type_of(e, e.select(flat, 1, sizes[0]), x))
    phase = e.select(flat, 1, phase)
    near = e.divide(e.conjugate(y), mx.as_type_of(e, e.multiply(scale, norm), y))
    return Rotation(mx.as_type_of(e, c, x), e.multiply(phase, near))


def rows_turned(e: Emitter, a: Value, turn: Rotation, k: Value) -> Value:
    """G A, for the rotation G of rows k and k + 1."""
    batch, _, n = a.shape.dims
    pair = e.dynamic_slice(a, (0, k, 0), (batch, 2, n))
    upper, lower = (e.reshape(e.slice_in(pair, 1, i, i + 1), (batch, n)) for i in (0, 1))
    c, s = (mx.spread(e, x, upper, 0) for x in turn)
    new_upper = e.add(e.multiply(c, upper), e.multiply(s, lower))
    new_lower = e.subtract(e.multiply(c, lower), e.multiply(e.conjugate(s), upper))
    rows = [e.reshape(x, (batch, 1, n)) for x in (new_upper, new_lower)]
    return e.dynamic_update_slice(a, e.concatenate(rows, 1), (0, k, 0))


def columns_turned(e: Emitter, a: Value, turn: Rotation, k: Value) -> Value:
    """A G*, for the rotation G of columns k and k + 1."""
    batch, n, _ = a.shape.dims
    pair = e.dynamic_slice(a, (0, 0, k), (batch, n, 2))
    left, right = (e.reshape(e.slice_in(pair, 2, i, i + 1), (batch, n)) for i in (0, 1))
    c, s = (mx.spread(e, x, left, 0) for x in turn)
    new_left = e.add(e.multiply(c, left), e.multiply(e.conjugate(s), right))
    new_right = e.subtract(e.multiply(c, right), e.multiply(s, left))
    columns = [e.reshape(x, (batch, n, 1)) for x in (new_left, new_right)]
    return e.dynamic_update_slice(a, e.concatenate(columns, 2), (0, 0, k))


def _with_zero(e: Emitter, t: Value, k: Value) -> Value:
    """The element that the rotation of rows k and k + 1 removed, two below the diagonal."""
    batch = t.shape.dims[0]
    left = e.elementwise("maximum", e.subtract(k, 1), 0)
    old = e.dynamic_slice(t, (0, e.add(k, 1), left), (batch, 1, 1))
    new = e.select(e.broadcast(e.compare("GT", k, 0), old.shape.dims, ()), e.full_like(old, 0), old)
    return e.dynamic_update_slice(t, new, (0, e.add(k, 1), left))
