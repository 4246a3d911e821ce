"""The evaluator: runs HLO in NumPy, one opcode definition at a time.

It is the living definition of the opset: written for reading, not for speed, and every backend is
held to it. What an opcode means stands in its OpDef under `hlo/ops/`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from xladev.errors import ArgumentError, EvaluationError, XladevError
from xladev.hlo.bounded import Bounded, from_live, to_live, trimmed
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.literal import Value
from xladev.hlo.vectorize import apply_elementwise
from xladev.instrument import is_interruption

MAX_CALL_DEPTH = 200
"""Deepest nesting of calls that is run; deeper programs are refused, not crashed on."""

_MAY_ACT = frozenset({"control", "fusion", "io", "collective", "async", "random", "dynamic"})
"""Categories of opcodes that may do more than give an array."""


@dataclass(frozen=True, slots=True)
class HloEvaluator:
    """Evaluates modules and computations.

    Attributes:
        replica, partition: which of several devices this evaluation stands for.
        seed: start of the hidden state of ``rng``.
        shared: state shared by all calls of one run (random state, channels between devices).
        depth: how many calls are open.
    """

    replica: int = 0
    partition: int = 0
    seed: int = 0
    shared: dict[str, Any] = field(default_factory=dict)
    depth: int = 0

    def run(self, module: HloModule, *arguments: Value) -> Value:
        """Value of the entry computation.

        Args:
            module: what to run.
            arguments: one value per parameter: array, `Bounded` (or only its live part) where the
                shape is dynamic, tuple of values, or None for a token.

        Returns:
            A value of the root's shape; arrays of dynamic shape as `Bounded`.

        Raises:
            ArgumentError: number, dtype or dimensions of the arguments are wrong.
            EvaluationError: an instruction has no value here (infeed and the like).
        """
        check_arguments(module.entry, arguments)
        parameters = module.entry.parameters
        live = [to_live(a, p.shape) for a, p in zip(arguments, parameters, strict=True)]
        return from_live(self.call(module.entry, live), module.entry.root.shape)

    def call(self, computation: HloComputation, arguments: Sequence[Value]) -> Value:
        """Value of a computation on these arguments.

        Args:
            computation: what to evaluate.
            arguments: for each parameter an array of its live dimensions, a tuple, or None.

        Raises:
            EvaluationError: calls nest too deep, or an instruction has no value here.
        """
        if self.depth >= MAX_CALL_DEPTH:
            raise EvaluationError(
                f"calls are nested more than {MAX_CALL_DEPTH} deep",
                where=f"computation {computation.name}",
                hint="inline calls first: `xladev opt --passes call-inliner`",
            )
        inner = replace(self, depth=self.depth + 1)
        values: dict[HloInstruction, Value] = {}
        last_use = _last_uses(computation)
        for at, instruction in enumerate(computation.instructions):
            values[instruction] = inner.instruction(instruction, values, arguments)
            for operand in instruction.operands:
                if last_use[operand] == at:
                    values.pop(operand, None)
        return values[computation.root]

    def apply(self, computation: HloComputation, arguments: Sequence[Value]) -> Value:
        """Values of a scalar computation on arrays of equal shape, element by element."""
        return apply_elementwise(self, computation, arguments)

    def instruction(
        self,
        instruction: HloInstruction,
        values: Mapping[HloInstruction, Value],
        arguments: Sequence[Value],
    ) -> Value:
        """Value of one instruction, given those of its operands."""
        if instruction.opcode == "parameter":
            return arguments[instruction["parameter_number"]]
        return self.value(instruction, tuple(values[o] for o in instruction.operands))

    def value(self, instruction: HloInstruction, operands: tuple[Value, ...]) -> Value:
        """Value of one instruction that is no parameter, of these operands.

        Raises:
            EvaluationError: it has no value here.
        """
        evaluate = instruction.op.evaluate
        if _is_empty(instruction):
            return np.zeros(instruction.shape.dims, instruction.shape.element_type.np)
        if evaluate is None:
            raise EvaluationError(
                f"{instruction.opcode} has no value here",
                where=repr(instruction),
                why=instruction.op.exempt or "the opcode has no evaluation",
            )
        if instruction.shape.dynamic and instruction.op.elementwise:
            shapes = [operand.shape for operand in instruction.operands]
            operands = trimmed(operands, shapes, instruction.shape.rank)
        try:
            with np.errstate(all="ignore"):
                return evaluate(self, instruction, operands)
        except XladevError as error:
            raise error.at(repr(instruction)) from error.__cause__
        except (ValueError, IndexError) as error:
            if is_interruption(error):
                raise
            raise EvaluationError(
                f"{instruction.opcode} cannot take operands of the sizes they have",
                where=repr(instruction),
                why=str(error),
                hint="sizes known at run time alone may contradict each other",
            ) from error


def _is_empty(instruction: HloInstruction) -> bool:
    """True for an array without elements that does nothing else: its sizes may be enormous."""
    shape = instruction.shape
    if not shape.is_array or shape.size or shape.dynamic:
        return False
    return instruction.op.category not in _MAY_ACT


def _last_uses(computation: HloComputation) -> dict[HloInstruction, int]:
    """Position of each instruction's last use; the root is never released."""
    last: dict[HloInstruction, int] = {}
    for at, instruction in enumerate(computation.instructions):
        for operand in instruction.operands:
            last[operand] = at
    last[computation.root] = len(computation.instructions)
    return last


def check_arguments(computation: HloComputation, arguments: Sequence[Value]) -> None:
    """Checks arguments against the parameters; an ArgumentError naming the first that differs."""
    if len(arguments) != len(computation.parameters):
        raise ArgumentError(
            f"{computation.name} takes {len(computation.parameters)} arguments, "
            f"not {len(arguments)}"
        )
    for number, (parameter, argument) in enumerate(
        zip(computation.parameters, arguments, strict=True)
    ):
        for index, leaf in parameter.shape.leaves():
            if leaf.is_array:
                _check_leaf(argument, number, index, leaf)


def _check_leaf(argument: Value, number: int, index: tuple[int, ...], leaf: Any) -> None:
    found = argument
    for i in index:
        found = found[i]
    array = found.array if isinstance(found, Bounded) else found
    dims = getattr(array, "shape", None)
    dtype = getattr(array, "dtype", None)
    if dims is None or not leaf.fits(dims) or dtype != leaf.element_type.np:
        where = f"parameter {number}" + (f", part {list(index)}" if index else "")
        raise ArgumentError(
            f"argument has {dtype}{list(dims) if dims is not None else ''}, "
            f"the program wants {leaf.to_string(layout=False)}",
            where=where,
        )
