"""Decompositions under the names that XLA's own client library gives them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xladev.errors import EvaluationError
from xladev.hlo.custom_calls import factor, spectral
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


def _eigh(config: Config, operands: Sequence[Array]) -> Sequence[Array]:
    half = np.tril(operands[0]) if config["lower"] else np.triu(operands[0])
    vectors, values, _info = spectral.hermitian_eigen(half, lower=config["lower"])
    return vectors, values


def eigh_options(instruction: InstructionView) -> dict[str, Any]:
    """Options of Eigh, written ``lower,sort,iterations,tolerance``.

    Sorted or not, eigenvalues ascend here; precision is that of the type.

    Raises:
        EvaluationError: the text is something else.
    """
    text: str = instruction.note.backend_config
    parts = text.split(",")
    if len(parts) != 4 or parts[0].strip() not in ("0", "1"):
        raise EvaluationError(
            f"backend_config of Eigh is {text!r}", why="it is lower,sort,iterations,tolerance"
        )
    return {"lower": parts[0].strip() == "1"}


def _nothing(_: InstructionView) -> dict[str, Any]:
    return {}


def _call(
    target: str,
    summary: str,
    routine: Routine,
    ranks: tuple[int, ...],
    options: Callable[[InstructionView], dict[str, Any]] = _nothing,
) -> CustomCall:
    def evaluate(_: Evaluation, instruction: InstructionView, operands: tuple[Value, ...]) -> Value:
        return batched(routine, options(instruction), operands, ranks, instruction)

    def check(call: OpCall) -> None:
        check_matrices(call, ranks)
        fits = all(o.element_type.is_float or o.element_type.is_complex for o in call.operands)
        call.require(fits, "custom_call_lapack3", f"{target} takes floating-point numbers")

    return CustomCall(
        target, summary, evaluate, check, tolerance=Tolerance.SOLVER, problem_rank=ranks[0]
    )


CALLS: tuple[CustomCall, ...] = (
    _call("Qr", "QR factors, packed, and the reflectors' scales.", _qr, (2,)),
    _call(
        "ProductOfElementaryHouseholderReflectors",
        "Q of packed QR factors.",
        _product,
        (2, 1),
    ),
    _call("LuDecomposition", "LU factors, pivots from 0 and the row permutation.", _lu, (2,)),
    _call("Eigh", "Eigenvectors and eigenvalues of Hermitian matrices.", _eigh, (2,), eigh_options),
)
