"""Dot of any dimension numbers as a sum of products.

What a vendor replaces: nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from xladev.hlo.ir import HloInstruction
from xladev.platforms.template_npu.codegen.access_map import AccessMap
from xladev.platforms.template_npu.codegen.contraction import Contraction, Operand, unit_row
from xladev.platforms.template_npu.codegen.contraction_stage import emit_contraction
from xladev.platforms.template_npu.codegen.expression import F32, S32, Expression, number_of
from xladev.platforms.template_npu.codegen.loops import LoopStage
from xladev.platforms.template_npu.codegen.nodes import Array, Node
from xladev.platforms.template_npu.device import isa

_U8, _S8, _BF16 = (isa.TYPE_NUMBERS[n] for n in ("u8", "s8", "bf16"))


def emit_dot(
    stage: LoopStage, core: HloInstruction, results: Sequence[Array], root: HloInstruction
) -> None:
    """A dot of any dimension numbers, and elementwise instructions on it."""
    lhs, rhs = core.operands[:2]
    lhs_used = (core["lhs_batch_dims"], core["lhs_contracting_dims"])
    rhs_used = (core["rhs_batch_dims"], core["rhs_contracting_dims"])
    lhs_free, rhs_free = _free(lhs, *lhs_used), _free(rhs, *rhs_used)
    batch, depth = (tuple(lhs.shape.dims[d] for d in dims) for dims in lhs_used)
    rows, columns = (
        tuple(o.shape.dims[d] for d in free) for o, free in ((lhs, lhs_free), (rhs, rhs_free))
    )
    type_ = product_type(core)
    rank = len(batch) + len(rows) + len(columns)
    emit_contraction(
        stage,
        Contraction(
            batch, rows, columns, depth,
            _operand(lhs, (*lhs_used[0], *lhs_free, *lhs_used[1]), type_),
            _operand(rhs, (*rhs_used[0], *rhs_used[1], *rhs_free), type_),
            tuple(unit_row(j, rank) for j in range(rank)),
            type_,
        ),
        core, results[0], root,
    )  # fmt: skip


def _free(operand: HloInstruction, *used: Sequence[int]) -> tuple[int, ...]:
    taken = {d for dims in used for d in dims}
    return tuple(d for d in range(operand.shape.rank) if d not in taken)


def _operand(operand: HloInstruction, order: Sequence[int], type_: int) -> Operand:
    """An operand whose dimension ``order[j]`` is run over by iteration variable j."""

    def build(e: Expression) -> Node:
        rank = len(e.extents)
        rows = tuple(unit_row(order.index(d), rank) for d in range(rank))
        return e.converted(e.node(operand, AccessMap(e.extents, rows)), type_)

    return build


def product_type(core: HloInstruction) -> int:
    """Number of the type in which operands are multiplied."""
    left, right = (number_of(o.shape.element_type) for o in core.operands[:2])
    if core.shape.element_type.is_float:
        return _BF16 if left == right == _BF16 else F32
    return left if left == right and left in (_S8, _U8) else S32
