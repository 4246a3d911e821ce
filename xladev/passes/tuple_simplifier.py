"""Tuple simplifier: taking apart what was just put together, and the other way round."""

from __future__ import annotations

from dataclasses import dataclass

from xladev.hlo.ir import HloInstruction, HloModule
from xladev.passes import pattern as m
from xladev.passes.pass_ import HloModulePass
from xladev.passes.rewrite import Rewriter, RuleSet, rewrite


@rewrite(m.GetTupleElement(m.Opcode("tuple", capture="whole")))
def element_of_tuple(
    r: Rewriter, root: HloInstruction, whole: HloInstruction
) -> HloInstruction | None:
    """get-tuple-element(tuple(x, y), 0) = x."""
    part = whole.operands[root["index"]]
    return part if part.shape.equal_ignoring_layout(root.shape) else None


@rewrite(m.Opcode("tuple"))
def tuple_of_elements(r: Rewriter, root: HloInstruction) -> HloInstruction | None:
    """tuple(get-tuple-element(x, 0), get-tuple-element(x, 1), ...) = x, if these are all parts."""
    parts = root.operands
    if not parts or any(p.opcode != "get-tuple-element" for p in parts):
        return None
    whole = parts[0].operands[0]
    if any(p.operands[0] is not whole or p["index"] != n for n, p in enumerate(parts)):
        return None
    return whole if whole.shape.equal_ignoring_layout(root.shape) else None


_RULES = RuleSet([element_of_tuple, tuple_of_elements])


@dataclass(frozen=True, slots=True)
class TupleSimplifier(HloModulePass):
    """Connects users of a tuple's parts to what the tuple was made of."""

    name = "tuple-simplifier"
    only_for = _RULES.opcodes

    def run(self, module: HloModule) -> HloModule:
        """See the class."""
        return _RULES.run(module)
