"""Functions of MLIR dialects that a frontend kept as custom calls: ``mhlo.erf``, ``chlo.tan``."""

from __future__ import annotations

from collections.abc import Sequence

from xladev.hlo.custom_calls.definition import Appender, CustomCall
from xladev.hlo.custom_calls.markers import check_marker
from xladev.hlo.ir import HloInstruction
from xladev.hlo.opdef import OpCall, OpDef
from xladev.hlo.ops import functions

_DIALECTS = ("mhlo", "chlo")
_SAME_NAME = frozenset(
    {"erf", "tan", "acos", "acosh", "asin", "asinh", "atanh", "cosh", "sinh", "cbrt", "logistic"}
)


def _call(dialect: str, op: OpDef) -> CustomCall:
    def expand(
        builder: Appender, _: HloInstruction, operands: Sequence[HloInstruction]
    ) -> HloInstruction:
        return builder.op(op.name, *operands)

    def check(call: OpCall) -> None:
        check_marker(call)
        if op.infer is not None:
            op.infer(OpCall(op, call.operands, {}))

    return CustomCall(
        f"{dialect}.{op.name}",
        op.summary,
        op.evaluate,
        check,
        expand,
        tolerance=op.tolerance,
    )


CALLS: tuple[CustomCall, ...] = tuple(
    _call(dialect, op) for dialect in _DIALECTS for op in functions.OPS if op.name in _SAME_NAME
)
