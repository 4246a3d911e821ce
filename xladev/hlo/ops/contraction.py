"""Matrix products of every kind."""

from __future__ import annotations

from xladev.hlo.opdef import VARIADIC, Attr, AttrKind, OpDef, Tolerance

_DIMS = "dot_dimension_numbers."
PRECISION = Attr(
    "operand_precision", AttrKind.WORDS, default=(), proto="precision_config.operand_precision"
)
ALGORITHM = Attr(
    "algorithm", AttrKind.WORD, default="dot_unset", proto="precision_config.algorithm"
)
DOT_DIMS = (
    Attr("lhs_batch_dims", AttrKind.INTS, default=(), proto=_DIMS + "lhs_batch_dimensions"),
    Attr(
        "lhs_contracting_dims",
        AttrKind.INTS,
        default=(),
        proto=_DIMS + "lhs_contracting_dimensions",
    ),
    Attr("rhs_batch_dims", AttrKind.INTS, default=(), proto=_DIMS + "rhs_batch_dimensions"),
    Attr(
        "rhs_contracting_dims",
        AttrKind.INTS,
        default=(),
        proto=_DIMS + "rhs_contracting_dimensions",
    ),
)
_RAGGED = "ragged_dot_dimension_numbers."
SPARSITY = Attr("sparsity", AttrKind.SPARSITY, proto="dot_sparsity")


OPS: tuple[OpDef, ...] = (
    OpDef(
        "dot",
        (2, VARIADIC),
        "General contraction with batch dimensions.",
        attrs=(*DOT_DIMS, PRECISION, ALGORITHM, SPARSITY),
        category="dot",
        tolerance=Tolerance.SUM,
    ),
    OpDef(
        "ragged-dot",
        3,
        "Dot of groups of rows whose sizes come at run time.",
        attrs=(
            *DOT_DIMS,
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
        category="lowprec",
        tolerance=Tolerance.SUM,
    ),
    OpDef(
        "scaled-dot",
        4,
        "Dot of block-scaled operands: lhs, rhs, lhs scale, rhs scale.",
        attrs=(*DOT_DIMS, PRECISION, ALGORITHM),
        category="lowprec",
        tolerance=Tolerance.SUM,
    ),
)
