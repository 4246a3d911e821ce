"""Vocabulary of matrix algorithms: stacks of matrices, their rows and columns, masks and lengths.

Matrices are ``[batch, m, n]``, vectors ``[batch, n]`` and scalars ``[batch]``. A row or column
number is one s32 for the whole stack, or one for each matrix, as said.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xladev.hlo import dtype as dt
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.ir import HloInstruction
from xladev.passes.expansions.emit import Emitter, Operand

Value = HloInstruction
_BITS = {dt.F32: dt.S32, dt.F64: dt.S64}
_EXPONENT_BITS = {dt.F32: 8, dt.F64: 11}
EPSILON = {dt.F32: 2.0**-23, dt.F64: 2.0**-52}
"""Distance from one to the next number."""
TINY = {dt.F32: 2.0**-126, dt.F64: 2.0**-1022}
"""The smallest normal number."""
LARGE = {dt.F32: 2.0**127, dt.F64: 2.0**1023}
"""The largest power of two."""
COMPLEX = {dt.F32: dt.C64, dt.F64: dt.C128}
"""The complex type of each real one."""


# Parts of matrices


def column(e: Emitter, a: Value, number: Operand) -> Value:
    """One column of every matrix."""
    batch, m, _ = a.shape.dims
    return e.reshape(e.dynamic_slice(a, (0, 0, number), (batch, m, 1)), (batch, m))


def row(e: Emitter, a: Value, number: Operand) -> Value:
    """One row of every matrix."""
    batch, _, n = a.shape.dims
    return e.reshape(e.dynamic_slice(a, (0, number, 0), (batch, 1, n)), (batch, n))


def element(e: Emitter, x: Value, number: Operand) -> Value:
    """One element of every vector."""
    batch = x.shape.dims[0]
    return e.reshape(e.dynamic_slice(x, (0, number), (batch, 1)), (batch,))


def with_column(e: Emitter, a: Value, new: Value, number: Operand) -> Value:
    """The matrices with one column replaced."""
    batch, m, _ = a.shape.dims
    return e.dynamic_update_slice(a, e.reshape(new, (batch, m, 1)), (0, 0, number))


def with_row(e: Emitter, a: Value, new: Value, number: Operand) -> Value:
    """The matrices with one row replaced."""
    batch, _, n = a.shape.dims
    return e.dynamic_update_slice(a, e.reshape(new, (batch, 1, n)), (0, number, 0))


def with_element(e: Emitter, x: Value, new: Value, number: Operand) -> Value:
    """The vectors with one element replaced."""
    return e.dynamic_update_slice(x, e.reshape(new, (x.shape.dims[0], 1)), (0, number))


def picked(e: Emitter, x: Value, at: Value) -> Value:
    """Row ``at`` of each matrix, or element ``at`` of each vector; ``at`` has one per matrix."""
    if x.shape.dims[0] == 1:
        dims = x.shape.dims[2:]
        start: list[Operand] = [0, e.reshape(at, ()), *[0] * len(dims)]
        return e.reshape(e.dynamic_slice(x, start, (1, 1, *dims)), (1, *dims))
    here = e.compare("EQ", e.iota(dt.S32, x.shape.dims, 1), spread(e, at, x, 0))
    chosen = e.select(here, x, 0)
    return e.reduce(chosen, (1,))


def rows_exchanged(e: Emitter, a: Value, chosen: Value, at: Operand) -> Value:
    """The matrices with row ``at`` and each one's row ``chosen`` exchanged."""
    here = e.compare("EQ", rows(e, a), spread(e, chosen, a, 0))
    swapped = e.select(here, across(e, row(e, a, at), a), a)
    return with_row(e, swapped, picked(e, a, chosen), at)


def elements_exchanged(e: Emitter, x: Value, chosen: Value, at: Operand) -> Value:
    """The vectors with element ``at`` and each one's element ``chosen`` exchanged."""
    dims = x.shape.dims
    return e.reshape(rows_exchanged(e, e.reshape(x, (*dims, 1)), chosen, at), dims)


def rows_at(e: Emitter, a: Value, order: Value) -> Value:
    """Row ``order[b, i]`` of matrix b as its row i."""
    batch, _, n = a.shape.dims
    return e.op(
        "gather", a, order,
        offset_dims=(2,), collapsed_slice_dims=(1,), start_index_map=(1,), index_vector_dim=2,
        operand_batching_dims=(0,), start_indices_batching_dims=(0,),
        slice_sizes=(min(batch, 1), 1, n),
    )  # fmt: skip


def elements_at(e: Emitter, x: Value, order: Value) -> Value:
    """Element ``order[b, i]`` of vector b as its element i."""
    batch, n = x.shape.dims
    return e.reshape(rows_at(e, e.reshape(x, (batch, n, 1)), order), order.shape.dims)


def diagonal(e: Emitter, a: Value, offset: int = 0) -> Value:
    """What is ``offset`` right of the diagonals, or left of them if it is negative.

    It is read as equal steps through the elements of a matrix, and not as all of a matrix under a
    mask.

    Args:
        e: where instructions go.
        a: ``[batch, m, n]``, which has such elements.
        offset: 0 for ``[batch, min(m, n)]``.
    """
    batch, m, n = a.shape.dims
    start, count = max(offset, -offset * n), min(m + min(offset, 0), n - max(offset, 0))
    flat = e.reshape(a, (batch, m * n))
    return e.slice_in(flat, 1, start, start + (count - 1) * (n + 1) + 1, n + 1)


def beside_diagonal(e: Emitter, a: Value, offset: int, dimension: int) -> Value:
    """Of square matrices what is ``offset`` right of the diagonal, ``[batch, n]``.

    Args:
        e: where instructions go.
        a: ``[batch, n, n]``, n more than the offset.
        offset: negative for what is left of it.
        dimension: 1 for the element of each row, 2 for that of each column; zero where it has none.
    """
    after = (offset > 0) == (dimension == 1)
    around = (0, abs(offset)) if after else (abs(offset), 0)
    return e.pad(diagonal(e, a, offset), ((0, 0, 0), (*around, 0)))


# Masks and spreading


def rows(e: Emitter, a: Value) -> Value:
    """The row number of every element, s32; of a vector, the number of the element."""
    return e.iota(dt.S32, a.shape.dims, 1)


def columns(e: Emitter, a: Value) -> Value:
    """The column number of every element, s32."""
    return e.iota(dt.S32, a.shape.dims, 2)


def spread(e: Emitter, x: Value, like: Value, *dims: int) -> Value:
    """``x`` repeated to the dimensions of ``like``; its dimension i becomes ``dims[i]``."""
    return e.broadcast(x, like.shape.dims, dims)


def down(e: Emitter, x: Value, like: Value) -> Value:
    """A vector as every column."""
    return spread(e, x, like, 0, 1)


def across(e: Emitter, x: Value, like: Value) -> Value:
    """A vector as every row."""
    return spread(e, x, like, 0, 2)


def both(e: Emitter, *conditions: Value) -> Value:
    """True where all conditions hold."""
    result = conditions[0]
    for condition in conditions[1:]:
        result = e.op("and", result, condition)
    return result


def eye(e: Emitter, element_type: PrimitiveType, dims: Sequence[int]) -> Value:
    """Ones on the diagonal."""
    like = e.full(0, element_type, dims)
    return e.select(e.compare("EQ", rows(e, like), columns(e, like)), e.full_like(like, 1), 0)


def lower_part(e: Emitter, a: Value, offset: int = 0) -> Value:
    """``a`` with zeros above diagonal number ``offset``."""
    limit = e.add(rows(e, a), offset)
    return e.select(e.compare("LE", columns(e, a), limit), a, 0)


def upper_part(e: Emitter, a: Value, offset: int = 0) -> Value:
    """``a`` with zeros below diagonal number ``offset``."""
    limit = e.add(rows(e, a), offset)
    return e.select(e.compare("GE", columns(e, a), limit), a, 0)


def hermitian(e: Emitter, a: Value, *, lower: bool) -> Value:
    """The Hermitian matrix of a triangle; imaginary parts of the diagonal count for nothing."""
    row, column = rows(e, a), columns(e, a)
    real = as_type_of(e, e.real(a), a)
    given = e.compare("LT" if lower else "GT", column, row)
    other = e.select(e.compare("EQ", column, row), real, adjoint(e, a))
    return e.select(given, a, other)


# Products


def adjoint(e: Emitter, a: Value) -> Value:
    """Conjugate transpose."""
    return e.swap_last(e.conjugate(a))


def outer(e: Emitter, x: Value, y: Value) -> Value:
    """``x[i] y[j]``."""
    dims = (*x.shape.dims, y.shape.dims[1])
    return e.multiply(e.broadcast(x, dims, (0, 1)), e.broadcast(y, dims, (0, 2)))


def times_column(e: Emitter, a: Value, x: Value) -> Value:
    """A x."""
    batch, n = x.shape.dims
    return e.reshape(e.matmul(a, e.reshape(x, (batch, n, 1))), a.shape.dims[:2])


def row_times(e: Emitter, x: Value, a: Value) -> Value:
    """The row vector x times A, without conjugation."""
    batch, m = x.shape.dims
    product = e.matmul(e.reshape(x, (batch, 1, m)), a)
    return e.reshape(product, (batch, a.shape.dims[2]))


def complex_product(e: Emitter, x: Value, y: Value) -> Value:
    """A product of complex matrices, as one product of real ones: [re x; im x] [re y, im y]."""
    m, n = x.shape.dims[1], y.shape.dims[2]
    left, right = (
        e.concatenate((e.op("real", a), e.op("imag", a)), dimension)
        for a, dimension in ((x, 1), (y, 2))
    )
    whole = e.matmul(left, right)
    upper, lower = (e.slice_in(whole, 1, i * m, i * m + m) for i in (0, 1))
    real, cross = (e.slice_in(upper, 2, i * n, i * n + n) for i in (0, 1))
    other, square = (e.slice_in(lower, 2, i * n, i * n + n) for i in (0, 1))
    return e.op("complex", e.subtract(real, square), e.add(cross, other))


def straightened(e: Emitter, rows: Value) -> Value:
    """Nearly orthonormal rows as columns that are so to a few roundings.

    Hundreds of rotations, each rounded, leave errors that grow with the root of their number. One
    step of Newton and Schulz, C (3 - C* C) / 2, squares them.
    """
    columns = e.swap_last(rows)
    gram = e.matmul(e.conjugate(rows), columns)
    unit = eye(e, rows.shape.element_type, gram.shape.dims)
    near = e.subtract(e.multiply(unit, 1.5), e.multiply(gram, 0.5))
    return e.matmul(columns, near)


# Numbers


def first_largest(e: Emitter, sizes: Value) -> Value:
    """Number of the first largest element of each vector, s32; NaN counts as largest."""
    n = sizes.shape.dims[1]
    most = e.reduce(sizes, (1,), "maximum", float("-inf"))
    nan = e.compare("NE", sizes, sizes)
    found = e.op("or", nan, e.compare("EQ", sizes, spread(e, most, sizes, 0)))
    number = e.select(found, rows(e, sizes), n - 1)
    return e.reduce(number, (1,), "minimum", n - 1)


def is_negative(e: Emitter, x: Value) -> Value:
    """True for numbers with a minus sign, -0 among them."""
    return e.compare("LT", e.bitcast_convert(x, _BITS[x.shape.element_type]), 0)


def as_type_of(e: Emitter, x: Value, like: Value) -> Value:
    """``x`` in the element type of ``like``."""
    return e.convert(x, like.shape.element_type)


def magnitude(e: Emitter, x: Value) -> Value:
    """Absolute value, real."""
    return e.op("abs", x)


def size(e: Emitter, x: Value) -> Value:
    """|re| + |im|, which LAPACK compares where any measure of size will do."""
    if not x.shape.element_type.is_complex:
        return magnitude(e, x)
    return e.add(magnitude(e, e.op("real", x)), magnitude(e, e.op("imag", x)))


def square_magnitude(e: Emitter, x: Value) -> Value:
    """|x| squared, real."""
    if not x.shape.element_type.is_complex:
        return e.multiply(x, x)
    real, imaginary = e.op("real", x), e.op("imag", x)
    return e.add(e.multiply(real, real), e.multiply(imaginary, imaginary))


def power_of_two_near(e: Emitter, x: Value) -> Value:
    """The normal power of two next to each number above zero; one for zero and NaN."""
    kind = x.shape.element_type
    near = e.op("reduce-precision", x, exponent_bits=_EXPONENT_BITS[kind], mantissa_bits=0)
    near = e.elementwise("minimum", e.elementwise("maximum", near, TINY[kind]), LARGE[kind])
    return e.select(e.compare("GT", x, 0), near, 1)


def scale_of(e: Emitter, x: Value) -> Value:
    """Per matrix or vector, a power of two near its largest element, ``[batch]``."""
    dims = tuple(range(1, x.shape.rank))
    return power_of_two_near(e, e.reduce(magnitude(e, x), dims, "maximum", 0))


def lengths(e: Emitter, a: Value) -> Value:
    """Euclidean length of every row of matrices, real ``[batch, m]``, or of every vector.

    No square overflows or vanishes.
    """
    last = a.shape.rank - 1
    scale = power_of_two_near(e, e.reduce(magnitude(e, a), (last,), "maximum", 0))
    near = e.divide(a, as_type_of(e, spread(e, scale, a, *range(last)), a))
    return e.multiply(e.op("sqrt", e.reduce(square_magnitude(e, near), (last,))), scale)


def scaled(e: Emitter, x: Value, by: Value, opcode: str = "divide") -> Value:
    """``x`` divided (or multiplied) by a real number per matrix."""
    return e.op(opcode, x, as_type_of(e, spread(e, by, x, 0), x))


def all_finite(e: Emitter, x: Value) -> Value:
    """Per matrix, whether it has neither infinities nor NaN, pred ``[batch]``."""
    finite = e.op("is-finite", e.real(x))
    if x.shape.element_type.is_complex:
        finite = both(e, finite, e.op("is-finite", e.op("imag", x)))
    return e.reduce(finite, tuple(range(1, x.shape.rank)), "and", True)


def nan_unless(e: Emitter, good: Value, x: Value) -> Value:
    """``x``, all NaN for the matrices that are not ``good``."""
    nan: Any = float("nan")
    return e.select(spread(e, good, x, 0), x, nan)


def zero_unless(e: Emitter, good: Value, x: Value) -> Value:
    """``x``, all zero for the matrices that are not ``good``."""
    return e.select(spread(e, good, x, 0), x, 0)
