"""Eigenvalues, singular values, and functions of matrices made of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce

from xladev.frontends.torch.lower.linear_algebra import (
    adjoint,
    call,
    identity,
    lu,
    lu_solve,
    product,
    triangle,
)
from xladev.frontends.torch.lower.table import Family
from xladev.frontends.torch.lower.value import TensorBuilder, Value
from xladev.frontends.torch.lower.views import diagonal_mask
from xladev.hlo import dtype as dt
from xladev.hlo.shape import Shape, array

SPECTRAL = Family("spectral", "Eigenvalues, singular values, functions of matrices.")
_lowers = SPECTRAL.lowers

LETTER = {dt.F32: "s", dt.F64: "d", dt.C64: "c", dt.C128: "z"}


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


_PADE = (64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0,
         129060195264000.0, 10559470521600.0, 670442572800.0, 33522128640.0, 1323241920.0,
         40840800.0, 960960.0, 16380.0, 182.0, 1.0)  # fmt: skip
"""Coefficients of the [13/13] approximant of exp (Higham 2005, table 2.3)."""

_DEGREE = 18
"""Of the Taylor polynomial that f32 takes: the approximant's division would round more."""

_LARGEST = {dt.F32: 3.010066, dt.F64: 5.37}
"""Norms up to which what is left out is below rounding: of the polynomial in f32 (Bader, Blanes and
Casas 2019, table 2), of the approximant in f64 (Higham 2005)."""

_SQUARINGS = 14


@_lowers("linalg_matrix_exp.default", sample="matrix_exp", wide=True)
def _matrix_exp(b: TensorBuilder, out: Shape, x: Value) -> Value:
    """The exponential of a matrix: scaled, a polynomial or [13/13] approximant, and squared."""
    if not x.size:
        return x
    axes = (x.rank - 2,)
    norm = x.abs().sum(axes, keep=True).reduce("maximum", 0, (x.rank - 1,), True)
    steps = (norm / _LARGEST[norm.dtype]).maximum(1).op("log2").op("ceil").minimum(_SQUARINGS)
    scaled = x / steps.op("exp2").expand(x.dims).cast(x.dtype)
    found = _polynomial(scaled) if norm.dtype is dt.F32 else _approximant(scaled)
    for at in range(_SQUARINGS):
        more = steps.gt(at).expand(x.dims)
        found = more.where(product(found, found), found)
    return found


def _polynomial(x: Value) -> Value:
    """The Taylor polynomial in four blocks of x**4 and a rest (Paterson and Stockmeyer 1973)."""
    x2 = product(x, x)
    x3 = product(x2, x)
    powers = (identity(x), x, x2, x3)
    x4 = product(x2, x2)
    found = None
    for first in range(_DEGREE - _DEGREE % 4, -1, -4):
        own = range(first, min(first + 4, _DEGREE + 1))
        terms = [powers[k - first] * (1 / math.factorial(k)) for k in reversed(own)]
        block = reduce(Value.__add__, terms)
        found = block if found is None else product(x4, found) + block
    assert found is not None
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
