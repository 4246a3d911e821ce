"""Asynchronous pairs become the one synchronous instruction that they stand for."""

from __future__ import annotations

from dataclasses import dataclass, replace

from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.opset import opdef
from xladev.hlo.rebuild import map_computations, rebuild
from xladev.passes.dce import DeadCodeElimination
from xladev.passes.pass_ import HloModulePass

_NAMED_DONE = frozenset(
    {"all-gather-done", "all-reduce-done", "collective-permute-done", "copy-done"}
)


@dataclass(frozen=True, slots=True)
class SynchronousPairs(HloModulePass):
    """Replaces each ``-done`` by what its ``-start`` began, and `async-done` by a `call`.

    A start whose value is used by anything else than its done stays.
    """

    name = "synchronous-pairs"
    only_for = frozenset({"async-done", *_NAMED_DONE})

    def run(self, module: HloModule) -> HloModule:
        """See the class."""
        changed = map_computations(module, _change)
        return module if changed is module else DeadCodeElimination().run(changed)


def _change(computation: HloComputation) -> HloComputation:
    replacements: dict[HloInstruction, HloInstruction] = {}
    for instruction in computation.instructions:
        made = _synchronous(instruction)
        if made is not None:
            replacements[instruction] = made
    return rebuild(computation, replacements)


def _synchronous(done: HloInstruction) -> HloInstruction | None:
    """What a done and its start do together; None if the instruction is no done."""
    if done.opcode in _NAMED_DONE:
        start = done.operands[0]
        opcode = done.opcode.removesuffix("-done")
        if start.opcode != f"{opcode}-start":
            return None
        known = opdef(opcode).by_name
        attrs = {name: value for name, value in start.attrs.items() if name in known}
        return _made(done, start, opcode, attrs)
    if done.opcode != "async-done":
        return None
    start = done.operands[0]
    while start.opcode == "async-update":
        start = start.operands[0]
    if start.opcode != "async-start" or not start["calls"]:
        return None
    return _made(done, start, "call", {"to_apply": start["calls"]})


def _made(
    done: HloInstruction, start: HloInstruction, opcode: str, attrs: dict[str, object]
) -> HloInstruction:
    before = (*start.note.control_predecessors, *done.note.control_predecessors)
    note = replace(
        start.note, control_predecessors=tuple(p for p in dict.fromkeys(before) if p is not start)
    )
    return HloInstruction(opdef(opcode), done.shape, start.operands, attrs, done.name, note)
