"""Collectives as thunks: groups of device numbers, dimensions, reduction."""

from __future__ import annotations

from dataclasses import dataclass

from xladev.compiler.program.thunks import Collective, Slots
from xladev.hlo.device_groups import Groups
from xladev.hlo.ir import HloComputation, HloInstruction

_SIMPLE_REDUCTIONS = frozenset({"add", "multiply", "minimum", "maximum", "and", "or", "xor"})


@dataclass(frozen=True, slots=True)
class CollectivePlan:
    """What the program knows about a collective.

    Attributes:
        groups: device numbers, one row per group.
        reduction: ``add`` and the like; empty if there is none or it is not so simple.
        reducer: number of the executable that combines two arrays otherwise.
    """

    groups: Groups
    reduction: str = ""
    reducer: int | None = None


def simple_reduction(computation: HloComputation) -> str:
    """The opcode of a computation that applies one binary opcode to its two parameters, or ""."""
    root = computation.root
    if root.opcode not in _SIMPLE_REDUCTIONS or len(computation.instructions) != 3:
        return ""
    return root.opcode if set(root.operands) == set(computation.parameters) else ""


def plan_collective(
    instruction: HloInstruction,
    plan: CollectivePlan,
    arguments: Slots,
    results: Slots,
    kind: type[Collective] = Collective,
) -> Collective:
    """The thunk of a collective, or of its start."""
    opcode = instruction.opcode
    pairs = instruction["source_target_pairs"] if opcode == "collective-permute" else ()
    return kind(
        opcode,
        instruction.name,
        plan.groups,
        arguments,
        results,
        _dimensions(instruction),
        plan.reduction,
        plan.reducer,
        tuple((int(s), int(t)) for s, t in pairs),
        "has_dynamic_root" in instruction.attrs,
        tuple(map(tuple, instruction.attrs.get("slice_sizes", ()))),
    )


def _dimensions(instruction: HloInstruction) -> tuple[int, ...]:
    if instruction.opcode not in ("all-gather", "all-to-all", "reduce-scatter"):
        return ()
    return tuple(instruction["dimensions"])
