"""All padding rules by opcode."""

from __future__ import annotations

from types import MappingProxyType

from xladev.hlo.ir import HloInstruction
from xladev.passes.padding import contraction, elementwise, indexing, movement, reduction
from xladev.passes.padding.values import Rule, Rules

RULES: Rules = MappingProxyType(
    {
        **elementwise.RULES, **movement.RULES, **contraction.RULES, **reduction.RULES,
        **indexing.RULES,
    }
)  # fmt: skip


def rule_of(instruction: HloInstruction) -> Rule | None:
    """The rule of an instruction; None if its opcode has none."""
    if instruction.op.elementwise:
        return elementwise.elementwise
    return RULES.get(instruction.opcode)
