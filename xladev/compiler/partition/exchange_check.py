"""Checks what exchanges values against the devices of an execution, before anything is run."""

from __future__ import annotations

from xladev.compiler.partition.assignment import (
    COLLECTIVE_OPCODES,
    EVALUATOR,
    Assignment,
    exchanges,
)
from xladev.errors import UnsupportedError
from xladev.hlo.device_groups import check_collective
from xladev.hlo.ir import HloInstruction, HloModule, reachable


def check_exchanges(
    module: HloModule, assignment: Assignment, replicas: int, partitions: int
) -> None:
    """Refuses collectives that the devices cannot run as they stand.

    Args:
        module: the program, prepared.
        assignment: where its instructions run.
        replicas: replicas of an execution.
        partitions: partitions of each replica.

    Raises:
        EvaluationError: a collective names a device that is not there.
        ShapeError: a result does not fit the group that makes it: parts of it would not be written.
        UnsupportedError: several devices, and the evaluator, which runs on each alone, has an
            instruction in which values are exchanged.
    """
    for computation in reachable(module.entry):
        for instruction in computation.instructions:
            if instruction.opcode in COLLECTIVE_OPCODES:
                check_collective(instruction, replicas, partitions)
    if replicas * partitions > 1:
        for instruction, device in assignment.devices.items():
            if device == EVALUATOR and _exchanges_within(instruction):
                raise _alone(instruction)


def _exchanges_within(instruction: HloInstruction) -> bool:
    within = (i for c in instruction.called for inner in reachable(c) for i in inner.instructions)
    return any(map(exchanges, (instruction, *within)))


def _alone(instruction: HloInstruction) -> UnsupportedError:
    return UnsupportedError(
        f"{instruction.opcode}, which exchanges values between devices, falls to the evaluator",
        where=repr(instruction),
        why="the evaluator runs what it is given on each device alone",
        hint="exchange the values outside of it",
    )
