"""Constants that kernels only move: their values, and a pass that moves them once.

Filters of depthwise convolutions that become channels-last are transposed. Of a constant, that is
the same in each run. Runs after constants were packed, which takes them from wherever they are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xladev import instrument
from xladev.compiler.fusion.instruction_fusion import controlled, kernel_programs, without_dead
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.literal import Array
from xladev.hlo.rebuild import map_computations, rebuild
from xladev.passes.constant_folding import as_constant
from xladev.passes.pass_ import HloModulePass

MOST_NBYTES = 1 << 20
"""Larger values stay as they are: the program would hold them twice where something else reads the
constant too."""
_MOVES = frozenset({"transpose", "reshape", "copy", "reverse", "slice", "convert"})
"""What a constant may come through."""


@dataclass(frozen=True, slots=True)
class MovedConstants(HloModulePass):
    """Makes constants of kernels that move a constant and do nothing else."""

    name = "moved-constants"
    only_for = frozenset({"constant"})

    def run(self, module: HloModule) -> HloModule:
        """The module, its kernels formed, with those of up to `MOST_NBYTES` as constants."""
        programs = kernel_programs(module)
        return map_computations(module, lambda c: _moved(c) if c.name in programs else c)


def _moved(computation: HloComputation) -> HloComputation:
    alone = controlled(computation)
    made = {
        i: as_constant(i, np.ascontiguousarray(moved_value(i)).reshape(i.shape.dims))
        for i in computation.instructions
        if i not in alone and _is_moved(i)
    }
    for i in made:
        instrument.decision(MovedConstants.name, i.name, "it is a constant that is moved")
    return without_dead(rebuild(computation, made)) if made else computation


def _is_moved(i: HloInstruction) -> bool:
    if not i.shape.is_array or i.shape.is_dynamic or i.note.device:
        return False
    is_kernel = i.opcode == "fusion" or i.opcode in _MOVES - {"reshape"}
    return is_kernel and i.shape.nbytes <= MOST_NBYTES and constant_source(i) is not None


def constant_source(value: HloInstruction) -> HloInstruction | None:
    """The constant that a value is made of by moves; None if it is made of anything else."""
    while value.opcode in _MOVES or _is_moving_kernel(value):
        (value,) = value.operands
    is_array = value.opcode == "constant" and value.shape.is_array and not value.shape.is_scalar
    return value if is_array and not value["literal"].elided else None


def _is_moving_kernel(value: HloInstruction) -> bool:
    if value.opcode != "fusion" or len(value.operands) != 1:
        return False
    opcodes = {i.opcode for i in value["calls"].instructions}
    return opcodes <= _MOVES | {"parameter"}


def moved_value(value: HloInstruction) -> Array:
    """The array of what has a `constant_source`."""
    chain: list[HloInstruction] = []
    while value.opcode != "constant":
        chain.append(value)
        (value,) = value.operands
    found: Array = value["literal"].array
    for i in reversed(chain):
        found = HloEvaluator().value(i, (found,))
    return found
