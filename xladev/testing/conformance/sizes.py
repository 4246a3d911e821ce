"""What cases need of a device's memory, and how those that do not fit are cut to it.

A program needs twice the bytes of its values that are alive at the same time: the values, and as
much again for what a backend wants beside them (copies, workspace, alignment). That says nothing of
any one backend, so it decides the same for all of them. Nothing is excused: a case that does not
fit is run smaller, and the result says so.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.physical import physical_nbytes
from xladev.hlo.shape import Shape
from xladev.testing.conformance.case import Case

LEAST_NBYTES = 4 << 20
"""Memory that every device is taken to have: no case is cut to less, whatever a device says."""

_HEADROOM = 2
_MOST = 1 << 20
_SHOWN = 120
_VIEWS = frozenset(("parameter", "tuple", "get-tuple-element"))
"""Opcodes that compute nothing: their values are parts of others, or the caller's."""
_COUNTS = re.compile(r"/\*index=\d+\*/")
"""What HLO's text counts the members of large tuples by."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """A case as it is run.

    Attributes:
        case: the case itself, or a smaller one of the same kind and name.
        module: its program.
        cut: what was run instead of what, and why; empty if nothing was cut.
    """

    case: Case
    module: HloModule
    cut: str = ""


def fits(nbytes: int, memory: int | None) -> bool:
    """True if a device of so much memory holds values of ``nbytes`` bytes, and as much again.

    Args:
        nbytes: of values that are alive at the same time.
        memory: of the device in bytes; None if it does not say.
    """
    return memory is None or _HEADROOM * nbytes <= max(memory, LEAST_NBYTES)


def values_nbytes(module: HloModule) -> int:
    """Most bytes of values that are alive at the same time, in the order of the program's text.

    Arguments, results and constants are alive all the time. What a called computation computes is
    added to what its caller keeps meanwhile; inside of fusions, too: a backend need not fuse.
    """
    entry = module.entry
    return sum(_nbytes(p.shape) for p in entry.parameters) + _most_alive(entry)


def _most_alive(computation: HloComputation) -> int:
    """The same of one computation, without its parameters."""
    dies = _deaths(computation)
    alive = most = 0
    for number, instruction in enumerate(computation.instructions):
        if instruction.opcode not in _VIEWS:
            alive += _nbytes(instruction.shape)
        inside = max(map(_most_alive, instruction.called), default=0)
        most = max(most, alive + inside)
        alive -= sum(_nbytes(i.shape) for i in dies.get(number, ()))
    return most


def _deaths(computation: HloComputation) -> dict[int, list[HloInstruction]]:
    """The values that nothing reads after an instruction, by the instruction's number.

    What a tuple holds lives as long as the tuple, and a tuple as long as what is taken from it.
    """
    last: dict[HloInstruction, int] = {computation.root: len(computation.instructions)}
    for number, instruction in reversed(list(enumerate(computation.instructions))):
        end = len(computation.instructions) if instruction.opcode == "constant" else number
        until = last[instruction] = max(last.get(instruction, 0), end)
        for operand in instruction.operands:
            reads = until if instruction.opcode in _VIEWS else number
            last[operand] = max(last.get(operand, 0), reads)
    found: dict[int, list[HloInstruction]] = {}
    for instruction, number in last.items():
        if instruction.opcode not in _VIEWS:
            found.setdefault(number, []).append(instruction)
    return found


def fitted(case: Case, memory: int | None) -> Fitted:
    """The case, cut by the least power of two that makes it fit.

    Args:
        case: of the suite.
        memory: of the device in bytes; None if it does not say.
    """
    module = case.module()
    nbytes = values_nbytes(module)
    if case.cut is None or fits(nbytes, memory):
        return Fitted(case, module)
    factor, smaller, cut = 1, case, module
    while not fits(values_nbytes(cut), memory) and factor < _MOST:
        factor *= 2
        smaller = case.cut(factor)
        cut = smaller.module()
    why = f"twice {nbytes} bytes do not fit the device's {memory}"
    return Fitted(smaller, cut, f"{types_of(cut)} instead of {types_of(module)}: {why}")


def at_most(nbytes: int, memory: int | None) -> int:
    """``nbytes``, halved until a device of so much memory holds it."""
    while not fits(nbytes, memory):
        nbytes //= 2
    return nbytes


def types_of(module: HloModule) -> str:
    """`f32[2,3], s32[] -> f32[3]`: the types that a program takes and gives."""
    entry = module.entry
    taken = ", ".join(_type_of(p.shape) for p in entry.parameters) or "nothing"
    return f"{_shortened(taken)} -> {_shortened(_type_of(entry.root.shape))}"


def _type_of(shape: Shape) -> str:
    return _COUNTS.sub("", shape.to_string(layout=False))


def _shortened(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 4].rstrip(', ')}, ..."


def _nbytes(shape: Shape) -> int:
    if shape.is_tuple:
        return sum(map(_nbytes, shape.tuple_shapes))
    return physical_nbytes(shape) if shape.is_array else 0
