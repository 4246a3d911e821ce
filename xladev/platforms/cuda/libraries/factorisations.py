"""Custom calls of factorisations, by LAPACK's, XLA's and JAX's names, as calls of cuSOLVER.

A row-major matrix is the transpose of the column-major one in the same memory. LU and QR factors
are of transposed matrices, which a kernel makes; of Hermitian matrices the conjugates are there,
with the other triangle; singular vectors of the transpose are the conjugates of the others. What a
matrix with NaN or infinities gives is NaN, and the library sees zeros in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from types import MappingProxyType
from typing import Any, NamedTuple

from xladev.compiler.support import YES, Support, no
from xladev.hlo import dtype as dt
from xladev.hlo.custom_calls import cusolver
from xladev.hlo.custom_calls.backend_config import config_of, letter
from xladev.hlo.custom_calls.registry import BUILT_IN, known
from xladev.hlo.custom_calls.solvers import eigh_options
from xladev.hlo.ir import HloInstruction
from xladev.hlo.shape import array, tuple_of
from xladev.passes.expansions.linalg.exchanges import composed_exchanges
from xladev.passes.rewrite import Rewriter
from xladev.platforms.cuda.libraries.calls import Cholesky
from xladev.platforms.cuda.libraries.custom_calls import library_call
from xladev.platforms.cuda.libraries.solver_calls import (
    ITEM_NBYTES,
    Eigenvectors,
    LuFactorsCall,
    QMatrix,
    QProduct,
    QrFactors,
    SingularValues,
)
from xladev.platforms.cuda.libraries.solvers import as_triangular_solve

Value = HloInstruction
Config = dict[str, Any]
Results = Sequence[Value | None]
Meaning = Callable[[Rewriter, Config, Sequence[Value]], Results]
"""Results of a call from its options and operands; None for what was not asked for."""

JACOBI_BATCH = 32
"""Largest order of the matrices that Jacobi's methods take many of at once."""
JACOBI_SVD = 1024
"""Largest dimension for Jacobi's method, which is faster up to about there; QR steps beyond."""
_TURNS = {"N": "NO_TRANSPOSE", "T": "TRANSPOSE", "C": "ADJOINT"}
_MOST_ELEMENTS = 2**31 - 1


# Column-major matrices


def _columns(r: Rewriter, x: Value) -> Value:
    """The transposes; what has just been transposed is taken as it was."""
    while x.opcode == "get-tuple-element" and x.operands[0].opcode == "tuple":
        x = x.operands[0].operands[x["index"]]
    rank = x.shape.rank
    swapped = (*range(rank - 2), rank - 1, rank - 2)
    if x.opcode == "transpose" and tuple(x["dimensions"]) == swapped:
        return x.operands[0]
    return r.swap_last(x)


def _lower(config: Config) -> bool:
    return letter(config, "uplo", "L") == "L"


def _called(r: Rewriter, call: Any, operands: Sequence[Value], *shapes: Any) -> list[Value]:
    """Results of a library call, given their element types and dimensions."""
    results = [array(element_type, dims) for element_type, dims in shapes]
    if len(results) == 1:
        return [library_call(r, results[0], operands, call)]
    return r.parts(library_call(r, tuple_of(*results), operands, call))


# Factors


def _potrf(r: Rewriter, config: Config, operands: Sequence[Value]) -> Results:
    (a,) = operands
    t, (*batch, n, _) = a.shape.element_type, a.shape.dims
    lower = _lower(config)
    call = Cholesky(t.name, n, prod(batch), upper=lower)
    factors, info = _called(r, call, [a], (t, a.shape.dims), (dt.S32, batch))
    return r.select(_triangle(r, a, lower=lower), factors, a), info


def _lu_factors(r: Rewriter, a: Value) -> tuple[Value, Value, Value]:
    """Packed factors, pivots from 1, and info."""
    t, (*batch, m, n) = a.shape.element_type, a.shape.dims
    packed, pivots, info = _called(
        r, LuFactorsCall(t.name, m, n, prod(batch)), [_columns(r, a)],
        (t, (*batch, n, m)), (dt.S32, (*batch, min(m, n))), (dt.S32, batch),
    )  # fmt: skip
    return r.swap_last(packed), pivots, info


def _getrf(r: Rewriter, _: Config, operands: Sequence[Value]) -> Results:
    return _lu_factors(r, operands[0])


def _geqrf(r: Rewriter, _: Config, operands: Sequence[Value]) -> Results:
    (a,) = operands
    t, (*batch, m, n) = a.shape.element_type, a.shape.dims
    packed, scales = _called(
        r, QrFactors(t.name, m, n, prod(batch)), [_columns(r, a)],
        (t, (*batch, n, m)), (t, (*batch, min(m, n))),
    )  # fmt: skip
    return r.swap_last(packed), scales


def _orgqr(r: Rewriter, _: Config, operands: Sequence[Value]) -> Results:
    a, scales = operands
    t, (*batch, m, n) = a.shape.element_type, a.shape.dims
    call = QMatrix(t.name, m, n, scales.shape.dims[-1], prod(batch))
    (q,) = _called(r, call, [_columns(r, a), scales], (t, (*batch, n, m)))
    return (r.swap_last(q),)


def _ormqr(r: Rewriter, config: Config, operands: Sequence[Value]) -> Results:
    a, scales, c = operands
    t, (*batch, m, n) = c.shape.element_type, c.shape.dims
    call = QProduct(
        t.name, m, n, a.shape.dims[-1], scales.shape.dims[-1],
        left=bool(config.get("left", True)), adjoint=bool(config.get("transpose", False)),
        batch=prod(batch),
    )  # fmt: skip
    given = [_columns(r, a), scales, _columns(r, c)]
    (made,) = _called(r, call, given, (t, (*batch, n, m)))
    return (r.swap_last(made),)


def _trsm(r: Rewriter, config: Config, operands: Sequence[Value]) -> Results:
    made = r.op(
        "triangular-solve", *operands,
        left_side=letter(config, "side", "L") == "L",
        lower=_lower(config),
        transpose_a=_TURNS[letter(config, "trans_x", "N")],
        unit_diagonal=letter(config, "diag", "N") == "U",
    )  # fmt: skip
    shape = made.shape.without_layout()
    return (library_call(r, shape, operands, as_triangular_solve(made)),)


# Eigenvalues and singular values


def _triangle(r: Rewriter, a: Value, *, lower: bool) -> Value:
    """True in one triangle and on the diagonal."""
    row, column = (r.iota(dt.S32, a.shape.dims, d) for d in (-2, -1))
    return r.compare("GE" if lower else "LE", row, column)


def _finite(r: Rewriter, a: Value) -> Value:
    """Per matrix, whether it has neither infinities nor NaN."""
    finite = r.op("is-finite", r.real(a))
    if a.shape.element_type.is_complex:
        finite = r.op("and", finite, r.op("is-finite", r.op("imag", a)))
    return r.reduce(finite, (-2, -1), "and", True)


def _if(r: Rewriter, good: Value, x: Value, other: float) -> Value:
    """``x`` for matrices that are good, else a number."""
    return r.select(r.broadcast(good, x.shape.dims, range(good.shape.rank)), x, other)


def _failed(r: Rewriter, good: Value) -> Value:
    """An info of 0, or of 1."""
    return r.convert(r.op("not", good), dt.S32)


def _syevd(r: Rewriter, config: Config, operands: Sequence[Value]) -> Results:
    (a,) = operands
    t, (*batch, n, _) = a.shape.element_type, a.shape.dims
    lower, count = _lower(config), prod(batch)
    half = r.select(_triangle(r, a, lower=lower), a, 0)
    finite = _finite(r, half)
    method = "syevjBatched" if n <= JACOBI_BATCH and count > 1 else "syevd"
    stored, values, info = _called(
        r, Eigenvectors(t.name, n, count, lower, method), [_if(r, finite, half, 0)],
        (t, a.shape.dims), (t.component, (*batch, n)), (dt.S32, batch),
    )  # fmt: skip
    good = r.op("and", finite, r.compare("EQ", info, 0))
    vectors = r.conjugate(r.swap_last(stored))
    nan = float("nan")
    return _if(r, good, vectors, nan), _if(r, good, values, nan), _failed(r, good)


class _Svd(NamedTuple):
    """Singular values, U, V*, and which matrices have them; NaN where one has none."""

    s: Value
    u: Value
    vt: Value
    good: Value


def _svd_call(a: Value, *, vectors: bool, full: bool, upright: bool) -> SingularValues:
    """The call for matrices, or (upright) for what is in their memory."""
    *batch, m, n = a.shape.dims
    rows, columns = (n, m) if upright else (m, n)
    count, largest = prod(batch), max(m, n)
    is_small = largest <= JACOBI_BATCH and count > 1
    slow = "gesvdj" if largest <= JACOBI_SVD else "gesvd"
    return SingularValues(
        a.shape.element_type.name, rows, columns, count,
        method="gesvdjBatched" if is_small else slow, vectors=vectors, full=full or is_small,
    )  # fmt: skip


def _svd(r: Rewriter, a: Value, *, vectors: bool, full: bool) -> _Svd:
    t, (*batch, m, n) = a.shape.element_type, a.shape.dims
    finite = _finite(r, a)
    usable = _if(r, finite, a, 0)
    upright = max(m, n) <= JACOBI_SVD or n >= m
    call = _svd_call(a, vectors=vectors, full=full and vectors, upright=upright)
    s, left, right, info = _called(
        r, call, [usable if upright else _columns(r, usable)],
        (t.component, (*batch, call.values)), (t, (*batch, call.left, call.rows)),
        (t, (*batch, call.columns, call.right) if call.method == "gesvd"
         else (*batch, call.right, call.columns)), (dt.S32, batch),
    )  # fmt: skip
    u, vt = _vectors(r, call, left, right, upright=upright)
    good = r.op("and", finite, r.compare("EQ", info, 0))
    u_columns, vt_rows = (m, n) if full else (call.values, call.values)
    u, vt = r.slice_in(u, -1, 0, u_columns), r.slice_in(vt, -2, 0, vt_rows)
    nan = float("nan")
    return _Svd(_if(r, good, s, nan), _if(r, good, u, nan), _if(r, good, vt, nan), good)


def _vectors(
    r: Rewriter, call: SingularValues, left: Value, right: Value, *, upright: bool
) -> tuple[Value, Value]:
    """U and V* of the row-major matrices from what the library stored of its own.

    Of a transpose, U is in memory as V* of the matrix; V* as its U, and V as U's adjoint.
    """
    if not upright:
        return r.swap_last(left), r.swap_last(right)
    if call.method == "gesvd":
        return right, left
    return r.conjugate(r.swap_last(right)), left


def _gesdd(r: Rewriter, config: Config, operands: Sequence[Value]) -> Results:
    (a,) = operands
    mode = letter(config, "mode", "A")
    found = _svd(r, a, vectors=mode != "N", full=mode == "A")
    info = _failed(r, found.good)
    if mode == "N":
        return a, found.s, None, None, info
    return a, found.s, found.u, found.vt, info


# Targets


def _lu(r: Rewriter, _: Config, operands: Sequence[Value]) -> Results:
    packed, pivots, _info = _lu_factors(r, operands[0])
    exchanged = r.subtract(pivots, 1)
    *batch, m, _n = operands[0].shape.dims
    flat = r.reshape(exchanged, (prod(batch), exchanged.shape.dims[-1]))
    order = r.reshape(composed_exchanges(r, flat, m), (*batch, m))
    return packed, exchanged, order


def _eigh(r: Rewriter, config: Config, operands: Sequence[Value]) -> Results:
    uplo = ord("L" if config["lower"] else "U")
    return _syevd(r, {"uplo": uplo}, operands)[:2]


class _Target(NamedTuple):
    """What a custom call means, and how to read its options."""

    meaning: Meaning
    options: Callable[[HloInstruction], Config] = config_of


_MEANINGS: Mapping[str, tuple[str, Meaning]] = MappingProxyType(
    {
        "potrf": ("sdcz", _potrf),
        "getrf": ("sdcz", _getrf),
        "geqrf": ("sdcz", _geqrf),
        "orgqr": ("sd", _orgqr),
        "ungqr": ("cz", _orgqr),
        "ormqr": ("sd", _ormqr),
        "unmqr": ("cz", _ormqr),
        "syevd": ("sd", _syevd),
        "heevd": ("cz", _syevd),
        "gesdd": ("sdcz", _gesdd),
        "gesvd": ("sdcz", _gesdd),
        "trsm": ("sdcz", _trsm),
    }
)


def _of_cusolver(name: str) -> _Target:
    """One of cuSOLVER's routines, by the one of LAPACK's that it is."""
    _, meaning = _MEANINGS[cusolver.LAPACK_NAMES[name]]

    def run(r: Rewriter, config: Config, operands: Sequence[Value]) -> Results:
        found = meaning(r, cusolver.as_lapack(config), operands)
        return cusolver.arranged(name, config, found, lambda x: r.conjugate(r.swap_last(x)))

    return _Target(run)


TARGETS: Mapping[str, _Target] = MappingProxyType(
    {
        **{
            f"lapack_{initial}{name}_ffi": _Target(meaning)
            for name, (initials, meaning) in _MEANINGS.items()
            for initial in initials
        },
        **{
            cusolver.target_of(name): _of_cusolver(name)
            for name, lapack in cusolver.LAPACK_NAMES.items()
            if lapack in _MEANINGS
        },
        "Qr": _Target(_geqrf),
        "ProductOfElementaryHouseholderReflectors": _Target(_orgqr),
        "LuDecomposition": _Target(_lu),
        "Eigh": _Target(_eigh, eigh_options),
    }
)
"""Custom calls that cuSOLVER computes."""
_SQUARE = frozenset({"potrf", "syevd", "heevd", "Eigh"})
_Q = frozenset({"orgqr", "ungqr", "Householder"})
_WITH_Q = frozenset({"ormqr", "unmqr"})


def factorisation_support(i: HloInstruction) -> Support:
    """Whether cuSOLVER computes a custom call."""
    target: str = i["custom_call_target"]
    if target not in TARGETS or known(target) is not BUILT_IN.get(target):
        return no(f"cuSOLVER has no {target}")
    types = {o.shape.element_type.name for o in i.operands}
    if len(types) != 1 or not types <= ITEM_NBYTES.keys():
        return no(f"cuSOLVER has no {target} of {', '.join(sorted(types))}")
    if not all(o.shape.size for o in i.operands):
        return no("there is nothing to factor")
    if any(prod(o.shape.dims[-2:]) > _MOST_ELEMENTS for o in i.operands):
        return no("cuSOLVER counts elements of a matrix in 32 bits")
    return YES if _fits(i, target) else no(f"cuSOLVER's {target} does not take these dimensions")


def _fits(i: HloInstruction, target: str) -> bool:
    """Whether dimensions are what the library asks for."""
    m, n = i.operands[0].shape.dims[-2:]
    if any(name in target for name in _SQUARE):
        return m == n
    if any(name in target for name in _Q):
        return m >= n >= i.operands[1].shape.dims[-1]
    if any(name in target for name in _WITH_Q):
        c = i.operands[2].shape.dims
        order = c[-2] if config_of(i).get("left", True) else c[-1]
        return m == order and i.operands[1].shape.dims[-1] <= min(n, order)
    return True


def factorised(r: Rewriter, call: HloInstruction) -> list[Value]:
    """The results of a supported custom call."""
    target = TARGETS[call["custom_call_target"]]
    results = target.meaning(r, target.options(call), call.operands)
    shapes = call.shape.tuple_shapes or (call.shape,)
    return [
        r.full(0, s.element_type, s.dims) if x is None else x
        for x, s in zip(results, shapes, strict=False)
    ]
