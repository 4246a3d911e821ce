"""Asynchronous pairs become the one synchronous instruction that they stand for."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.literal import Literal
from xladev.hlo.opset import opdef
from xladev.hlo.rebuild import map_computations, rebuild, users_of
from xladev.hlo.shape import Shape
from xladev.passes.dce import DeadCodeElimination
from xladev.passes.pass_ import HloModulePass

_NAMED_DONE = frozenset(
    {"all-gather-done", "all-reduce-done", "collective-permute-done", "copy-done"}
)
_NAMED_START = frozenset(name.replace("-done", "-start") for name in _NAMED_DONE)
_ENDS = frozenset({"async-update", "async-done", *_NAMED_DONE})


@dataclass(frozen=True, slots=True)
class SynchronousPairs(HloModulePass):
    """Replaces each ``-done`` by what its ``-start`` began, and `async-done` by a `call`.

    A start whose value is used by anything else than its done becomes the tuple of its operands,
    the result and zeros.
    """

    name = "synchronous-pairs"
    only_for = frozenset({"async-start", "async-done", *_NAMED_DONE, *_NAMED_START})

    def run(self, module: HloModule) -> HloModule:
        """See the class."""
        changed = map_computations(module, _change)
        return module if changed is module else DeadCodeElimination().run(changed)


def _change(computation: HloComputation) -> HloComputation:
    looked_into = _looked_into(computation)
    replacements: dict[HloInstruction, HloInstruction] = {}
    for instruction in computation.instructions:
        if _start_of(instruction) in looked_into:
            replacements[instruction] = _opened(instruction)
            continue
        made = _synchronous(instruction)
        if made is not None:
            replacements[instruction] = made
    return rebuild(computation, replacements)


# Starts that more reads than what ends them


def _looked_into(computation: HloComputation) -> frozenset[HloInstruction]:
    """The starts that are a result, or read by anything else than what ends them."""
    starts = [i for i in computation.instructions if _start_of(i) is i]
    if not starts:
        return frozenset()
    users = users_of(computation)
    found = {
        start
        for i in computation.instructions
        if (start := _start_of(i)) is not None and i.opcode not in _NAMED_DONE | {"async-done"}
        if i is computation.root or any(u.opcode not in _ENDS for u in users[i])
    }
    return frozenset(start for start in found if _has_plain_contexts(start))


def _start_of(i: HloInstruction) -> HloInstruction | None:
    """The start whose value an instruction holds or ends; None if there is none."""
    if i.opcode in _ENDS:
        i = i.operands[0]
    while i.opcode == "async-update":
        i = i.operands[0]
    if i.opcode == "async-start":
        return i if i["calls"] else None
    return i if i.opcode in _NAMED_START else None


def _has_plain_contexts(start: HloInstruction) -> bool:
    return all(shape.is_array and not shape.is_dynamic for shape in start.shape.tuple_shapes[2:])


def _opened(i: HloInstruction) -> HloInstruction:
    """What takes the place of such a start, or of what goes on with it or ends it."""
    if i.opcode == "async-update":
        return i.operands[0]
    if i.opcode in _ENDS:
        if i.opcode == "all-reduce-done":
            return i.operands[0]
        index = 0 if i.opcode == "copy-done" else 1
        part = opdef("get-tuple-element")
        return HloInstruction(part, i.shape, i.operands, {"index": index}, i.name, i.note)
    if i.opcode == "all-reduce-start":
        return _made(i, i, "all-reduce", _known_attrs(i, "all-reduce"))
    opcode = i.opcode.removesuffix("-start")
    given, result, *contexts = i.shape.tuple_shapes
    result = given if opcode == "copy" else result
    attrs = {"to_apply": i["calls"]} if opcode == "async" else _known_attrs(i, opcode)
    inner = replace(i, shape=result, name=f"{i.name}.result")
    made = _made(inner, i, "call" if opcode == "async" else opcode, attrs)
    kept = (made, i.operands[0]) if opcode == "copy" else (_operands(i, given), made)
    return _tuple(i.name, i.shape, (*kept, *map(_zero, contexts)))


def _operands(start: HloInstruction, shape: Shape) -> HloInstruction:
    """The first part of a start's value: its operand, or a tuple of them."""
    if not shape.is_tuple:
        return start.operands[0]
    return _tuple(f"{start.name}.operands", shape, start.operands)


def _tuple(name: str, shape: Shape, parts: tuple[HloInstruction, ...]) -> HloInstruction:
    return HloInstruction(opdef("tuple"), shape, parts, {}, name)


def _zero(shape: Shape) -> HloInstruction:
    """A context, of which nothing is said but its shape."""
    literal = Literal(shape, np.zeros(shape.dims, shape.element_type.np))
    return HloInstruction(opdef("constant"), shape, (), {"literal": literal}, "context")


def _known_attrs(start: HloInstruction, opcode: str) -> dict[str, object]:
    known = opdef(opcode).by_name
    return {name: value for name, value in start.attrs.items() if name in known}


# Pairs


def _synchronous(done: HloInstruction) -> HloInstruction | None:
    """What a done and its start do together; None if the instruction is no done."""
    if done.opcode in _NAMED_DONE:
        start = done.operands[0]
        opcode = done.opcode.removesuffix("-done")
        if start.opcode != f"{opcode}-start":
            return None
        return _made(done, start, opcode, _known_attrs(start, opcode))
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
