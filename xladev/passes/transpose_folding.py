"""Transpose folding: a dot reads its operands transposed instead of having them transposed."""

from __future__ import annotations

from dataclasses import dataclass, replace

from xladev.hlo.ir import HloInstruction, HloModule
from xladev.hlo.ops.contraction_rules import DotDims
from xladev.passes import pattern as m
from xladev.passes.pass_ import HloModulePass
from xladev.passes.rewrite import Rewriter, RuleSet, rewrite

Dims = tuple[int, ...]


def _is_dense(dot: HloInstruction) -> bool:
    return len(dot.operands) == 2


@rewrite(m.Opcode("dot").where(_is_dense, "a dot of dense operands"))
def fold_transposes(r: Rewriter, root: HloInstruction) -> HloInstruction | None:
    """dot(transpose(x), y) = dot(x, y) with other dimension numbers."""
    folded = folded_dot(root)
    if folded is None:
        return None
    return r.op("dot", *folded.operands, shape=folded.shape, **folded.attrs)


def folded_dot(root: HloInstruction) -> HloInstruction | None:
    """A dot of dense operands that reads what its operands are transposes of; None if it cannot."""
    dims = DotDims.of(root)
    lhs = _source(root, 0, dims.lhs_batch, dims.lhs_contracting)
    rhs = _source(root, 1, dims.rhs_batch, dims.rhs_contracting)
    if lhs is None and rhs is None:
        return None
    left, lhs_batch, lhs_contracting = lhs or (
        root.operands[0], dims.lhs_batch, dims.lhs_contracting
    )  # fmt: skip
    right, rhs_batch, rhs_contracting = rhs or (
        root.operands[1], dims.rhs_batch, dims.rhs_contracting
    )  # fmt: skip
    numbers = {
        "lhs_batch_dims": lhs_batch,
        "lhs_contracting_dims": lhs_contracting,
        "rhs_batch_dims": rhs_batch,
        "rhs_contracting_dims": rhs_contracting,
    }
    shape = root.shape.without_layout()
    return replace(root, shape=shape, operands=(left, right), attrs={**root.attrs, **numbers})


def _source(
    root: HloInstruction, number: int, batch: Dims, contracting: Dims
) -> tuple[HloInstruction, Dims, Dims] | None:
    """What an operand is a transpose of, and its dimension numbers; None if it must stay.

    The dimensions that the result keeps must come in the same order.
    """
    operand = root.operands[number]
    if operand.opcode != "transpose" or operand.note.device != root.note.device:
        return None
    order: Dims = operand["dimensions"]
    free = [order[d] for d in range(len(order)) if d not in (*batch, *contracting)]
    if free != sorted(free):
        return None
    moved = tuple(order[d] for d in batch), tuple(order[d] for d in contracting)
    return operand.operands[0], *moved


_RULES = RuleSet([fold_transposes], only_static=True)


@dataclass(frozen=True, slots=True)
class TransposeFolding(HloModulePass):
    """Folds transposes into the dimension numbers of `dot`.

    The products summed for an element stay the same; a backend may sum them in another order.
    """

    name = "transpose-folding"
    only_for = _RULES.opcodes

    def run(self, module: HloModule) -> HloModule:
        """See the class."""
        return _RULES.run(module)
