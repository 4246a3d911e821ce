"""Eigenvalues of Hermitian matrices and singular values, by Jacobi rotations of column pairs.

A sweep rotates every pair of columns once: the columns lie in two halves, column i of one is paired
with column i of the other, and between steps the columns move on by one place as the players of a
round-robin tournament do (Brent and Luk 1985). All pairs of a step are rotated at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import ml_dtypes

from xladev.hlo import dtype as dt
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.ir import HloComputation, HloInstruction
from xladev.hlo.shape import array
from xladev.passes.expansions.emit import Emitter, Values
from xladev.passes.expansions.factor import householder_product, identity, qr_factor

_MOST_SWEEPS = 20


class _Rotation(NamedTuple):
    """Columns p and q become ``c p - s conj(w) q`` and ``s p + c conj(w) q``; c, s real."""

    c: HloInstruction
    s: HloInstruction
    w: HloInstruction


def _rotation(
    e: Emitter, first: HloInstruction, second: HloInstruction, product: HloInstruction
) -> _Rotation:
    """The rotation that makes ``[[first, product], [conj(product), second]]`` diagonal.

    Args:
        e: receives the instructions.
        first, second: real diagonal elements.
        product: the element beside the diagonal, of the matrices' type.
    """
    size = e.convert(e.op("abs", product), first.shape.element_type)
    nothing = e.compare("EQ", size, 0)
    safe = e.select(nothing, e.full_like(size, 1), size)
    tau = e.divide(e.subtract(second, first), e.multiply(safe, 2))
    root = e.op("sqrt", e.add(e.multiply(tau, tau), 1))
    t = e.divide(1, e.add(e.op("abs", tau), root))
    t = e.select(e.compare("LT", tau, 0), e.op("negate", t), t)
    t = e.select(nothing, e.full_like(t, 0), t)
    c = e.op("rsqrt", e.add(e.multiply(t, t), 1))
    element_type = product.shape.element_type
    phase = e.divide(product, e.convert(safe, element_type))
    w = e.select(nothing, e.full_like(phase, 1), phase)
    return _Rotation(c, e.multiply(t, c), w)


def _rotated(
    e: Emitter, left: HloInstruction, right: HloInstruction, r: _Rotation
) -> tuple[HloInstruction, HloInstruction]:
    """Two halves of columns ``[batch..., rows, h]`` after the rotation ``[batch..., h]``."""
    dims, element_type = left.shape.dims, left.shape.element_type
    rank = len(dims)
    at = (*range(rank - 2), rank - 1)
    c, s = (e.broadcast(e.convert(x, element_type), dims, at) for x in (r.c, r.s))
    turned = e.multiply(right, e.broadcast(e.conjugate(r.w), dims, at))
    first = e.subtract(e.multiply(c, left), e.multiply(s, turned))
    return first, e.add(e.multiply(s, left), e.multiply(c, turned))


def _moved_on(
    e: Emitter, left: HloInstruction, right: HloInstruction, axis: int
) -> tuple[HloInstruction, HloInstruction]:
    """The two halves after everybody but the first has moved on by one place."""
    h = left.shape.dims[axis]
    if h == 1:
        return left, right
    new_left = [
        e.slice_in(left, axis, 0, 1),
        e.slice_in(right, axis, 0, 1),
        e.slice_in(left, axis, 1, h - 1),
    ]
    new_right = [e.slice_in(right, axis, 1, h), e.slice_in(left, axis, h - 1, h)]
    kept = [part for part in new_left if part.shape.dims[axis]]
    return e.concatenate(kept, axis), e.concatenate(new_right, axis)


def _halves(e: Emitter, x: HloInstruction, axis: int) -> tuple[HloInstruction, HloInstruction]:
    size = x.shape.dims[axis]
    return e.slice_in(x, axis, 0, size // 2), e.slice_in(x, axis, size // 2, size)


def _even(e: Emitter, x: HloInstruction, *axes: int) -> HloInstruction:
    """``x`` with a zero at the end of dimensions of odd size."""
    rank = x.shape.rank
    odd = {a % rank for a in axes if x.shape.dims[a] % 2}
    return e.pad(x, [(0, 1 if d in odd else 0, 0) for d in range(rank)])


def _sweeps(
    e: Emitter,
    state: Values,
    columns: int,
    step: Callable[[Emitter, list[HloInstruction]], tuple[list[HloInstruction], HloInstruction]],
    tolerance: float,
    element_type: PrimitiveType,
) -> list[HloInstruction]:
    """Repeats sweeps of ``columns - 1`` steps until the largest error of one is small.

    Args:
        e: receives the loop.
        state: values before the first step.
        columns: how many, an even number.
        step: gives the next state, and the error that it found (a scalar).
        tolerance: errors up to this are small.
        element_type: of the error.
    """

    def again(e: Emitter, values: list[HloInstruction]) -> HloInstruction:
        few = e.compare("LT", values[0], _MOST_SWEEPS)
        return e.op("and", few, e.compare("GT", values[1], tolerance))

    def sweep(e: Emitter, values: list[HloInstruction]) -> Values:
        def one(e: Emitter, _: HloInstruction, held: list[HloInstruction]) -> Values:
            worst, *rest = held
            after, error = step(e, rest)
            return e.elementwise("maximum", worst, error), *after

        made = e.repeat(columns - 1, (e.scalar(0, element_type), *values[2:]), one)
        return e.add(values[0], 1), *made

    start = e.scalar(0, dt.S32), e.scalar(float("inf"), element_type)
    return e.while_loop((*start, *state), again, sweep)[2:]


def _all_finite(e: Emitter, x: HloInstruction) -> HloInstruction:
    """Per matrix, whether every element is finite; ``[batch...]``."""
    finite = e.op("is-finite", e.real(x))
    if x.shape.element_type.is_complex:
        finite = e.op("and", finite, e.op("is-finite", e.op("imag", x)))
    return e.reduce(finite, (-1, -2), "and", True)


def _largest(e: Emitter, x: HloInstruction) -> HloInstruction:
    """Per matrix the largest absolute value, 1 where it is 0 or not finite; ``[batch...]``."""
    component = x.shape.element_type.component
    size = e.reduce(e.convert(e.op("abs", x), component), (-1, -2), "maximum", 0)
    usable = e.op("and", e.compare("GT", size, 0), e.op("is-finite", size))
    return e.select(usable, size, e.full_like(size, 1))


def _scaled(
    e: Emitter, x: HloInstruction, by: HloInstruction, opcode: str = "divide"
) -> HloInstruction:
    batch = by.shape.rank
    factor = e.convert(by, x.shape.element_type)
    return e.op(opcode, x, e.broadcast(factor, x.shape.dims, tuple(range(batch))))


def epsilon(element_type: PrimitiveType) -> float:
    """Machine epsilon of a type, or of its parts."""
    return float(ml_dtypes.finfo(element_type.component.np).eps)


def _in_order(e: Emitter, keys: HloInstruction, columns: HloInstruction) -> HloInstruction:
    """``[batch..., rows, n]`` with columns sorted by their keys ``[batch..., n]``."""
    dims = columns.shape.dims
    rank = len(dims)
    spread = e.broadcast(keys, dims, (*range(rank - 2), rank - 1))
    comparator = _comparator(keys.shape.element_type, columns.shape.element_type)
    made = e.op("sort", spread, columns, dimensions=(rank - 1,), is_stable=True,
                to_apply=comparator)  # fmt: skip
    return e.parts(made)[1]


def _comparator(key: PrimitiveType, value: PrimitiveType) -> HloComputation:
    e = Emitter("ascending")
    a, b = e.parameter(array(key)), e.parameter(array(key))
    e.parameter(array(value))
    e.parameter(array(value))
    return e.build(e.compare("LT", a, b))


def _sorted(e: Emitter, keys: HloInstruction) -> HloInstruction:
    first = Emitter("ascending.keys")
    shape = array(keys.shape.element_type)
    comparator = first.build(first.compare("LT", first.parameter(shape), first.parameter(shape)))
    return e.op("sort", keys, dimensions=(keys.shape.rank - 1,), to_apply=comparator)


# Hermitian matrices


def hermitian_eigen(
    e: Emitter, a: HloInstruction, lower: bool
) -> tuple[HloInstruction, HloInstruction, HloInstruction]:
    """Eigenvectors as columns, ascending eigenvalues, and per matrix whether all is finite.

    Args:
        e: receives the instructions.
        a: ``[batch..., n, n]``, n at least 1.
        lower: which triangle is read.
    """
    n, batch = a.shape.dims[-1], a.shape.dims[:-2]
    whole = _mirrored(e, a, lower)
    finite, scale = _all_finite(e, whole), _largest(e, whole)
    matrix = _even(e, _scaled(e, whole, scale), -1, -2)
    size = matrix.shape.dims[-1]
    vectors = _even(e, identity(e, a.shape.element_type, batch, n, n), -1)
    numbers = e.iota(dt.S32, (size,), 0)
    top, bottom = _halves(e, matrix, -2)
    state = [
        *_halves(e, top, -1), *_halves(e, bottom, -1), *_halves(e, vectors, -1),
        *_halves(e, numbers, 0),
    ]  # fmt: skip
    component = a.shape.element_type.component
    tolerance = epsilon(component) * size**0.5
    final = _sweeps(e, state, size, _eigen_step, tolerance, component)
    values = e.concatenate([_diagonal(e, final[0]), _diagonal(e, final[3])], -1)
    columns = e.concatenate(final[4:6], -1)
    dummy = e.compare("GE", e.concatenate(final[6:8], 0), n)
    rank = len(batch)
    keys = e.select(e.broadcast(dummy, values.shape.dims, (rank,)), float("inf"), values)
    ordered = e.slice_in(_sorted(e, keys), -1, 0, n)
    columns = e.slice_in(_in_order(e, keys, columns), -1, 0, n)
    return columns, _scaled(e, ordered, scale, "multiply"), finite


def _mirrored(e: Emitter, a: HloInstruction, lower: bool) -> HloInstruction:
    """The Hermitian matrix of which one triangle is given."""
    row, column = e.iota(dt.S32, a.shape.dims, -2), e.iota(dt.S32, a.shape.dims, -1)
    given = e.compare("GE" if lower else "LE", row, column)
    whole = e.select(given, a, e.conjugate(e.swap_last(a)))
    if not a.shape.element_type.is_complex:
        return whole
    real = e.convert(e.op("real", whole), a.shape.element_type)
    return e.select(e.compare("EQ", row, column), real, whole)


def _diagonal(e: Emitter, x: HloInstruction) -> HloInstruction:
    """Real parts of the diagonal, ``[batch..., h]``."""
    row, column = e.iota(dt.S32, x.shape.dims, -2), e.iota(dt.S32, x.shape.dims, -1)
    return e.reduce(e.select(e.compare("EQ", row, column), e.real(x), 0), (-1,))


def _beside(e: Emitter, x: HloInstruction) -> HloInstruction:
    row, column = e.iota(dt.S32, x.shape.dims, -2), e.iota(dt.S32, x.shape.dims, -1)
    return e.reduce(e.select(e.compare("EQ", row, column), x, 0), (-1,))


def _eigen_step(
    e: Emitter, state: list[HloInstruction]
) -> tuple[list[HloInstruction], HloInstruction]:
    """Rotates all pairs of rows and columns, and moves them on."""
    a, b, c, d, left, right, first, second = state
    product = _beside(e, b)
    error = e.reduce(e.real(e.op("abs", product)), range(product.shape.rank), "maximum", 0)
    r = _rotation(e, _diagonal(e, a), _diagonal(e, d), product)
    a, b = _rotated(e, a, b, r)
    c, d = _rotated(e, c, d, r)
    a, c = _rotated_rows(e, a, c, r)
    b, d = _rotated_rows(e, b, d, r)
    b, c = _without_diagonal(e, b), _without_diagonal(e, c)
    left, right = _rotated(e, left, right, r)
    a, b = _moved_on(e, a, b, a.shape.rank - 1)
    c, d = _moved_on(e, c, d, a.shape.rank - 1)
    a, c = _moved_on(e, a, c, a.shape.rank - 2)
    b, d = _moved_on(e, b, d, a.shape.rank - 2)
    left, right = _moved_on(e, left, right, a.shape.rank - 1)
    first, second = _moved_on(e, first, second, 0)
    return [a, b, c, d, left, right, first, second], error


def _rotated_rows(
    e: Emitter, upper: HloInstruction, lower: HloInstruction, r: _Rotation
) -> tuple[HloInstruction, HloInstruction]:
    conjugate = _Rotation(r.c, r.s, e.conjugate(r.w))
    halves = _rotated(e, e.swap_last(upper), e.swap_last(lower), conjugate)
    return e.swap_last(halves[0]), e.swap_last(halves[1])


def _without_diagonal(e: Emitter, x: HloInstruction) -> HloInstruction:
    """``x`` with exact zeros where the rotation made them up to rounding."""
    row, column = e.iota(dt.S32, x.shape.dims, -2), e.iota(dt.S32, x.shape.dims, -1)
    return e.select(e.compare("EQ", row, column), 0, x)


# Singular values


class Svd(NamedTuple):
    """A = U diag(s) V*.

    Attributes:
        u: ``[batch..., m, m or k]``.
        s: descending, ``[batch..., k]``, k = min(m, n).
        vh: V*, ``[batch..., n or k, n]``.
        finite: per matrix whether all its elements are.
    """

    u: HloInstruction
    s: HloInstruction
    vh: HloInstruction
    finite: HloInstruction


def singular_values(e: Emitter, a: HloInstruction, full: bool) -> Svd:
    """Singular values and vectors; all vectors if ``full``, else min(m, n) of each."""
    rows, columns = a.shape.dims[-2:]
    if rows < columns:
        turned = singular_values(e, e.conjugate(e.swap_last(a)), full)
        adjoint = [e.conjugate(e.swap_last(x)) for x in (turned.u, turned.vh)]
        return Svd(adjoint[1], turned.s, adjoint[0], turned.finite)
    finite, scale = _all_finite(e, a), _largest(e, a)
    batch, component = a.shape.dims[:-2], a.shape.element_type.component
    matrix = _even(e, _scaled(e, a, scale), -1)
    size = matrix.shape.dims[-1]
    vectors = _even(e, identity(e, a.shape.element_type, batch, columns, columns), -1)
    numbers = e.iota(dt.S32, (size,), 0)
    state = [*_halves(e, matrix, -1), *_halves(e, vectors, -1), *_halves(e, numbers, 0)]
    tolerance = epsilon(component) * rows**0.5
    final = _sweeps(e, state, size, _singular_step, tolerance, component)
    products, v = e.concatenate(final[0:2], -1), e.concatenate(final[2:4], -1)
    lengths = e.op("sqrt", e.reduce(_squares(e, products), (-2,)))
    dummy = e.compare("GE", e.concatenate(final[4:6], 0), columns)
    falling = e.op("negate", lengths)
    keys = e.select(e.broadcast(dummy, lengths.shape.dims, (len(batch),)), 1, falling)
    s = e.op("negate", e.slice_in(_sorted(e, keys), -1, 0, columns))
    products = e.slice_in(_in_order(e, keys, products), -1, 0, columns)
    v = e.slice_in(_in_order(e, keys, v), -1, 0, columns)
    u = _left_vectors(e, products, rows if full else columns)
    return Svd(u, _scaled(e, s, scale, "multiply"), e.conjugate(e.swap_last(v)), finite)


def _squares(e: Emitter, x: HloInstruction) -> HloInstruction:
    size = e.real(e.op("abs", x))
    return e.multiply(size, size)


def _singular_step(
    e: Emitter, state: list[HloInstruction]
) -> tuple[list[HloInstruction], HloInstruction]:
    """Makes the columns of each pair orthogonal, and moves them on."""
    left, right, v_left, v_right, first, second = state
    alpha, beta = (e.reduce(_squares(e, x), (-2,)) for x in (left, right))
    product = e.reduce(e.multiply(e.conjugate(left), right), (-2,))
    size = e.real(e.op("abs", product))
    limit = e.op("sqrt", e.multiply(alpha, beta))
    nothing = e.compare("EQ", limit, 0)
    ratio = e.divide(size, e.select(nothing, e.full_like(limit, 1), limit))
    error = e.reduce(ratio, range(ratio.shape.rank), "maximum", 0)
    r = _rotation(e, alpha, beta, product)
    left, right = _rotated(e, left, right, r)
    v_left, v_right = _rotated(e, v_left, v_right, r)
    axis = left.shape.rank - 1
    left, right = _moved_on(e, left, right, axis)
    v_left, v_right = _moved_on(e, v_left, v_right, axis)
    first, second = _moved_on(e, first, second, 0)
    return [left, right, v_left, v_right, first, second], error


def _left_vectors(e: Emitter, products: HloInstruction, count: int) -> HloInstruction:
    """Orthonormal columns along those of ``products``, completed to ``count``."""
    packed, taus = qr_factor(e, products)
    q = householder_product(e, packed, taus, count)
    columns = products.shape.dims[-1]
    square = e.slice_in(packed, -2, 0, columns)
    negative = e.compare("LT", _diagonal(e, square), 0)
    if count > columns:
        rank = negative.shape.rank
        grown = e.convert(negative, dt.S32)
        grown = e.pad(grown, [*((0, 0, 0),) * (rank - 1), (0, count - columns, 0)])
        negative = e.compare("NE", grown, 0)
    rank = q.shape.rank
    flags = e.broadcast(negative, q.shape.dims, (*range(rank - 2), rank - 1))
    return e.select(flags, e.op("negate", q), q)
