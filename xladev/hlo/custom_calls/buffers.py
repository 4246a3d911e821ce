"""Custom calls that ask for memory without saying what is in it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xladev.hlo.custom_calls.definition import Appender, CustomCall
from xladev.hlo.ir import HloInstruction
from xladev.hlo.literal import Value, literal_of
from xladev.hlo.opdef import Evaluation, InstructionView, OpCall


def _check(call: OpCall) -> None:
    right = not call.operands and call.result().is_array
    call.require(right, "custom_call_buffer", "it has no operands, and its result is an array")


def _zeros(_: Evaluation, instruction: InstructionView, __: Sequence[Value]) -> Value:
    """Zeros: the contents are undefined, and results must not depend on what memory held."""
    shape = instruction.shape
    return np.zeros(shape.dims, shape.element_type.np)


def _expand(
    builder: Appender, instruction: HloInstruction, _: Sequence[HloInstruction]
) -> HloInstruction:
    shape = instruction.shape
    element_type = shape.element_type
    zero = literal_of(np.zeros((), element_type.np), element_type)
    scalar = builder.op("constant", shape=zero.shape, literal=zero)
    return builder.op("broadcast", scalar, shape=shape.without_layout(), dimensions=())


CALLS: tuple[CustomCall, ...] = tuple(
    CustomCall(
        target, "An array whose contents do not matter; zeros here.", _zeros, _check, _expand
    )
    for target in ("AllocateBuffer", "CreateBuffer")
)
