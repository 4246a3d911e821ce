"""Map inliner: a map of elementwise opcodes is these opcodes on whole arrays."""

from __future__ import annotations

from dataclasses import dataclass

from xladev.hlo.ir import HloInstruction, HloModule
from xladev.passes import pattern as m
from xladev.passes.pass_ import HloModulePass
from xladev.passes.rewrite import Rewriter, RuleSet, rewrite
from xladev.passes.scalar_bodies import can_write_out, write_out


def _is_plain(instruction: HloInstruction) -> bool:
    types = [o.shape.element_type for o in instruction.operands]
    wanted = [p.shape.element_type for p in instruction["to_apply"].parameters]
    return types == wanted and can_write_out(instruction["to_apply"])


@rewrite(m.Opcode("map").where(_is_plain, "a map of elementwise opcodes"))
def inline_map(r: Rewriter, root: HloInstruction) -> HloInstruction | None:
    """map(x, f) = f on arrays."""
    made = write_out(r, root["to_apply"], root.operands, root.shape.dims)
    return made if isinstance(made, HloInstruction) else None


_RULES = RuleSet([inline_map])


@dataclass(frozen=True, slots=True)
class MapInliner(HloModulePass):
    """Writes out the computations of `map`, where they are elementwise."""

    name = "map-inliner"
    only_for = _RULES.opcodes

    def run(self, module: HloModule) -> HloModule:
        """See the class."""
        return _RULES.run(module)
