"""Matrix products of every kind."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xladev.errors import EvaluationError
from xladev.hlo.literal import Value
from xladev.hlo.opdef import (
    VARIADIC,
    Attr,
    AttrKind,
    Cost,
    Evaluation,
    InstructionView,
    OpCall,
    OpDef,
    Tolerance,
)
from xladev.hlo.ops.accumulation import accumulator_of, rounded
from xladev.hlo.ops.contraction_rules import (
    ALGORITHM,
    DOT_DIMS,
    PRECISION,
    PRODUCT_DIFFERENCES,
    RAGGED_DOT_DIMS,
    DotDims,
    check_dot,
    contract,
    product_cost,
    product_type,
)
from xladev.hlo.ops.dimension_rules import from_dimensions
from xladev.hlo.ops.ragged import evaluate_ragged_dot, infer_ragged_dot
from xladev.hlo.ops.scaled import evaluate_scaled_dot, infer_scaled_dot
from xladev.hlo.shape import Shape

_RAGGED = "ragged_dot_dimension_numbers."
SPARSITY = Attr("sparsity_config", AttrKind.SPARSITY)
BLOCK_SCALING = Attr("block_scaling_config", AttrKind.SPARSITY)


def infer_dot(call: OpCall) -> Shape:
    """Batch dimensions, then free ones of the left, then free ones of the right operand."""
    dims = DotDims.of(call)
    check_dot(call, dims)
    least = 3 if call["sparsity_config"] or call["block_scaling_config"] else 2
    if len(call.operands) < least or (least == 2 and len(call.operands) != 2):
        call.fail("dot_c14", "a dot has two operands, and more where one is sparse or scaled")
    lhs, rhs = call.operands[:2]
    return from_dimensions(
        product_type(call),
        (lhs, dims.lhs_batch),
        (lhs, dims.lhs_free(lhs.rank)),
        (rhs, dims.rhs_free(rhs.rank)),
    )


def evaluate_dot(_: Evaluation, instruction: InstructionView, operands: Sequence[Value]) -> Value:
    """Sum of products over the contracting dimensions."""
    if instruction["sparsity_config"] or instruction["block_scaling_config"]:
        raise EvaluationError(
            "structured-sparse and block-scaled dots have no evaluation",
            why="what the configuration does to the operands is up to the backend it is for",
            hint="multiply the dense operands; scaled-dot scales blocks in a defined way",
        )
    lhs, rhs = operands
    element_type = instruction.shape.element_type
    wide = accumulator_of(element_type, lhs, rhs)
    return rounded(contract(lhs, rhs, DotDims.of(instruction), wide), element_type)


def dot_cost(result: Shape, operands: tuple[Shape, ...], instruction: InstructionView) -> Cost:
    """Two flops per multiply-add, eight if complex; each operand read once."""
    lhs = operands[0]
    depth = prod(lhs.dims[axis] for axis in instruction["lhs_contracting_dims"])
    return product_cost(result, operands, result.size * depth)


OPS: tuple[OpDef, ...] = (
    OpDef(
        "dot",
        (2, VARIADIC),
        "General contraction with batch dimensions.",
        attrs=(*DOT_DIMS, PRECISION, ALGORITHM, SPARSITY, BLOCK_SCALING),
        infer=infer_dot,
        evaluate=evaluate_dot,
        category="dot",
        tolerance=Tolerance.SUM,
        differences=PRODUCT_DIFFERENCES,
        cost=dot_cost,
    ),
    OpDef(
        "ragged-dot",
        3,
        "Dot of groups of rows whose sizes come at run time.",
        attrs=(
            *RAGGED_DOT_DIMS,
            Attr(
                "lhs_ragged_dims",
                AttrKind.INTS,
                default=(),
                proto=_RAGGED + "lhs_ragged_dimensions",
            ),
            Attr(
                "rhs_group_dims", AttrKind.INTS, default=(), proto=_RAGGED + "rhs_group_dimensions"
            ),
            PRECISION,
            ALGORITHM,
        ),
        infer=infer_ragged_dot,
        evaluate=evaluate_ragged_dot,
        category="lowprec",
        tolerance=Tolerance.SUM,
        differences=PRODUCT_DIFFERENCES,
        cost=dot_cost,
    ),
    OpDef(
        "scaled-dot",
        4,
        "Dot of block-scaled operands: lhs, rhs, lhs scale, rhs scale.",
        attrs=(*DOT_DIMS, PRECISION, ALGORITHM),
        infer=infer_scaled_dot,
        evaluate=evaluate_scaled_dot,
        category="lowprec",
        tolerance=Tolerance.SUM,
        differences=PRODUCT_DIFFERENCES,
        cost=dot_cost,
    ),
)
