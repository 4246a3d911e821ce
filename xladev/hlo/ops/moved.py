"""Bytes that opcodes move which do not read all of each operand and write all of a result once."""

from __future__ import annotations

from xladev.hlo.opdef import InstructionView


def nothing(instruction: InstructionView) -> int:
    """Of what names, groups or waits for values, or runs what moves them itself."""
    del instruction
    return 0


def result_twice(instruction: InstructionView) -> int:
    """A part of the operand, read and written."""
    return 2 * instruction.shape.nbytes


def windows_read(instruction: InstructionView) -> int:
    """The windows, twice, and what says where they are."""
    return 2 * instruction.shape.nbytes + sum(o.shape.nbytes for o in instruction.operands[1:])


def window_written(instruction: InstructionView) -> int:
    """A window replaced in place: the new one is read and written."""
    return instruction.operands[1].shape.nbytes + sum(
        o.shape.nbytes for o in instruction.operands[1:]
    )


def windows_combined(instruction: InstructionView) -> int:
    """Windows combined in place: updates and indices read, windows read and written."""
    count = len(instruction.operands) // 2
    updates = sum(o.shape.nbytes for o in instruction.operands[count + 1 :])
    return 3 * updates + instruction.operands[count].shape.nbytes
