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

LETTER = {dt.F32: "s", dt.F64: "d", dt.C64: "c", dt.C128: "z"}


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


# Eigenvalues and singular values


@_lowers("_linalg_eigh.default", sample="linalg.eigh")
def _eigh(
    b: TensorBuilder, out: Sequence[Shape], x: Value, uplo: str = "L", vectors: bool = True
) -> list[Value]:
    """Ascending eigenvalues of a Hermitian matrix, and its eigenvectors."""
    source = x if uplo == "L" else adjoint(x)
    values = array(x.dtype.component, x.dims[:-1])
    found, weights = call("Eigh", [source], (x.node.shape, values), "1,1,100,1e-6")
    return [weights, found if vectors else b.full(0, x.dtype, out[1].dims)]


@_lowers("linalg_eig.default", sample="linalg.eig")
def _eig(b: TensorBuilder, out: Sequence[Shape], x: Value) -> list[Value]:
    """Eigenvalues of any matrix, and its eigenvectors."""
    vectors, values = out[1].without_layout(), out[0].without_layout()
    info = array(dt.S32, x.dims[:-2])
    target = f"lapack_{LETTER[x.dtype]}geev_ffi"
    config = "{compute_left = 78 : ui8, compute_right = 86 : ui8}"
    if x.dtype.is_complex:
        shapes: tuple[Shape, ...] = (values, vectors, vectors, info)
        weights, _, right, _ = call(target, [x], shapes, config)
        return [weights, right]
    part = array(x.dtype, values.dims)
    real, imaginary, _, right, _ = call(target, [x], (part, part, vectors, vectors, info), config)
    return [real.op("complex", imaginary), right]


@_lowers("_linalg_svd.default", sample="linalg.svd")
def _svd(
    b: TensorBuilder,
    out: Sequence[Shape],
    x: Value,
    full_matrices: bool = False,
    compute_uv: bool = True,
    *,
    driver: str | None = None,
) -> list[Value]:
    """Singular vectors and descending singular values."""
    rows, columns = x.dims[-2:]
    size = min(rows, columns)
    batch = x.dims[:-2]
    wide = full_matrices and compute_uv
    u = array(x.dtype, (*batch, rows, rows if wide else size))
    vh = array(x.dtype, (*batch, columns if wide else size, columns))
    values = array(x.dtype.component, (*batch, size))
    mode = ord("A" if wide else "S")
    found = call(
        f"lapack_{LETTER[x.dtype]}gesdd_ffi",
        [x],
        (x.node.shape, values, u, vh, array(dt.S32, batch)),
        f"{{mode = {mode} : ui8}}",
    )
    if not compute_uv:
        return [b.full(0, x.dtype, out[0].dims), found[1], b.full(0, x.dtype, out[2].dims)]
    return [found[2], found[1], found[3]]


def hermitian_of(x: Value) -> Value:
    """The Hermitian matrix whose lower triangle is given."""
    low = triangle(x, lower=True, offset=-1)
    own = diagonal_mask(x.builder, *x.dims[-2:]).expand(x.dims).where(x, 0)
    if x.dtype.is_complex:
        own = own.op("real").cast(x.dtype)
    return low + own + adjoint(low)


@_lowers("linalg_pinv.atol_rtol_tensor", sample="linalg.pinv")
def _pinv(
    b: TensorBuilder,
    out: Shape,
    x: Value,
    *,
    atol: Value | None = None,
    rtol: Value | None = None,
    hermitian: bool = False,
) -> Value:
    """The pseudoinverse: singular values below a bound count as zero."""
    if not x.size:
        return b.full(0, x.dtype, out.dims)
    if hermitian:
        x = hermitian_of(x)
    rows, columns = x.dims[-2:]
    size, batch = min(rows, columns), x.dims[:-2]
    real = array(x.dtype.component, (*batch, size))
    shapes = [array(x.dtype, (*batch, rows, size)), real, array(x.dtype, (*batch, size, columns))]
    u, values, vh = _svd(b, shapes, x)
    top = values.slice(values.rank - 1, 0, 1)
    bound = _bound(top, atol, rtol, max(rows, columns))
    inverse = values.gt(bound).where(1 / values, 0).cast(x.dtype)
    scaled = adjoint(vh) * inverse.reshape((*batch, 1, size))
    return product(scaled, adjoint(u))


def _bound(top: Value, atol: Value | None, rtol: Value | None, size: int) -> Value:
    eps = {dt.F32: 2.0**-23, dt.F64: 2.0**-52}[top.dtype]
    batch = top.dims[:-1]

    def spread(x: Value) -> Value:
        return x.cast(top.dtype).expand(batch).reshape(top.dims)

    absolute = top.like(0) if atol is None else spread(atol)
    default = top.like(eps * size)
    if rtol is None:
        relative = default if atol is None else absolute.gt(0).where(0, default)
    else:
        relative = spread(rtol)
    return absolute.maximum(relative * top)


# Triangles, exponentials


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


_PADE = (64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0,
         129060195264000.0, 10559470521600.0, 670442572800.0, 33522128640.0, 1323241920.0,
         40840800.0, 960960.0, 16380.0, 182.0, 1.0)  # fmt: skip
"""Coefficients of the [13/13] approximant of exp (Higham 2005, table 2.3)."""

_LARGEST = {dt.F32: 0.6, dt.F64: 5.37}
"""Norms up to which the approximant is exact but for rounding; in f32 the solution rounds more."""

_SQUARINGS = 14


@_lowers("linalg_matrix_exp.default", sample="matrix_exp")
def _matrix_exp(b: TensorBuilder, out: Shape, x: Value) -> Value:
    """The exponential of a matrix: a [13/13] approximant, scaled and squared."""
    if not x.size:
        return x
    axes = (x.rank - 2,)
    norm = x.abs().sum(axes, keep=True).reduce("maximum", 0, (x.rank - 1,), True)
    steps = (norm / _LARGEST[norm.dtype]).maximum(1).op("log2").op("ceil").minimum(_SQUARINGS)
    scaled = x / steps.op("exp2").expand(x.dims).cast(x.dtype)
    found = _approximant(scaled)
    for at in range(_SQUARINGS):
        more = steps.gt(at).expand(x.dims)
        found = more.where(product(found, found), found)
    return found


def _approximant(x: Value) -> Value:
    one = identity(x)
    c = _PADE
    x2 = product(x, x)
    x4 = product(x2, x2)
    x6 = product(x4, x2)
    odd = product(x6, x6 * c[13] + x4 * c[11] + x2 * c[9])
    u = product(x, odd + x6 * c[7] + x4 * c[5] + x2 * c[3] + one * c[1])
    even = product(x6, x6 * c[12] + x4 * c[10] + x2 * c[8])
    v = even + x6 * c[6] + x4 * c[4] + x2 * c[2] + one * c[0]
    packed, _, order = lu(v - u)
    return lu_solve(packed, order, v + u)
