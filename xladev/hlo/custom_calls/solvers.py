"""Factorisations under the names that XLA's own client library gives them."""

from __future__ import annotations

from collections.abc import Sequence

from xladev.hlo.custom_calls import factor
from xladev.hlo.custom_calls.definition import CustomCall
from xladev.hlo.custom_calls.lapack import Config, Routine, batched, check_matrices
from xladev.hlo.literal import Array, Value
from xladev.hlo.opdef import Evaluation, InstructionView, OpCall, Tolerance


def _qr(_: Config, operands: Sequence[Array]) -> Sequence[Array]:
    return factor.qr_factor(operands[0])


def _product(_: Config, operands: Sequence[Array]) -> Sequence[Array]:
    return (factor.householder_product(*operands),)


def _lu(_: Config, operands: Sequence[Array]) -> Sequence[Array]:
    lu, pivots, _info = factor.lu_factor(operands[0])
    return lu, pivots, factor.permutation_of(pivots, lu.shape[1])


def _call(target: str, summary: str, routine: Routine, ranks: tuple[int, ...]) -> CustomCall:
    def evaluate(_: Evaluation, instruction: InstructionView, operands: tuple[Value, ...]) -> Value:
        return batched(routine, {}, operands, ranks, instruction)

    def check(call: OpCall) -> None:
        check_matrices(call, ranks)

    return CustomCall(target, summary, evaluate, check, tolerance=Tolerance.SOLVER)


CALLS: tuple[CustomCall, ...] = (
    _call("Qr", "QR factors, packed, and the reflectors' scales.", _qr, (2,)),
    _call(
        "ProductOfElementaryHouseholderReflectors",
        "Q of packed QR factors.",
        _product,
        (2, 1),
    ),
    _call("LuDecomposition", "LU factors, pivots from 0 and the row permutation.", _lu, (2,)),
)
