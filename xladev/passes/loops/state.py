"""Computations that take one tuple and give one: which parts are used, and with other parts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from xladev.hlo.builder import make_instruction
from xladev.hlo.ir import NO_ANNOTATIONS, Annotations, HloComputation, HloInstruction
from xladev.hlo.rebuild import rebuild
from xladev.hlo.shape import Shape, tuple_of
from xladev.passes.dce import without_dead

Parts = Mapping[int, Sequence[HloInstruction]]
"""The get-tuple-elements of a value, by index."""


def parts_among(users: Iterable[HloInstruction]) -> Parts | None:
    """How the users of a tuple take it apart; None if one of them takes it as a whole."""
    found: dict[int, list[HloInstruction]] = {}
    for i in users:
        if i.opcode != "get-tuple-element":
            return None
        found.setdefault(i["index"], []).append(i)
    return found


def parameter_parts(computation: HloComputation) -> Parts | None:
    """How the only parameter, a tuple, is taken apart; None if it is used otherwise, too."""
    parameters = computation.parameters
    if len(parameters) != 1 or not parameters[0].shape.is_tuple:
        return None
    if computation.root is parameters[0] or has_tuple_sharding(parameters[0]):
        return None
    return parts_among(i for i in computation.instructions if parameters[0] in i.operands)


def has_tuple_sharding(i: HloInstruction) -> bool:
    """True if an annotation counts the parts of a value, which then must stay as they are."""
    return i.note.sharding is not None and i.note.sharding.kind == "tuple"


def with_root(
    computation: HloComputation, root: HloInstruction, effects: set[str]
) -> HloComputation:
    """The computation giving another value; what nothing needs any more is left out."""
    if root is not computation.root:
        computation = rebuild(computation, {}, root=root)
    return without_dead(computation, effects)


def with_results(
    computation: HloComputation, results: Sequence[HloInstruction], effects: set[str]
) -> HloComputation:
    """The computation giving a tuple of other values."""
    old = computation.root
    root = make_instruction("tuple", results, name=old.name, note=old.note.place)
    return with_root(computation, root, effects)


def parameter_changes(
    computation: HloComputation, parts: Parts, kept: Sequence[int], added: Sequence[Shape] = ()
) -> tuple[HloInstruction, dict[HloInstruction, HloInstruction]]:
    """A parameter of some of the parts and further ones behind them, and what changes with it.

    Args:
        computation: what takes the parameter.
        parts: its `parameter_parts`, none of a part left out.
        kept: indices of the parts that it still takes, in order.
        added: shapes of further parts.
    """
    (parameter,) = computation.parameters
    shapes = [parameter.shape.tuple_shapes[k] for k in kept]
    made = replace(parameter, shape=tuple_of(*shapes, *added), note=without_origin(parameter.note))
    changes = {parameter: made}
    for new, old in enumerate(kept):
        for i in parts.get(old, ()):
            changes[i] = replace(i, operands=(made,), attrs={"index": new})
    return made, changes


def with_parameter_parts(
    computation: HloComputation, parts: Parts, kept: Sequence[int], added: Sequence[Shape] = ()
) -> HloComputation:
    """The computation taking other parts; see `parameter_changes`."""
    return rebuild(computation, parameter_changes(computation, parts, kept, added)[1])


def without_origin(note: Annotations) -> Annotations:
    """Annotations for a tuple of other parts: no longer the value that it once was."""
    return note if note is NO_ANNOTATIONS else replace(note, origin=None)


def part(value: HloInstruction, index: int) -> HloInstruction:
    """One part of a tuple; what the tuple was made of, where that is plain."""
    if value.opcode == "tuple":
        return value.operands[index]
    return make_instruction(
        "get-tuple-element",
        (value,),
        {"index": index},
        name=f"{value.name}.{index}",
        note=value.note.place,
    )


def some_parts(value: HloInstruction, kept: Iterable[int], name: str) -> HloInstruction:
    """A tuple of some parts of a tuple."""
    parts = tuple(part(value, k) for k in kept)
    return make_instruction("tuple", parts, name=name, note=value.note.place)
