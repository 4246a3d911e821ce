"""Custom calls that mark a value: they pass it on, or take it and give nothing."""

from __future__ import annotations

from collections.abc import Sequence

from xladev.hlo.custom_calls.definition import Appender, CustomCall
from xladev.hlo.ir import HloInstruction
from xladev.hlo.literal import Value
from xladev.hlo.opdef import Evaluation, InstructionView, OpCall

_MARKERS = (
    ("Sharding", "Asks for a sharding of its operand.", False),
    ("xla.sdy.FuncResultSharding", "Asks for a sharding of a result of the entry.", False),
    ("xla.sdy.PropagationBarrier", "Stops the propagation of shardings.", False),
    ("LayoutConstraint", "Asks for a layout of its operand.", False),
    ("MoveToHost", "Asks for its operand in host memory.", False),
    ("MoveToDevice", "Asks for its operand in device memory.", False),
    ("annotate_device_placement", "Asks for its operand in the memory it names.", True),
    ("PinToDevice", "Keeps its operand in device memory.", False),
    ("PinToDeviceSram", "Keeps its operand in on-chip memory.", False),
    ("PinToVmem", "Keeps its operand in vector memory.", False),
    ("AssumeGatherIndicesInBound", "Promises that gather indices are in bounds.", False),
)

_SINKS = (
    ("xla.sdy.ShardingGroup", "Joins values whose shardings agree."),
    ("dce_sink", "Says that its operand is wanted, though nothing reads it (`jax.lax`)."),
)


def check_marker(call: OpCall) -> None:
    """Requires one operand, of the result's type."""
    same = len(call.operands) == 1 and call.operands[0].equal_ignoring_layout(call.result())
    call.require(same, "custom_call_marker", "the result must have the type of the one operand")


def _check_sink(call: OpCall) -> None:
    empty = call.result().is_tuple and not call.result().tuple_shapes
    call.require(empty, "custom_call_sink", "the result must be an empty tuple")


def pass_on(_: Evaluation, __: InstructionView, operands: Sequence[Value]) -> Value:
    """The operand."""
    return operands[0]


def expand_marker(
    _: Appender, __: HloInstruction, operands: Sequence[HloInstruction]
) -> HloInstruction:
    """The operand itself."""
    return operands[0]


def _expand_to_nothing(
    b: Appender, _: HloInstruction, __: Sequence[HloInstruction]
) -> HloInstruction:
    return b.op("tuple")


def _nothing(_: Evaluation, __: InstructionView, ___: Sequence[Value]) -> Value:
    return ()


CALLS: tuple[CustomCall, ...] = (
    *(
        CustomCall(target, summary, pass_on, check_marker, expand_marker, side_effect=effect)
        for target, summary, effect in _MARKERS
    ),
    *(
        CustomCall(target, summary, _nothing, _check_sink, _expand_to_nothing, side_effect=True)
        for target, summary in _SINKS
    ),
)
