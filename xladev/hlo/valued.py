"""Whether the evaluator gives an instruction a value: asked before a program is run."""

from __future__ import annotations

from xladev.errors import EvaluationError
from xladev.hlo.custom_calls.registry import find
from xladev.hlo.ir import HloInstruction, reachable


def no_value(instruction: HloInstruction) -> EvaluationError | None:
    """Why an instruction, or one that it calls, has no value; None if all have."""
    inner = (i for c in instruction.called for c in reachable(c) for i in c.instructions)
    reasons = (found for i in (instruction, *inner) if (found := _no_value_alone(i)) is not None)
    return next(reasons, None)


def _no_value_alone(instruction: HloInstruction) -> EvaluationError | None:
    if instruction.opcode == "parameter":
        return None
    if instruction.op.evaluate is None:
        why = instruction.op.exempt or "the opcode has no evaluation"
        return EvaluationError(f"{instruction.opcode} has no value here", why=why)
    if instruction.opcode != "custom-call":
        return None
    try:
        target = find(instruction["custom_call_target"])
    except EvaluationError as unknown:
        return unknown
    if target.evaluate is None:
        return EvaluationError(f"custom call {target.target!r} has no value on the host")
    return None
