"""Broadcasts of smaller arrays, one for each reader: no kernel need write what spreads a few bytes.

A kernel is formed of values that only it reads. A broadcast that several kernels read would be a
kernel of its own, as large as its result, though reading the operand instead costs nothing. So each
reader gets a broadcast of its own first; those that end up in one kernel, or in none, are merged
afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from xladev.compiler.fusion.instruction_fusion import (
    controlled,
    default_can_fuse,
    is_free,
    kernel_programs,
)
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.names import with_unique_names
from xladev.hlo.rebuild import map_computations, rebuild, users_of, with_operands
from xladev.passes.pass_ import HloModulePass


@dataclass(frozen=True, slots=True)
class BroadcastDuplication(HloModulePass):
    """Gives each reader a broadcast of its own, so that each kernel spreads small arrays itself.

    Those that are in no kernel afterwards are to be merged again (`cse`).
    """

    name = "broadcast-duplication"
    only_for = frozenset({"broadcast"})

    def run(self, module: HloModule) -> HloModule:
        """See the class; the module has no fusions."""
        programs = kernel_programs(module)
        changed = map_computations(module, lambda c: _apart(c) if c.name in programs else c)
        return module if changed is module else with_unique_names(changed)


def _apart(computation: HloComputation) -> HloComputation:
    """The computation with a broadcast for each but the last reader that could fuse it."""
    users, alone = users_of(computation), controlled(computation)
    given: dict[HloInstruction, dict[HloInstruction, HloInstruction]] = {}
    for i in computation.instructions:
        if i in alone or i.note.device or not _spreads(i):
            continue
        readers = [r for r in users[i] if default_can_fuse(i, r)]
        for reader in readers[: len(readers) - (len(readers) == len(users[i]))]:
            given.setdefault(reader, {})[i] = replace(i)
    replacements = {
        reader: with_operands(reader, tuple(own.get(o, o) for o in reader.operands))
        for reader, own in given.items()
    }
    return rebuild(computation, replacements)


def _spreads(i: HloInstruction) -> bool:
    """True for a broadcast that is larger than its operand, unless all of it costs nothing."""
    return i.opcode == "broadcast" and i.operands[0].shape.size < i.shape.size and not is_free(i)
