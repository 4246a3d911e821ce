"""Weight fusion: what makes numbers of weights of fewer bits becomes part of the product's kernel.

Weights are kept in 8 or 4 bits, or in bf16 for a product in f32, with scales and zero points for
each column or for groups of lines. As kernels of their own, those conversions would write a matrix
several times as large, which the product then reads. Runs before the other fusions.
"""

from __future__ import annotations

from dataclasses import dataclass

from xladev import instrument
from xladev.compiler.fusion.instruction_fusion import (
    MAX_GROUP,
    KernelNames,
    controlled,
    fused_group,
    is_free,
    kernel_programs,
    with_copies,
    without_dead,
)
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.rebuild import Users, map_computations, rebuild, users_of
from xladev.passes.pass_ import HloModulePass
from xladev.platforms.cpu.bit_pieces import with_bit_pieces
from xladev.platforms.cpu.codegen.products.narrow_weights import narrow_weights_by_shape

MOST_NBYTES = 0.6
"""Bytes that the kernel reads, over those of the matrix that it makes of them."""
_ARITHMETIC = frozenset({
    "add", "and", "convert", "divide", "multiply", "negate", "or", "select", "shift-left",
    "shift-right-arithmetic", "shift-right-logical", "subtract",
})  # fmt: skip
_MOVES = frozenset({
    "bitcast-convert", "broadcast", "concatenate", "copy", "dynamic-slice", "iota", "reshape",
    "reverse", "slice", "transpose",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class WeightFusion(HloModulePass):
    """Makes a `fusion` instruction of each dot whose right operand is made of far fewer bytes."""

    name = "weight-fusion"
    only_for = frozenset({"dot"})

    def run(self, module: HloModule) -> HloModule:
        """The module; a matrix that something else reads, too, stays in memory."""
        programs, names = kernel_programs(module), KernelNames(module)

        def change(computation: HloComputation) -> HloComputation:
            return self._fuse(_unpacked(computation), names)

        return map_computations(module, lambda c: change(c) if c.name in programs else c)

    def _fuse(self, computation: HloComputation, names: KernelNames) -> HloComputation:
        users, alone = users_of(computation), controlled(computation)
        replacements: dict[HloInstruction, HloInstruction] = {}
        for dot in (i for i in computation.instructions if i.opcode == "dot"):
            group = _group(dot, users, alone)
            if group is None:
                continue
            left, whole = dot.operands[0], with_copies(group)
            made = fused_group(dot, whole, computation.name, names)
            read = sum(_read_nbytes(o, users, group) for o in made.operands if o is not left)
            matrix = dot.operands[1].shape.nbytes
            if read > MOST_NBYTES * matrix:
                continue
            why = f"{read:,} bytes become a matrix of {matrix:,} in its kernel, block by block"
            instrument.decision(self.name, dot.name, why)
            replacements[dot] = made
        return without_dead(rebuild(computation, replacements)) if replacements else computation


def _unpacked(computation: HloComputation) -> HloComputation:
    """The computation whose dots have weights of few bits by `bitcast-convert`."""
    users, alone = users_of(computation), controlled(computation)
    replacements: dict[HloInstruction, HloInstruction] = {}
    for dot in (i for i in computation.instructions if i.opcode == "dot"):
        group = _group(dot, users, alone)
        if group is not None:
            found = with_bit_pieces(dot.operands[1])
            replacements |= {old: new for old, new in found.items() if old in group}
    return without_dead(rebuild(computation, replacements)) if replacements else computation


def _read_nbytes(value: HloInstruction, users: Users, group: set[HloInstruction]) -> int:
    """Bytes of a value that a kernel reads: of its slices, if it reads nothing else of it."""
    readers = [user for user in users[value] if user in group]
    if readers and all(user.opcode in ("dynamic-slice", "slice") for user in readers):
        return sum(user.shape.nbytes for user in readers)
    return value.shape.nbytes


def _group(
    dot: HloInstruction, users: Users, alone: set[HloInstruction]
) -> set[HloInstruction] | None:
    """A dot and all that only its right operand is made of; None if that is in memory anyway."""
    if len(dot.operands) != 2 or dot in alone or dot.note.device:
        return None
    left, right = dot.operands
    if left is right or narrow_weights_by_shape(dot) is None:
        return None
    group = {dot}
    waiting = [right]
    while waiting:
        value = waiting.pop()
        is_made = value.opcode in _ARITHMETIC or value.opcode in _MOVES
        if not is_made or value in group or value is left or is_free(value):
            continue
        if value in alone or value.note.device or not group.issuperset(users[value]):
            continue
        group.add(value)
        waiting += value.operands
    return group if right in group and len(group) <= MAX_GROUP else None
