"""Transforms with the transposes around them, and a number that they are multiplied by.

A transform of dimensions other than the last is written in HLO as one of the last between
transposes; the kernel transforms columns where they are. Runs before the other fusions, which make
kernels of transposes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xladev import instrument
from xladev.compiler.fusion.instruction_fusion import (
    KernelNames,
    controlled,
    fused_group,
    kernel_programs,
    with_copies,
    without_dead,
)
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.rebuild import Users, map_computations, rebuild, users_of
from xladev.passes.pass_ import HloModulePass
from xladev.platforms.cpu.codegen.fourier.description import fourier_at

_WHY = "columns are transformed where they are, and multiplied as they are written"


@dataclass(frozen=True, slots=True)
class FourierFusion(HloModulePass):
    """Makes a `fusion` instruction of each fft with transposes around it or a factor behind it."""

    name = "fourier-fusion"
    only_for = frozenset({"fft"})

    def run(self, module: HloModule) -> HloModule:
        """The module; what is between is part of a kernel only where nothing else needs it."""
        programs, names = kernel_programs(module), KernelNames(module)
        return map_computations(module, lambda c: self._fuse(c, names) if c.name in programs else c)

    def _fuse(self, computation: HloComputation, names: KernelNames) -> HloComputation:
        users, alone = users_of(computation), controlled(computation)
        replacements: dict[HloInstruction, HloInstruction] = {}
        for fft in (i for i in computation.instructions if i.opcode == "fft"):
            for group in _groups(fft, users):
                if any(i in alone or i.note.device for i in group):
                    continue
                made = fused_group(group[-1], with_copies(set(group)), computation.name, names)
                if fourier_at(made["calls"].root) is not None:
                    instrument.decision(self.name, group[-1].name, _WHY)
                    replacements[group[-1]] = made
                    break
        return without_dead(rebuild(computation, replacements)) if replacements else computation


def _groups(fft: HloInstruction, users: Users) -> Iterator[tuple[HloInstruction, ...]]:
    """What may become one kernel with an fft, the largest first; the last one is its result."""
    (before,), behind = fft.operands, _behind(fft, users)
    if behind and before.opcode == behind[0].opcode == "transpose":
        yield from ((before, fft, *behind[:count]) for count in range(len(behind), 0, -1))
    elif behind and behind[0].opcode == "multiply":
        yield fft, behind[0]


def _behind(fft: HloInstruction, users: Users) -> tuple[HloInstruction, ...]:
    """A transpose, a product or both, of which only the last is used elsewhere."""
    found: list[HloInstruction] = []
    value = fft
    for opcode in ("transpose", "multiply"):
        if len(users[value]) == 1 and users[value][0].opcode == opcode:
            value = users[value][0]
            found.append(value)
    return tuple(found)
