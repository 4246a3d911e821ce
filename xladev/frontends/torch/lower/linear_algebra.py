"""Decompositions and solutions of systems, by the calls that every platform takes or expands."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from xladev.frontends.torch.lower.elementwise import conjugate
from xladev.frontends.torch.lower.indexing import points
from xladev.frontends.torch.lower.table import Family
from xladev.frontends.torch.lower.value import TensorBuilder, Value
from xladev.frontends.torch.lower.views import diagonal, diagonal_mask
from xladev.hlo import dtype as dt
from xladev.hlo.ir import Annotations
from xladev.hlo.shape import Shape, array, tuple_of

LINEAR_ALGEBRA = Family("linear_algebra", "Decompositions and solutions of systems.")
_lowers = LINEAR_ALGEBRA.lowers


def call(target: str, operands: Sequence[Value], shapes: Sequence[Shape], config: str = "") -> Any:
    """The results of a custom call."""
    b = operands[0].builder
    shape = shapes[0] if len(shapes) == 1 else tuple_of(*shapes)
    made = b.op(
        "custom-call",
        *(o.node for o in operands),
        shape=shape,
        custom_call_target=target,
        note=Annotations(backend_config=config),
    )
    return (b.wrap(made),) if len(shapes) == 1 else b.parts(made)


def adjoint(x: Value) -> Value:
    """Rows and columns exchanged, and conjugated."""
    return conjugate(turned(x))


def turned(x: Value) -> Value:
    """Rows and columns exchanged."""
    return x.transpose((*range(x.rank - 2), x.rank - 1, x.rank - 2))


def product(x: Value, y: Value) -> Value:
    """Products of matrices of the same batch."""
    batch = x.rank - 2
    return x.dot(y, (x.rank - 1,), (batch,), batch)


def triangle(x: Value, *, lower: bool, offset: int = 0) -> Value:
    """What is on a diagonal and below, or above; zeros elsewhere."""
    b, dims = x.builder, x.dims[-2:]
    row, column = b.iota(dt.S32, dims, 0), b.iota(dt.S32, dims, 1)
    mask = column.le(row + offset) if lower else column.ge(row + offset)
    return mask.expand(x.dims).where(x, 0)


def identity(x: Value) -> Value:
    """The identity in the sizes of a stack of matrices."""
    return diagonal_mask(x.builder, *x.dims[-2:]).cast(x.dtype).expand(x.dims)


def batched(x: Value, dims: tuple[int, ...]) -> Value:
    """A stack of matrices repeated for a larger batch."""
    return x.expand((*dims, *x.dims[-2:]))


def solve_triangular(
    a: Value, y: Value, *, lower: bool, left: bool = True, unit: bool = False, turn: str = "N"
) -> Value:
    """x of a x = y, or of x a = y, for a triangular a."""
    turns = {"N": "NO_TRANSPOSE", "T": "TRANSPOSE", "C": "ADJOINT"}
    return a.op(
        "triangular-solve",
        y,
        left_side=left,
        lower=lower,
        unit_diagonal=unit,
        transpose_a=turns[turn],
    )


# Cholesky


def cholesky(x: Value, *, upper: bool = False) -> Value:
    """The factor of a positive definite matrix; NaN where it is none."""
    source = adjoint(x) if upper else x
    factor = triangle(source.op("cholesky", lower=True), lower=True)
    return adjoint(factor) if upper else factor


def failed(x: Value) -> Value:
    """For each matrix, s32: whether it holds a NaN."""
    axes = (x.rank - 2, x.rank - 1)
    return x.is_nan().reduce("or", False, axes).cast(dt.S32)


@_lowers("cholesky.default")
def _cholesky(b: TensorBuilder, out: Shape, x: Value, upper: bool = False) -> Value:
    """The factor of a positive definite matrix."""
    return cholesky(x, upper=upper)


@_lowers("linalg_cholesky_ex.default", sample="linalg.cholesky_ex")
def _cholesky_ex(
    b: TensorBuilder,
    out: Sequence[Shape],
    x: Value,
    *,
    upper: bool = False,
    check_errors: bool = False,
) -> list[Value]:
    """The factor of a positive definite matrix, and 1 where it is none."""
    factor = cholesky(x, upper=upper)
    return [factor, failed(factor)]


@_lowers("cholesky_solve.default")
def _cholesky_solve(
    b: TensorBuilder, out: Shape, y: Value, factor: Value, upper: bool = False
) -> Value:
    """The solution of a system of which the factor is known."""
    batch = out.dims[:-2]
    a, right = batched(factor, batch), batched(y, batch)
    first, second = ("C", "N") if upper else ("N", "C")
    half = solve_triangular(a, right, lower=not upper, turn=first)
    return solve_triangular(a, half, lower=not upper, turn=second)


@_lowers("cholesky_inverse.default")
def _cholesky_inverse(b: TensorBuilder, out: Shape, x: Value, upper: bool = False) -> Value:
    """The inverse of a matrix of which the factor is known."""
    return _cholesky_solve(b, out, identity(x), x, upper)


# LU


def lu(x: Value) -> tuple[Value, Value, Value]:
    """Packed factors; exchanged rows, from 0; the permutation of rows."""
    rows, columns = x.dims[-2:]
    batch = x.dims[:-2]
    shapes = (
        x.node.shape,
        array(dt.S32, (*batch, min(rows, columns))),
        array(dt.S32, (*batch, rows)),
    )
    packed, pivots, order = call("LuDecomposition", [x], shapes)
    return packed, pivots, order


def zero_pivot(packed: Value) -> Value:
    """The number, from 1, of the first zero on the diagonal; 0 if there is none."""
    size = min(packed.dims[-2:])
    on_diagonal = diagonal(packed, 0, packed.rank - 2, packed.rank - 1, (*packed.dims[:-2], size))
    number = packed.builder.iota(dt.S32, on_diagonal.dims, on_diagonal.rank - 1) + 1
    first = (
        on_diagonal.eq(0)
        .where(number, size + 1)
        .reduce("minimum", size + 1, (on_diagonal.rank - 1,))
    )
    return first.gt(size).where(0, first)


def unpacked(packed: Value) -> tuple[Value, Value]:
    """L with ones on its diagonal, and U."""
    rows, columns = packed.dims[-2:]
    k = min(rows, columns)
    last = packed.rank - 1
    low = triangle(packed.slice(last, 0, k), lower=True, offset=-1)
    eye = diagonal_mask(packed.builder, rows, k).cast(packed.dtype)
    return low + eye, triangle(packed.slice(last - 1, 0, k), lower=False)


def permutation_matrix(order: Value, to: Any) -> Value:
    """P of P L U: row ``order[i]`` holds the i-th row."""
    size = order.dims[-1]
    dims = (*order.dims, size)
    rows = order.builder.iota(dt.S32, dims, len(dims) - 2)
    chosen = order.cast(dt.S32).place(dims, [*range(order.rank - 1), order.rank])
    return rows.eq(chosen).cast(to)


@_lowers("linalg_lu_factor_ex.default", sample="linalg.lu_factor_ex")
def _lu_factor_ex(
    b: TensorBuilder,
    out: Sequence[Shape],
    x: Value,
    *,
    pivot: bool = True,
    check_errors: bool = False,
) -> list[Value]:
    """Packed LU factors, exchanged rows from 1, and the first zero pivot."""
    packed, pivots, _ = lu(x)
    return [packed, pivots + 1, zero_pivot(packed)]


@_lowers("linalg_lu.default", sample="linalg.lu")
def _lu(b: TensorBuilder, out: Sequence[Shape], x: Value, *, pivot: bool = True) -> list[Value]:
    """P, L and U."""
    packed, _, order = lu(x)
    return [permutation_matrix(order, x.dtype), *unpacked(packed)]


def order_of(pivots: Value, rows: int) -> Value:
    """The permutation that exchanges of rows, from 1, make; s32."""
    b = pivots.builder
    dims = (*pivots.dims[:-1], rows)
    last = len(dims) - 1
    order = b.iota(dt.S32, dims, last)
    at = b.iota(dt.S32, dims, last)
    for k in range(pivots.dims[-1]):
        other = pivots.slice(last, k, k + 1).cast(dt.S32) - 1
        mine = order.slice(last, k, k + 1)
        theirs = at.eq(other).where(order, 0).sum((last,), keep=True)
        order = at.eq(k).where(theirs, at.eq(other).where(mine, order))
    return order


@_lowers("lu_unpack.default")
def _lu_unpack(
    b: TensorBuilder,
    out: Sequence[Shape],
    packed: Value,
    pivots: Value,
    unpack_data: bool = True,
    unpack_pivots: bool = True,
) -> list[Value]:
    """P, L and U of packed factors."""
    empty = b.full(0, packed.dtype, (0,))
    p = permutation_matrix(order_of(pivots, packed.dims[-2]), packed.dtype)
    low, high = unpacked(packed)
    return [
        p if unpack_pivots else empty,
        low if unpack_data else empty,
        high if unpack_data else empty,
    ]


def lu_solve(packed: Value, order: Value, y: Value, *, turn: str = "N") -> Value:
    """x of a x = y, or of a^T x = y, for packed factors and the permutation of rows."""
    if turn == "N":
        half = solve_triangular(packed, _rows(y, order), lower=True, unit=True)
        return solve_triangular(packed, half, lower=False)
    half = solve_triangular(packed, y, lower=False, turn=turn)
    half = solve_triangular(packed, half, lower=True, unit=True, turn=turn)
    return product(permutation_matrix(order, y.dtype), half)


def _rows(y: Value, order: Value) -> Value:
    """Rows of each matrix in an order."""
    if not y.size:
        return y
    index = order.cast(dt.S64).place(y.dims, range(y.rank - 1))
    every = tuple(range(y.rank))
    return y.op(
        "gather",
        points(index, y.rank - 2),
        offset_dims=(),
        collapsed_slice_dims=every,
        start_index_map=every,
        index_vector_dim=y.rank,
        slice_sizes=(1,) * y.rank,
    )


@_lowers("linalg_lu_solve.default", sample="linalg.lu_solve")
def _lu_solve(
    b: TensorBuilder,
    out: Shape,
    packed: Value,
    pivots: Value,
    y: Value,
    *,
    left: bool = True,
    adjoint: bool = False,
) -> Value:
    """The solution of a system of which the LU factors are known."""
    batch = out.dims[:-2]
    factors = batched(packed, batch)
    order = order_of(pivots, packed.dims[-2]).expand((*batch, packed.dims[-2]))
    right = batched(y, batch)
    if left:
        return lu_solve(factors, order, right, turn="C" if adjoint else "N")
    if not adjoint:
        return turned(lu_solve(factors, order, turned(right), turn="T"))
    whole = conjugate(turned(right))
    return conjugate(turned(lu_solve(factors, order, whole)))


@_lowers("_linalg_solve_ex.default", sample="linalg.solve_ex")
def _solve_ex(
    b: TensorBuilder,
    out: Sequence[Shape],
    a: Value,
    y: Value,
    *,
    left: bool = True,
    check_errors: bool = False,
) -> list[Value]:
    """The solution of a system, its LU factors, exchanged rows, and the first zero pivot."""
    packed, pivots, order = lu(a)
    is_vector = y.rank == 1 or (y.rank == a.rank - 1 and y.dims == a.dims[:-1])
    right = y.reshape((*y.dims, 1)) if is_vector else y
    batch = out[0].dims[:-1] if is_vector else out[0].dims[:-2]
    batch = batch[:-1] if is_vector else batch
    factors, rows = batched(packed, batch), order.expand((*batch, a.dims[-1]))
    wide = batched(right, batch)
    if left:
        found = lu_solve(factors, rows, wide)
    else:
        found = turned(lu_solve(factors, rows, turned(wide), turn="T"))
    return [found.reshape(out[0].dims), packed, pivots + 1, zero_pivot(packed)]


@_lowers("linalg_inv_ex.default", sample="linalg.inv_ex")
def _inv_ex(
    b: TensorBuilder, out: Sequence[Shape], x: Value, *, check_errors: bool = False
) -> list[Value]:
    """The inverse, and the first zero pivot."""
    packed, _, order = lu(x)
    return [lu_solve(packed, order, identity(x)), zero_pivot(packed)]


def determinant_parts(x: Value) -> tuple[Value, Value, Value, Value]:
    """The diagonal of U, the sign of the permutation, packed factors, exchanged rows."""
    packed, pivots, _ = lu(x)
    size = x.dims[-1]
    on_diagonal = diagonal(packed, 0, x.rank - 2, x.rank - 1, (*x.dims[:-2], size))
    own = x.builder.iota(dt.S32, pivots.dims, pivots.rank - 1)
    swaps = pivots.ne(own).cast(dt.S32).sum((pivots.rank - 1,))
    sign = 1 - (swaps & 1) * 2
    return on_diagonal, sign.cast(x.dtype), packed, pivots + 1


@_lowers("_linalg_det.default", sample="linalg.det")
def _det(b: TensorBuilder, out: Sequence[Shape], x: Value) -> list[Value]:
    """The determinant, packed LU factors and exchanged rows."""
    on_diagonal, sign, packed, pivots = determinant_parts(x)
    return [on_diagonal.reduce("multiply", 1, (x.rank - 2,)) * sign, packed, pivots]


@_lowers("_linalg_slogdet.default", sample="linalg.slogdet")
def _slogdet(b: TensorBuilder, out: Sequence[Shape], x: Value) -> list[Value]:
    """Sign and logarithm of the determinant, packed LU factors and exchanged rows."""
    on_diagonal, sign, packed, pivots = determinant_parts(x)
    signs = on_diagonal.op("sign").reduce("multiply", 1, (x.rank - 2,)) * sign
    return [signs, on_diagonal.abs().log().sum((x.rank - 2,)), packed, pivots]


# QR


def qr(x: Value) -> tuple[Value, Value]:
    """Packed reflectors below R, and their scales."""
    size = min(x.dims[-2:])
    scales = array(x.dtype, (*x.dims[:-2], size))
    packed, taus = call("Qr", [x], (x.node.shape, scales))
    return packed, taus


def reflectors(packed: Value, taus: Value) -> Value:
    """The first columns of Q."""
    target = "ProductOfElementaryHouseholderReflectors"
    (made,) = call(target, [packed, taus], (packed.node.shape,))
    assert isinstance(made, Value)
    return made


@_lowers("geqrf.default")
def _geqrf(b: TensorBuilder, out: Sequence[Shape], x: Value) -> list[Value]:
    """Packed reflectors below R, and their scales."""
    return list(qr(x))


@_lowers("linalg_householder_product.default", sample="linalg.householder_product")
def _householder_product(b: TensorBuilder, out: Shape, packed: Value, taus: Value) -> Value:
    """The first columns of the product of reflectors."""
    return reflectors(packed, taus)


def whole_q(packed: Value, taus: Value) -> Value:
    """All columns of Q."""
    rows, columns = packed.dims[-2:]
    if columns > rows:
        packed = packed.slice(packed.rank - 1, 0, rows)
    elif columns < rows:
        packed = packed.pad([(0, 0, 0)] * (packed.rank - 1) + [(0, rows - columns, 0)])
    return reflectors(packed, taus)


@_lowers("ormqr.default")
def _ormqr(
    b: TensorBuilder,
    out: Shape,
    packed: Value,
    taus: Value,
    y: Value,
    left: bool = True,
    transpose: bool = False,
) -> Value:
    """The product of a matrix with Q or its adjoint, from either side."""
    q = whole_q(packed, taus)
    q = adjoint(q) if transpose else q
    return product(q, y) if left else product(y, q)


@_lowers("linalg_qr.default", sample="linalg.qr")
def _qr(b: TensorBuilder, out: Sequence[Shape], x: Value, mode: str = "reduced") -> list[Value]:
    """Q and R."""
    rows, columns = x.dims[-2:]
    packed, taus = qr(x)
    size = rows if mode == "complete" else min(rows, columns)
    upper = packed.slice(x.rank - 2, 0, size) if size <= rows else packed
    r = triangle(upper, lower=False)
    if mode == "r":
        return [b.full(0, x.dtype, out[0].dims), r]
    q = whole_q(packed, taus) if size == rows else reflectors(packed, taus)
    return [q.slice(x.rank - 1, 0, size) if q.dims[-1] != size else q, r]


# Triangles


@_lowers("linalg_solve_triangular.default", sample="linalg.solve_triangular")
def _solve_triangular(
    b: TensorBuilder,
    out: Shape,
    a: Value,
    y: Value,
    *,
    upper: bool,
    left: bool = True,
    unitriangular: bool = False,
) -> Value:
    """The solution of a triangular system."""
    if not prod(out.dims):
        return b.full(0, y.dtype, out.dims)
    batch = out.dims[:-2]
    matrix = batched(a, batch)
    return solve_triangular(
        matrix, batched(y, batch), lower=not upper, left=left, unit=unitriangular
    )


@_lowers("triangular_solve.default")
def _old_triangular_solve(
    b: TensorBuilder,
    out: Sequence[Shape],
    y: Value,
    a: Value,
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
) -> list[Value]:
    """The solution of a triangular system, and the matrix."""
    batch = out[0].dims[:-2]
    matrix = batched(a, batch)
    found = solve_triangular(
        matrix, batched(y, batch), lower=not upper, unit=unitriangular,
        turn="T" if transpose else "N",
    )  # fmt: skip
    return [found, matrix]
