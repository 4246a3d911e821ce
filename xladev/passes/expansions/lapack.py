"""Custom calls of LAPACK and BLAS routines, by the names frontends give them, in plain HLO.

A routine is given operands with one batch dimension in front and gives results with one; only what
the caller declares is kept of them. Layouts say where elements are in memory and nothing of their
meaning, so that column-major operands need no attention here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from types import MappingProxyType
from typing import Any

from xladev.hlo import dtype as dt
from xladev.hlo.custom_calls.backend_config import config_of, letter
from xladev.hlo.custom_calls.solvers import eigh_options
from xladev.hlo.ir import HloInstruction
from xladev.hlo.shape import Shape
from xladev.passes.expansions.cholesky import cholesky_factor
from xladev.passes.expansions.emit import Emitter, Values
from xladev.passes.expansions.linalg import matrices as mx
from xladev.passes.expansions.linalg.eig import general_eigen
from xladev.passes.expansions.linalg.eigh import hermitian_eigen
from xladev.passes.expansions.linalg.hessenberg import hessenberg, tridiagonal
from xladev.passes.expansions.linalg.lu import lu_factor
from xladev.passes.expansions.linalg.pivoted_qr import pivoted_qr_factor
from xladev.passes.expansions.linalg.qr import apply_q, householder_product, qr_factor
from xladev.passes.expansions.linalg.real_schur import block_eigenvalues, real_schur
from xladev.passes.expansions.linalg.schur import complex_schur
from xladev.passes.expansions.linalg.svd import singular_values
from xladev.passes.expansions.linalg.tridiagonal_solve import solve_tridiagonal
from xladev.passes.expansions.triangular_solve import SolveOptions, solve

Routine = Callable[[Emitter, HloInstruction, Values], Values]
"""Results of a custom call, from its operands."""

Value = HloInstruction
Config = dict[str, Any]
Results = Sequence[Value | None]
Stacked = Callable[[Emitter, Config, list[Value]], Results]
"""The same of operands with one batch dimension, none empty; None for what was not asked for."""

_MATRIX, _VECTOR = 2, 1


def _is(config: Config, name: str, default: str) -> bool:
    """Whether an option that is a character has the value that it has by default."""
    return letter(config, name, default) == default


def _failed_unless(e: Emitter, good: Value) -> Value:
    """An info of 0, or of 1."""
    return e.convert(e.op("not", good), dt.S32)


# Factors


def _potrf(e: Emitter, config: Config, operands: list[Value]) -> Results:
    (a,) = operands
    lower = _is(config, "uplo", "L")
    found, failed = cholesky_factor(e, a, lower)
    kept = e.compare("GE" if lower else "LE", mx.rows(e, a), mx.columns(e, a))
    return e.select(kept, found, a), failed


def _getrf(e: Emitter, _: Config, operands: list[Value]) -> Results:
    found = lu_factor(e, operands[0])
    return found.packed, e.add(found.pivots, 1), found.info


def _lu(e: Emitter, _: Config, operands: list[Value]) -> Results:
    found = lu_factor(e, operands[0])
    return found.packed, found.pivots, found.order


def _geqrf(e: Emitter, _: Config, operands: list[Value]) -> Results:
    return qr_factor(e, operands[0])


def _geqp3(e: Emitter, _: Config, operands: list[Value]) -> Results:
    packed, order, taus = pivoted_qr_factor(e, operands[0], operands[1])
    return packed, e.add(order, 1), taus


def _orgqr(e: Emitter, _: Config, operands: list[Value]) -> Results:
    return (householder_product(e, operands[0], operands[1]),)


def _ormqr(e: Emitter, config: Config, operands: list[Value]) -> Results:
    a, taus, c = operands
    transpose = bool(config.get("transpose", False))
    if config.get("left", True):
        return (apply_q(e, a, taus, c, adjoint=transpose),)
    turned = apply_q(e, a, taus, mx.adjoint(e, c), adjoint=not transpose)
    return (mx.adjoint(e, turned),)


def _gehrd(e: Emitter, config: Config, operands: list[Value]) -> Results:
    (a,) = operands
    batch, n, _ = a.shape.dims
    low, high = int(config.get("low", 1)), int(config.get("high", n))
    return *hessenberg(e, a, low, high), e.full(0, dt.S32, (batch,))


def _sytrd(e: Emitter, config: Config, operands: list[Value]) -> Results:
    (a,) = operands
    found = tridiagonal(e, a, lower=_is(config, "uplo", "L"))
    return *found, e.full(0, dt.S32, a.shape.dims[:1])


# Eigenvalues and singular values


def _syevd(e: Emitter, config: Config, operands: list[Value]) -> Results:
    found = hermitian_eigen(e, operands[0], lower=_is(config, "uplo", "L"))
    return found.vectors, found.values, _failed_unless(e, found.good)


def _eigh(e: Emitter, config: Config, operands: list[Value]) -> Results:
    found = hermitian_eigen(e, operands[0], lower=config["lower"])
    return found.vectors, found.values


def _gesdd(e: Emitter, config: Config, operands: list[Value]) -> Results:
    (a,) = operands
    mode = letter(config, "mode", "A")
    found = singular_values(e, a, vectors=mode != "N", full=mode != "S")
    return a, found.s, found.u, found.vt, _failed_unless(e, found.good)


def _geev(e: Emitter, config: Config, operands: list[Value]) -> Results:
    (a,) = operands
    left, right = _is(config, "compute_left", "V"), _is(config, "compute_right", "V")
    found = general_eigen(e, a, left=left, right=right)
    values = [found.values]
    if not a.shape.element_type.is_complex:
        values = [e.op("real", found.values), e.op("imag", found.values)]
    return *values, found.left, found.right, found.info


def _gees(e: Emitter, _: Config, operands: list[Value]) -> Results:
    (a,) = operands
    is_complex = a.shape.element_type.is_complex
    good, scale = mx.all_finite(e, a), mx.scale_of(e, a)
    usable = mx.zero_unless(e, good, mx.scaled(e, a, scale))
    found = complex_schur(e, usable) if is_complex else real_schur(e, usable)
    t = mx.nan_unless(e, good, mx.scaled(e, found.t, scale, "multiply"))
    q = mx.nan_unless(e, good, mx.adjoint(e, found.qh))
    values = [mx.diagonal(e, t)] if is_complex else block_eigenvalues(e, t)
    chosen = e.full(0, dt.S32, a.shape.dims[:1])
    return t, q, *values, chosen, e.select(good, found.info, 1)


# Systems


def _trsm(e: Emitter, config: Config, operands: list[Value]) -> Results:
    turn = {"N": "NO_TRANSPOSE", "T": "TRANSPOSE", "C": "ADJOINT"}
    options = SolveOptions(
        left_side=_is(config, "side", "L"),
        lower=_is(config, "uplo", "L"),
        unit_diagonal=not _is(config, "diag", "N"),
        transpose=turn[letter(config, "trans_x", "N")],
    )
    return (solve(e, operands[0], operands[1], options),)


def _gtsv(e: Emitter, _: Config, operands: list[Value]) -> Results:
    below, diagonal, above, b = operands
    return below, diagonal, above, *solve_tridiagonal(e, below, diagonal, above, b)


def _perturbed_solve(e: Emitter, _: Config, operands: list[Value]) -> Results:
    below, diagonal, above, b = operands
    return solve_tridiagonal(e, below, diagonal, above, b, perturb=True)[:1]


STACKED: Mapping[str, tuple[str, Stacked, tuple[int, ...]]] = MappingProxyType(
    {
        # routine: letters, meaning, rank of each operand without batch
        "potrf": ("sdcz", _potrf, (_MATRIX,)),
        "getrf": ("sdcz", _getrf, (_MATRIX,)),
        "geqrf": ("sdcz", _geqrf, (_MATRIX,)),
        "geqp3": ("sdcz", _geqp3, (_MATRIX, _VECTOR)),
        "orgqr": ("sd", _orgqr, (_MATRIX, _VECTOR)),
        "ungqr": ("cz", _orgqr, (_MATRIX, _VECTOR)),
        "ormqr": ("sd", _ormqr, (_MATRIX, _VECTOR, _MATRIX)),
        "unmqr": ("cz", _ormqr, (_MATRIX, _VECTOR, _MATRIX)),
        "gesdd": ("sdcz", _gesdd, (_MATRIX,)),
        "gesvd": ("sdcz", _gesdd, (_MATRIX,)),
        "syevd": ("sd", _syevd, (_MATRIX,)),
        "heevd": ("cz", _syevd, (_MATRIX,)),
        "geev": ("sdcz", _geev, (_MATRIX,)),
        "gees": ("sdcz", _gees, (_MATRIX,)),
        "gehrd": ("sdcz", _gehrd, (_MATRIX,)),
        "sytrd": ("sd", _sytrd, (_MATRIX,)),
        "hetrd": ("cz", _sytrd, (_MATRIX,)),
        "gtsv": ("sdcz", _gtsv, (_VECTOR, _VECTOR, _VECTOR, _MATRIX)),
        "trsm": ("sdcz", _trsm, (_MATRIX, _MATRIX)),
    }
)


# Calls


def on_stacks(
    meaning: Stacked,
    ranks: tuple[int, ...],
    options: Callable[[HloInstruction], Config] = config_of,
) -> Routine:
    """The expansion of a call, whatever its batch dimensions."""

    def expand(e: Emitter, call: HloInstruction, operands: Values) -> Values:
        shapes = call.shape.tuple_shapes or (call.shape,)
        batch = operands[0].shape.dims[: operands[0].shape.rank - ranks[0]]
        if not all(operand.shape.size for operand in operands):
            return _of_nothing(e, call, operands, shapes)
        count = prod(batch)
        flat = [e.reshape(x, (count, *x.shape.dims[len(batch) :])) for x in operands]
        results = meaning(e, options(call), flat)
        return [
            e.full(0, s.element_type, s.dims) if x is None else e.reshape(x, s.dims)
            for x, s in zip(results, shapes, strict=False)
        ]

    return expand


def _of_nothing(
    e: Emitter, call: HloInstruction, operands: Values, shapes: Sequence[Shape]
) -> Values:
    """Results where an operand has no elements: zeros, but unit matrices for Q, U and V*.

    What Q is multiplied with stays, and there is nothing to exchange in columns without rows.
    """
    results = [e.full(0, s.element_type, s.dims) for s in shapes]
    target: str = call["custom_call_target"]
    if "gesdd" in target or "gesvd" in target:
        results[2:4] = [
            _units(e, s) if s.rank > 1 else e.full(0, s.element_type, s.dims) for s in shapes[2:4]
        ]
    if "gqr" in target or "Householder" in target:
        results = [_units(e, shapes[0])]
    if "mqr" in target:
        results = [operands[2]]
    if "geqp3" in target and shapes[1].size:
        results[1] = e.add(e.iota(dt.S32, shapes[1].dims, -1), 1)
    return results


def _units(e: Emitter, shape: Shape) -> Value:
    """Unit matrices of the shape."""
    rank = shape.rank
    row, column = (e.iota(dt.S32, shape.dims, rank - d) for d in (2, 1))
    return e.convert(e.compare("EQ", row, column), shape.element_type)


ROUTINES: Mapping[str, Routine] = MappingProxyType(
    {
        **{
            f"lapack_{initial}{name}_ffi": on_stacks(meaning, ranks)
            for name, (initials, meaning, ranks) in STACKED.items()
            for initial in initials
        },
        "Qr": on_stacks(_geqrf, (_MATRIX,)),
        "ProductOfElementaryHouseholderReflectors": on_stacks(_orgqr, (_MATRIX, _VECTOR)),
        "tridiagonal_solve_perturbed_ffi": on_stacks(
            _perturbed_solve, (_VECTOR, _VECTOR, _VECTOR, _MATRIX)
        ),
        "LuDecomposition": on_stacks(_lu, (_MATRIX,)),
        "Eigh": on_stacks(_eigh, (_MATRIX,), eigh_options),
    }
)
"""Custom-call target -> its expansion."""
