"""Asynchronous pairs; run synchronously by default."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xladev.errors import EvaluationError
from xladev.hlo import dtype as dt
from xladev.hlo.ir import HloComputation
from xladev.hlo.literal import Value
from xladev.hlo.opdef import (
    VARIADIC,
    Attr,
    AttrKind,
    EvaluateFn,
    Evaluation,
    InferFn,
    InstructionView,
    OpCall,
    OpDef,
    Tolerance,
)
from xladev.hlo.ops import collective, moved, rules
from xladev.hlo.ops.collective import GATHER, PERMUTE, REDUCE
from xladev.hlo.ops.control import check_call
from xladev.hlo.ops.structure import evaluate_first, infer_same
from xladev.hlo.shape import Shape, array, tuple_of

ASYNC_CHAIN = (
    Attr("async_execution_thread", AttrKind.STRING, default=""),
    Attr("calls", AttrKind.COMPUTATION),
)
ASYNC = (
    *ASYNC_CHAIN,
    Attr(
        "output_to_operand_aliasing", AttrKind.ALIASING, default=(), proto="output_operand_aliasing"
    ),
)


_COLLECTIVES: Mapping[str, OpDef] = {op.name: op for op in collective.OPS}


@dataclass(frozen=True, slots=True)
class StandIn:
    """An instruction seen as the synchronous one that it begins."""

    begun: InstructionView
    opcode: str
    shape: Shape

    @property
    def operands(self) -> tuple[InstructionView, ...]:
        """Its operands."""
        return self.begun.operands

    @property
    def note(self) -> Any:
        """Its annotations."""
        return self.begun.note

    def __getitem__(self, name: str) -> Any:
        return self.begun[name]


def _run(
    name: str,
    evaluation: Evaluation,
    instruction: InstructionView,
    shape: Shape,
    operands: tuple[Value, ...],
) -> Value:
    """Value of the synchronous opcode ``name``, of that result shape."""
    evaluate = _COLLECTIVES[name].evaluate
    if evaluate is None:
        raise EvaluationError(f"{name} has no evaluation")
    return evaluate(evaluation, StandIn(instruction, name, shape), operands)


def _idle(shape: Shape) -> Value:
    """A value of a context that nothing reads: zeros."""
    if shape.is_tuple:
        return tuple(_idle(s) for s in shape.tuple_shapes)
    return np.zeros(shape.dims, shape.element_type.np) if shape.is_array else None


def _context(shape: Shape) -> tuple[Value, ...]:
    return tuple(_idle(s) for s in shape.tuple_shapes[2:])


def _infer_async_start(call: OpCall) -> Shape:
    body: HloComputation | None = call["calls"]
    result = call.result().without_layout()
    parts = result.tuple_shapes
    call.require(len(parts) >= 2, "async_start_c1", f"{result} is no tuple of operands and result")
    given = tuple_of(*(s.without_layout() for s in call.operands))
    fits = rules.compatible(parts[0], given)
    call.require(fits, "async_start_c2", f"first part {parts[0]} is not {given}")
    if body is None:
        call.fail("async_start_c3", "no computation is called")
    wanted = check_call(call, body, call.operands, ("async_start_c4", "async_start_c4"))
    fits = rules.compatible(parts[1], wanted)
    call.require(fits, "async_start_c5", f"second part {parts[1]} is not {wanted}")
    return result


def _evaluate_async_start(
    evaluation: Evaluation, instruction: InstructionView, operands: tuple[Value, ...]
) -> Value:
    """Runs the computation at once; the done instruction only reads the result."""
    result = evaluation.call(instruction["calls"], operands)
    return operands, result, *_context(instruction.shape)


def _infer_part(index: int) -> InferFn:
    """Shape rule: part ``index`` of the tuple that the start gave (``OP_c1``)."""

    def infer(call: OpCall) -> Shape:
        started = call.operands[0]
        enough = len(started.tuple_shapes) > index
        call.require(enough, rules.constraint(call, "c1"), f"{started} has no part {index}")
        return started.tuple_shapes[index].without_layout()

    return infer


def _evaluate_part(index: int) -> EvaluateFn:
    def evaluate(
        evaluation: Evaluation, instruction: InstructionView, operands: tuple[Value, ...]
    ) -> Value:
        del evaluation, instruction
        return operands[0][index]

    return evaluate


def _wrapped(call: OpCall, name: str, declared: Shape | None) -> Shape:
    """Result shape of the synchronous opcode on the same operands."""
    op = _COLLECTIVES[name]
    inner = OpCall(op, call.operands, call.attrs, declared)
    return inner.result() if op.infer is None else op.infer(inner)


def _infer_pair(name: str) -> InferFn:
    """Shape rule: (operands, result of ``name``, contexts...)."""

    def infer(call: OpCall) -> Shape:
        declared = None if call.declared is None else call.declared.without_layout()
        contexts = () if declared is None else declared.tuple_shapes[2:]
        part = declared.tuple_shapes[1] if declared and len(declared.tuple_shapes) > 1 else None
        result = _wrapped(call, name, part)
        return tuple_of(_one_or_tuple(call.operands), result.without_layout(), *contexts)

    return infer


def _one_or_tuple(shapes: Sequence[Shape]) -> Shape:
    plain = [s.without_layout() for s in shapes]
    return plain[0] if len(plain) == 1 else tuple_of(*plain)


def _evaluate_pair(name: str) -> EvaluateFn:
    """Runs ``name`` at once and keeps its result beside the operands."""

    def evaluate(
        evaluation: Evaluation, instruction: InstructionView, operands: tuple[Value, ...]
    ) -> Value:
        result = _run(name, evaluation, instruction, instruction.shape.tuple_shapes[1], operands)
        kept = operands[0] if len(operands) == 1 else operands
        return kept, result, *_context(instruction.shape)

    return evaluate


def _infer_reduce_start(call: OpCall) -> Shape:
    return _wrapped(call, "all-reduce", call.declared)


def _evaluate_reduce_start(
    evaluation: Evaluation, instruction: InstructionView, operands: tuple[Value, ...]
) -> Value:
    return _run("all-reduce", evaluation, instruction, instruction.shape, operands)


def _infer_copy_start(call: OpCall) -> Shape:
    copied = call.operands[0].without_layout()
    return tuple_of(copied, copied, array(dt.U32))


def _evaluate_copy_start(
    evaluation: Evaluation, instruction: InstructionView, operands: tuple[Value, ...]
) -> Value:
    del evaluation
    return operands[0], operands[0], *_context(instruction.shape)


OPS: tuple[OpDef, ...] = (
    OpDef(
        "async-start",
        (0, VARIADIC),
        "Begins a wrapped computation.",
        attrs=ASYNC,
        infer=_infer_async_start,
        evaluate=_evaluate_async_start,
        category="async",
        moved=moved.nothing,
    ),
    OpDef(
        "async-update",
        (1, VARIADIC),
        "Continues a wrapped computation.",
        attrs=ASYNC,
        infer=infer_same,
        evaluate=evaluate_first,
        category="async",
    ),
    OpDef(
        "async-done",
        (1, VARIADIC),
        "Finishes a wrapped computation.",
        attrs=ASYNC_CHAIN,
        infer=_infer_part(1),
        evaluate=_evaluate_part(1),
        category="async",
    ),
    OpDef(
        "all-gather-start",
        (1, VARIADIC),
        "Begins an all-gather.",
        attrs=GATHER,
        infer=_infer_pair("all-gather"),
        evaluate=_evaluate_pair("all-gather"),
        category="async",
    ),
    OpDef(
        "all-gather-done",
        1,
        "Finishes an all-gather.",
        infer=_infer_part(1),
        evaluate=_evaluate_part(1),
        category="async",
    ),
    OpDef(
        "all-reduce-start",
        (1, VARIADIC),
        "Begins an all-reduce.",
        attrs=REDUCE,
        infer=_infer_reduce_start,
        evaluate=_evaluate_reduce_start,
        category="async",
        tolerance=Tolerance.SUM,
    ),
    OpDef(
        "all-reduce-done",
        1,
        "Finishes an all-reduce.",
        infer=infer_same,
        evaluate=evaluate_first,
        category="async",
    ),
    OpDef(
        "collective-permute-start",
        (1, VARIADIC),
        "Begins a collective-permute.",
        attrs=PERMUTE,
        infer=_infer_pair("collective-permute"),
        evaluate=_evaluate_pair("collective-permute"),
        category="async",
    ),
    OpDef(
        "collective-permute-done",
        1,
        "Finishes a collective-permute.",
        infer=_infer_part(1),
        evaluate=_evaluate_part(1),
        category="async",
    ),
    OpDef(
        "copy-start",
        1,
        "Begins a copy between memories.",
        attrs=(Attr("cross_program_prefetch_index", AttrKind.INT),),
        infer=_infer_copy_start,
        evaluate=_evaluate_copy_start,
        category="async",
    ),
    OpDef(
        "copy-done",
        1,
        "Finishes a copy.",
        infer=_infer_part(0),
        evaluate=_evaluate_part(0),
        category="async",
    ),
)
