"""Modules without what says where they came from."""

from dataclasses import replace

from xladev.hlo.attributes import NO_METADATA
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule, StackFrames, called_by_attr
from xladev.hlo.opdef import AttrKind


def without_sources(module: HloModule) -> HloModule:
    """The module without metadata and its tables, which short text leaves out."""
    made: dict[HloComputation, HloComputation] = {}
    for computation in module.computations:
        made[computation] = _computation(computation, made)
    header = replace(module.header, stack_frames=StackFrames())
    return HloModule(module.name, made[module.entry], header)


def _computation(
    computation: HloComputation, made: dict[HloComputation, HloComputation]
) -> HloComputation:
    new: dict[HloInstruction, HloInstruction] = {}
    for old in computation.instructions:
        before = tuple(new[i] for i in old.note.control_predecessors)
        new[old] = replace(
            old,
            operands=tuple(new[i] for i in old.operands),
            attrs={**old.attrs, **_called(old, made)},
            note=replace(old.note, metadata=NO_METADATA, control_predecessors=before),
        )
    return replace(computation, instructions=tuple(new.values()), root=new[computation.root])


def _called(
    instruction: HloInstruction, made: dict[HloComputation, HloComputation]
) -> dict[str, HloComputation | tuple[HloComputation, ...]]:
    found: dict[str, HloComputation | tuple[HloComputation, ...]] = {}
    for name, callees in called_by_attr(instruction):
        single = instruction.op.attr(name).kind is AttrKind.COMPUTATION
        found[name] = made[callees[0]] if single else tuple(made[c] for c in callees)
    return found
