"""Chooses a sharding for each array of a program: its annotations, its interface, and the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xladev.hlo.ir import HloInstruction, HloModule
from xladev.hlo.placement import CONSTRAINT, RESULT
from xladev.hlo.shape import flattened_shapes
from xladev.hlo.sharding.axis_sharding import AxisSharding, whole_on
from xladev.passes.sharding.asked import Annotations, Asked
from xladev.passes.sharding.chosen import ChosenShardings
from xladev.passes.sharding.leaves import source

Cut = AxisSharding | None


@dataclass(frozen=True, slots=True)
class Choice:
    """How a program is cut.

    Attributes:
        chosen: for each array.
        parameters: for each parameter of the entry, each of its arrays; None for tokens.
        results: for each array of the result; None where it does not matter.
    """

    chosen: ChosenShardings
    parameters: tuple[tuple[Cut, ...], ...]
    results: tuple[Cut, ...]


def choose(module: HloModule, annotations: Annotations) -> Choice:
    """How a program is cut whose calls are inlined."""
    asked = _asked(module, annotations)
    cuts = {i: tuple(a and a.sharding for a in found) for i, found in asked.items()}
    chosen = ChosenShardings(annotations.grid, annotations.meshes, cuts)
    header, entry = module.header, module.entry
    parameters = tuple(
        _interface(p, annotations.of(p), annotations) for p in entry.parameters
    )
    results = _results(module, annotations, header.propagate_to_output)
    return Choice(chosen, parameters, results)


def _asked(
    module: HloModule, annotations: Annotations
) -> dict[HloInstruction, tuple[Asked | None, ...]]:
    """What annotations say of instructions other than parameters and the root."""
    found: dict[HloInstruction, tuple[Asked | None, ...]] = {}
    for computation in module.computations:
        for i in computation.instructions:
            if i is module.entry.root and i.opcode == "tuple":
                continue
            asked = annotations.of(i)
            kept = tuple(None if a is None or a.says_nothing or a.fault else a for a in asked)
            if any(kept):
                found[i] = kept
    return found


def _interface(
    i: HloInstruction, asked: Sequence[Asked | None], annotations: Annotations
) -> tuple[Cut, ...]:
    """Whole unless something is asked for."""
    shapes = flattened_shapes(i.shape)
    given = asked or (None,) * len(shapes)
    wholes = [whole_on(annotations.grid, s.rank) if s.is_array else None for s in shapes]
    return tuple(a.sharding if a else w for a, w in zip(given, wholes, strict=True))


def _results(
    module: HloModule, annotations: Annotations, flags: Sequence[bool]
) -> tuple[Cut, ...]:
    root = module.entry.root
    said = _interface(root, annotations.of(root), annotations)
    found: list[Cut] = []
    for number, shape in enumerate(flattened_shapes(root.shape)):
        asked = _asked_of_result(root, number, annotations)
        if asked is not None and not asked.says_nothing:
            found.append(asked.sharding)
        elif flag(flags, number):
            found.append(None)
        else:
            found.append(said[number] if shape.is_array else None)
    return tuple(found)


def _asked_of_result(
    root: HloInstruction, number: int, annotations: Annotations
) -> Asked | None:
    """What a custom call that only says so asks of a result."""
    value, _ = source(root, number)
    is_call = value.opcode == "custom-call"
    if not is_call or value["custom_call_target"] not in (RESULT, CONSTRAINT):
        return None
    (asked,) = annotations.of(value) or (None,)
    return asked


def flag(flags: Sequence[bool], number: int) -> bool:
    """One flag is for all."""
    if len(flags) == 1:
        return flags[0]
    return number < len(flags) and flags[number]
