"""Reshape mover: elementwise opcodes run before the reshapes that all their operands have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xladev.hlo.ir import HloInstruction, HloModule
from xladev.hlo.opset import OPSET
from xladev.hlo.shape import array
from xladev.passes import pattern as m
from xladev.passes.algebra.operands import together
from xladev.passes.pass_ import HloModulePass
from xladev.passes.rewrite import Rewriter, RuleSet, rewrite

_MOVES = frozenset({"reshape", "transpose"})
_ELEMENTWISE = tuple(op.name for op in OPSET.values() if op.elementwise)


@rewrite(m.Opcode(_ELEMENTWISE).where(lambda i: i.shape.rank > 0, "an array"), counts_uses=True)
def move_below(r: Rewriter, root: HloInstruction) -> HloInstruction | None:
    """f(reshape(x), reshape(y)) = reshape(f(x, y)), which has no more reshapes.

    Scalars take part spread over the other dimensions.
    """
    moved = [o for o in root.operands if o.opcode in _MOVES]
    if not moved or not together(root, *root.operands):
        return None
    form = _form(moved[0])
    if any(_form(o) != form for o in moved) or not _all_may_move(root):
        return None
    if any(r.uses(o) > 1 for o in moved):
        return None
    dims = moved[0].operands[0].shape.dims
    operands = [_before(r, o, dims) for o in root.operands]
    made = r.op(root.opcode, *operands, shape=array(root.shape.element_type, dims), **root.attrs)
    return r.op(moved[0].opcode, made, shape=root.shape.without_layout(), **moved[0].attrs)


def _form(i: HloInstruction) -> tuple[Any, ...]:
    return i.opcode, i.operands[0].shape.dims, i["dimensions"] if i.opcode == "transpose" else ()


def _all_may_move(root: HloInstruction) -> bool:
    return all(
        o.opcode in _MOVES or o.shape.is_scalar or _is_spread_scalar(o) for o in root.operands
    )


def _is_spread_scalar(i: HloInstruction) -> bool:
    return i.opcode == "broadcast" and i.operands[0].shape.is_scalar


def _before(r: Rewriter, operand: HloInstruction, dims: tuple[int, ...]) -> HloInstruction:
    if operand.opcode in _MOVES:
        return operand.operands[0]
    if operand.shape.is_scalar:
        return operand
    return r.broadcast(operand.operands[0], dims, ())


_RULES = RuleSet([move_below], only_static=True)


@dataclass(frozen=True, slots=True)
class ReshapeMover(HloModulePass):
    """Moves reshapes and transposes below elementwise opcodes, where they meet and become one.

    All operands of such an opcode must be reshaped alike, and for it alone, or be scalars.
    """

    name = "reshape-mover"
    only_for = _RULES.opcodes

    def run(self, module: HloModule) -> HloModule:
        """See the class."""
        return _RULES.run(module)
