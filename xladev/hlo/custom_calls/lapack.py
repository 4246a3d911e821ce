"""LAPACK and BLAS routines as JAX's CPU lowering calls them, by typed FFI.

Targets are ``lapack_<letter><routine>_ffi``, with letters s, d, c, z. Operands and results have
any batch dimensions in front. Computed in f64 or c128 and rounded once. Options come from the
backend configuration: characters as their codes (``uplo = 76`` is L).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np

from xladev.errors import EvaluationError
from xladev.hlo import dtype as dt
from xladev.hlo.custom_calls import factor, reduce_matrix, spectral
from xladev.hlo.custom_calls.backend_config import config_of, letter
from xladev.hlo.custom_calls.definition import CustomCall
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.literal import Array, Value
from xladev.hlo.opdef import Evaluation, InstructionView, OpCall, Tolerance
from xladev.hlo.ops.dimension_rules import parts_of
from xladev.hlo.ops.triangles import adjoint, cholesky_columns, solve_triangular

Config = Mapping[str, Any]
Results = Sequence[Array | None]
Routine = Callable[[Config, Sequence[Array]], Results]
"""What a routine does to its operands, flattened to one batch dimension, in f64 or c128.

None stands for a result that was not asked for; zeros take its place.
"""


def _potrf(config: Config, operands: Sequence[Array]) -> Sequence[Array]:
    (a,) = operands
    lower = letter(dict(config), "uplo", "L") == "L"
    found, info = cholesky_columns(a if lower else adjoint(a))
    whole = np.ones(a.shape[-2:], np.bool_)
    if lower:
        return np.where(np.tril(whole), found, a), info
    return np.where(np.triu(whole), adjoint(found), a), info


def _getrf(_: Config, operands: Sequence[Array]) -> Sequence[Array]:
    lu, pivots, info = factor.lu_factor(operands[0])
    return lu, pivots + np.int32(1), info


def _geqrf(_: Config, operands: Sequence[Array]) -> Sequence[Array]:
    return factor.qr_factor(operands[0])


def _geqp3(_: Config, operands: Sequence[Array]) -> Sequence[Array]:
    return factor.pivoted_qr_factor(*operands)


def _orgqr(_: Config, operands: Sequence[Array]) -> Sequence[Array]:
    return (factor.householder_product(*operands),)


def _ormqr(config: Config, operands: Sequence[Array]) -> Sequence[Array]:
    a, taus, c = operands
    left, transpose = bool(config.get("left", True)), bool(config.get("transpose", False))
    return (factor.apply_q(a, taus, c, left=left, transpose=transpose),)


def _gesdd(config: Config, operands: Sequence[Array]) -> Results:
    (a,) = operands
    mode = letter(dict(config), "mode", "A")
    (s, u, vt), info = spectral.singular_values(a, mode)
    return (a, s, None, None, info) if mode == "N" else (a, s, u, vt, info)


def _syevd(config: Config, operands: Sequence[Array]) -> Sequence[Array]:
    lower = letter(dict(config), "uplo", "L") == "L"
    half = np.tril(operands[0]) if lower else np.triu(operands[0])
    return spectral.hermitian_eigen(half, lower=lower)


def _geev(config: Config, operands: Sequence[Array]) -> Sequence[Array]:
    (a,) = operands
    left = letter(dict(config), "compute_left", "V") == "V"
    values, lefts, rights, info = spectral.eigen(a, left=left)
    if np.iscomplexobj(a):
        return values, lefts, rights, info
    return np.real(values), np.imag(values), lefts, rights, info


def _gees(_: Config, operands: Sequence[Array]) -> Sequence[Array]:
    (a,) = operands
    t, q, values, info = spectral.schur(a)
    parts = [values] if np.iscomplexobj(a) else [np.real(values), np.imag(values)]
    return t, q, *parts, np.zeros(len(a), np.int32), info


def _gehrd(config: Config, operands: Sequence[Array]) -> Sequence[Array]:
    (a,) = operands
    low, high = int(config.get("low", 1)), int(config.get("high", a.shape[-1]))
    found, taus = reduce_matrix.hessenberg(a, low, high)
    return found, taus, np.zeros(len(a), np.int32)


def _sytrd(config: Config, operands: Sequence[Array]) -> Sequence[Array]:
    (a,) = operands
    lower = letter(dict(config), "uplo", "L") == "L"
    return (*reduce_matrix.tridiagonal(a, lower=lower), np.zeros(len(a), np.int32))


def _gtsv(_: Config, operands: Sequence[Array]) -> Sequence[Array]:
    below, diagonal, above, b = operands
    x, info = reduce_matrix.solve_tridiagonal(below, diagonal, above, b)
    return below, diagonal, above, x, info


def _trsm(config: Config, operands: Sequence[Array]) -> Sequence[Array]:
    a, b = operands
    options = dict(config)
    lower = letter(options, "uplo", "L") == "L"
    a = np.tril(a) if lower else np.triu(a)
    turn = letter(options, "trans_x", "N")
    if turn == "C":
        a = a.conj()
    if turn != "N":
        a, lower = a.swapaxes(-1, -2), not lower
    unit = letter(options, "diag", "N") == "U"
    if letter(options, "side", "L") == "L":
        return (solve_triangular(a, b, lower, unit),)
    solved = solve_triangular(a.swapaxes(-1, -2), b.swapaxes(-1, -2), not lower, unit)
    return (solved.swapaxes(-1, -2),)


_MATRIX = 2
_VECTOR = 1
_ROUTINES: Mapping[str, tuple[str, Routine, tuple[int, ...], str]] = MappingProxyType(
    {
        # routine: letters, meaning, rank of each operand without batch, summary
        "potrf": ("sdcz", _potrf, (_MATRIX,), "Cholesky factor."),
        "getrf": ("sdcz", _getrf, (_MATRIX,), "LU factors with partial pivoting."),
        "geqrf": ("sdcz", _geqrf, (_MATRIX,), "QR factors, packed."),
        "geqp3": ("sdcz", _geqp3, (_MATRIX, _VECTOR), "QR factors with column pivoting."),
        "orgqr": ("sd", _orgqr, (_MATRIX, _VECTOR), "Q of packed QR factors."),
        "ungqr": ("cz", _orgqr, (_MATRIX, _VECTOR), "Q of packed QR factors."),
        "ormqr": ("sd", _ormqr, (_MATRIX, _VECTOR, _MATRIX), "Product with Q."),
        "unmqr": ("cz", _ormqr, (_MATRIX, _VECTOR, _MATRIX), "Product with Q."),
        "gesdd": ("sdcz", _gesdd, (_MATRIX,), "Singular value decomposition."),
        "gesvd": ("sdcz", _gesdd, (_MATRIX,), "Singular value decomposition."),
        "syevd": ("sd", _syevd, (_MATRIX,), "Eigenvalues of symmetric matrices."),
        "heevd": ("cz", _syevd, (_MATRIX,), "Eigenvalues of Hermitian matrices."),
        "geev": ("sdcz", _geev, (_MATRIX,), "Eigenvalues of general matrices."),
        "gees": ("sdcz", _gees, (_MATRIX,), "Schur form of general matrices."),
        "gehrd": ("sdcz", _gehrd, (_MATRIX,), "Hessenberg form."),
        "sytrd": ("sd", _sytrd, (_MATRIX,), "Tridiagonal form of symmetric matrices."),
        "hetrd": ("cz", _sytrd, (_MATRIX,), "Tridiagonal form of Hermitian matrices."),
        "gtsv": (
            "sdcz",
            _gtsv,
            (_VECTOR, _VECTOR, _VECTOR, _MATRIX),
            "Solution of tridiagonal systems.",
        ),
        "trsm": ("sdcz", _trsm, (_MATRIX, _MATRIX), "Solution of triangular systems."),
    }
)
_LETTERS: Mapping[str, PrimitiveType] = MappingProxyType(
    {"s": dt.F32, "d": dt.F64, "c": dt.C64, "z": dt.C128}
)


def routine(name: str) -> tuple[Routine, tuple[int, ...], str]:
    """What a routine means, the rank of each operand without batch, and a summary."""
    _, meaning, ranks, summary = _ROUTINES[name]
    return meaning, ranks, summary


def batched(
    meaning: Routine,
    config: Config,
    operands: Sequence[Array],
    ranks: Sequence[int],
    instruction: InstructionView,
) -> Value:
    """Runs a routine on operands of any batch dimensions; gives arrays of the declared shapes."""
    dims = operands[0].shape[: operands[0].ndim - ranks[0]]
    flat = [
        _widened(operand).reshape(prod(dims), *operand.shape[len(dims) :]) for operand in operands
    ]
    results = meaning(config, flat)
    shapes = parts_of(instruction.shape)
    if len(shapes) > len(results):
        target = instruction["custom_call_target"]
        raise EvaluationError(
            f"{target} gives {len(results)} results, not {len(shapes)}",
            hint="declare as many results as the routine has",
        )
    values = tuple(
        np.zeros(shape.dims, shape.element_type.np)
        if result is None
        else np.asarray(result).reshape(shape.dims).astype(shape.element_type.np, copy=False)
        for result, shape in zip(results, shapes, strict=False)
    )
    return values if instruction.shape.is_tuple else values[0]


def _widened(array: Array) -> Array:
    wide = {"f": np.float64, "c": np.complex128}.get(array.dtype.kind)
    return array if wide is None else array.astype(wide)


def _call(target: str, name: str, element_type: PrimitiveType) -> CustomCall:
    meaning, ranks, summary = routine(name)

    def evaluate(_: Evaluation, instruction: InstructionView, operands: tuple[Value, ...]) -> Value:
        return batched(meaning, config_of(instruction), operands, ranks, instruction)

    def check(call: OpCall) -> None:
        check_matrices(call, ranks)
        first = call.operands[0].element_type
        what = f"{target} takes {element_type}, not {first}"
        call.require(first is element_type, "custom_call_lapack3", what)

    return CustomCall(
        target, summary, evaluate, check, tolerance=Tolerance.SOLVER, problem_rank=ranks[0]
    )


def check_matrices(call: OpCall, ranks: Sequence[int]) -> None:
    """Requires operands of these ranks behind equal batch dimensions.

    Raises:
        ShapeError: ``custom_call_lapack1`` number of operands, ``_lapack2`` dimensions.
    """
    target = call["custom_call_target"]
    count = len(call.operands) == len(ranks)
    call.require(count, "custom_call_lapack1", f"{target} takes {len(ranks)} operands")
    batch = call.operands[0].dims[: max(call.operands[0].rank - ranks[0], 0)]
    for shape, rank in zip(call.operands, ranks, strict=True):
        fits = (
            shape.is_array and shape.rank == rank + len(batch) and shape.dims[: len(batch)] == batch
        )
        call.require(fits, "custom_call_lapack2", f"{target} does not take an operand {shape}")


_SYSTEM = (_VECTOR, _VECTOR, _VECTOR, _MATRIX)


def _evaluate_perturbed(
    _: Evaluation, instruction: InstructionView, operands: tuple[Value, ...]
) -> Value:
    """jaxlib's solver of tridiagonal systems that may be singular."""
    eps = float(np.finfo(operands[0].dtype).eps)

    def solved(_: Config, arrays: Sequence[Array]) -> Sequence[Array]:
        below, diagonal, above, b = arrays
        return reduce_matrix.solve_tridiagonal(below, diagonal, above, b, eps=eps)[:1]

    return batched(solved, {}, operands, _SYSTEM, instruction)


CALLS: tuple[CustomCall, ...] = (
    *(
        _call(f"lapack_{initial}{name}_ffi", name, _LETTERS[initial])
        for name, (letters, *_) in _ROUTINES.items()
        for initial in letters
    ),
    CustomCall(
        "tridiagonal_solve_perturbed_ffi",
        "Solution of tridiagonal systems that may be singular.",
        _evaluate_perturbed,
        lambda call: check_matrices(call, _SYSTEM),
        tolerance=Tolerance.SOLVER,
        problem_rank=_SYSTEM[0],
    ),
)
