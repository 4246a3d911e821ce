"""Called computations: lists of ids in the proto <-> attributes that name computations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from xladev.errors import ProtoError
from xladev.hlo import dtype as dt
from xladev.hlo.ir import HloComputation, HloInstruction
from xladev.hlo.opdef import COMPUTATION_KINDS, AttrKind, OpDef

_ORDER: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType({"while": ("body", "condition")})
"""Attributes in the proto's order, for opcodes whose text order is another."""

_BRANCHES: Final = ("true_computation", "false_computation")


def called_attributes(
    op: OpDef, called: tuple[HloComputation, ...], operands: Sequence[HloInstruction]
) -> dict[str, Any]:
    """Attributes of an instruction that calls these computations.

    Raises:
        ProtoError: the opcode calls more or fewer.
    """
    if not called:
        return _none(op)
    if op.name == "conditional" and _takes_predicate(operands):
        return _paired(op, _BRANCHES, called)
    several = [a.name for a in op.attrs if a.kind is AttrKind.COMPUTATIONS]
    if several:
        return {several[0]: called}
    single = tuple(a.name for a in op.attrs if a.kind is AttrKind.COMPUTATION)
    return _paired(op, _ORDER.get(op.name, single), called)


def _none(op: OpDef) -> dict[str, Any]:
    for attr in op.attrs:
        if attr.required and attr.kind in COMPUTATION_KINDS:
            raise ProtoError(f"{op.name} lacks its {attr.name}")
    return {}


def _takes_predicate(operands: Sequence[HloInstruction]) -> bool:
    return bool(operands) and operands[0].shape.element_type is dt.PRED


def _paired(op: OpDef, names: Sequence[str], called: Sequence[HloComputation]) -> dict[str, Any]:
    if len(names) != len(called):
        raise ProtoError(f"{op.name} calls {len(called)} computations, not {len(names)}")
    return dict(zip(names, called, strict=True))


def called_in_order(instruction: HloInstruction) -> tuple[HloComputation, ...]:
    """Computations that an instruction calls, in the proto's order."""
    order = _ORDER.get(instruction.opcode)
    return instruction.called if order is None else tuple(instruction[name] for name in order)
