"""cuSOLVER's routines as JAX's lowering for NVIDIA's GPUs calls them, by typed FFI.

Targets are ``cusolver_<routine>_ffi``, of any of LAPACK's four types (`jax/_src/lax/linalg.py` of
JAX 0.10). They mean what LAPACK's routines mean, with other options: ``lower`` for ``uplo``,
``full_matrices`` and ``compute_uv`` for ``mode``. Jacobi's method gives V where LAPACK gives V*.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np

from xladev.hlo import dtype as dt
from xladev.hlo.custom_calls import factor
from xladev.hlo.custom_calls.backend_config import config_of
from xladev.hlo.custom_calls.definition import CustomCall
from xladev.hlo.custom_calls.lapack import Config, batched, check_matrices, routine
from xladev.hlo.literal import Array, Value
from xladev.hlo.opdef import Evaluation, InstructionView, OpCall, Tolerance

LAPACK_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "potrf": "potrf", "getrf": "getrf", "geqrf": "geqrf", "orgqr": "orgqr", "ormqr": "ormqr",
        "syevd": "syevd", "sytrd": "sytrd",
        "gesvd": "gesdd", "gesvdj": "gesdd", "gesvdp": "gesdd",
    }
)  # fmt: skip
"""LAPACK's routine (as `custom_calls.lapack` names it) that each of cuSOLVER's is."""

PERMUTATION = "cu_lu_pivots_to_permutation"
"""Target that makes a permutation of the exchanges of rows, both from 0."""

_TYPES = (dt.F32, dt.F64, dt.C64, dt.C128)
T = TypeVar("T")


def target_of(name: str) -> str:
    """The target of one of cuSOLVER's routines."""
    return f"cusolver_{name}_ffi"


def as_lapack(config: Config) -> dict[str, Any]:
    """LAPACK's options of a call; those that both spell alike stay."""
    found = dict(config)
    if "lower" in found:
        found["uplo"] = ord("L" if found["lower"] else "U")
    if "compute_uv" in found:
        thin_or_full = "A" if found["full_matrices"] else "S"
        found["mode"] = ord(thin_or_full if found["compute_uv"] else "N")
    return found


def arranged(
    name: str, config: Config, results: Sequence[T | None], adjoint: Callable[[T], T]
) -> Sequence[T | None]:
    """LAPACK's results in the order and form of cuSOLVER's.

    Args:
        name: cuSOLVER's routine.
        config: its options.
        results: of LAPACK's; None for what was not asked for.
        adjoint: conjugate transpose of matrices.
    """
    if LAPACK_NAMES[name] != "gesdd":
        return results
    a, s, u, vt, info = results
    if name == "gesvd":
        return (a, s, vt, u, info) if config.get("transposed") else results
    return a, s, u, None if vt is None else adjoint(vt), info


def _adjoint(x: Array) -> Array:
    return np.conj(x.swapaxes(-1, -2))


def _call(name: str) -> CustomCall:
    meaning, ranks, summary = routine(LAPACK_NAMES[name])
    target = target_of(name)

    def results(config: Config, operands: Sequence[Array]) -> Sequence[Array | None]:
        return arranged(name, config, meaning(as_lapack(config), operands), _adjoint)

    def evaluate(_: Evaluation, instruction: InstructionView, operands: tuple[Value, ...]) -> Value:
        return batched(results, config_of(instruction), operands, ranks, instruction)

    def check(call: OpCall) -> None:
        check_matrices(call, ranks)
        first = call.operands[0].element_type
        fits = first in _TYPES and all(o.element_type is first for o in call.operands)
        call.require(fits, "custom_call_lapack3", f"{target} takes f32, f64, c64 or c128")

    return CustomCall(
        target, summary, evaluate, check, tolerance=Tolerance.SOLVER, problem_rank=ranks[0]
    )


def _evaluate_permutation(
    _: Evaluation, instruction: InstructionView, operands: tuple[Value, ...]
) -> Value:
    """Row i of the permuted matrix is row ``result[i]``."""
    rows: int = instruction.shape.dims[-1]

    def results(_: Config, arrays: Sequence[Array]) -> Sequence[Array]:
        return (factor.permutation_of(arrays[0], rows),)

    return batched(results, {}, operands, (1,), instruction)


def _check_permutation(call: OpCall) -> None:
    check_matrices(call, (1,))
    (pivots,), result = call.operands, call.result()
    fits = result.is_array and result.rank == pivots.rank and result.dims[-1] >= pivots.dims[-1]
    what = f"{PERMUTATION} does not make {result} of {pivots}"
    call.require(fits and pivots.element_type is dt.S32, "custom_call_lapack3", what)


CALLS: tuple[CustomCall, ...] = (
    *(_call(name) for name in LAPACK_NAMES),
    CustomCall(
        PERMUTATION,
        "The row permutation that exchanges of rows make.",
        _evaluate_permutation,
        _check_permutation,
        problem_rank=1,
    ),
)
