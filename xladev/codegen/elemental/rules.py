"""All elemental rules in one table."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from xladev.codegen.elemental.contraction import CONTRACTION_RULES
from xladev.codegen.elemental.emitter import ElementRule
from xladev.codegen.elemental.indexing import INDEXING_RULES
from xladev.codegen.elemental.movement import MOVEMENT_RULES
from xladev.codegen.elemental.reduction import REDUCTION_RULES

ELEMENT_RULES: Mapping[str, ElementRule] = MappingProxyType(
    {**MOVEMENT_RULES, **INDEXING_RULES, **REDUCTION_RULES, **CONTRACTION_RULES}
)
"""Code for one element, by opcode; elementwise opcodes need none."""
