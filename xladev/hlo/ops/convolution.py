"""Convolution."""

from __future__ import annotations

from xladev.hlo.opdef import VARIADIC, Attr, AttrKind, OpDef, Tolerance
from xladev.hlo.ops.contraction import ALGORITHM, PRECISION

OPS: tuple[OpDef, ...] = (
    OpDef(
        "convolution",
        (2, VARIADIC),
        "Convolution of any rank with windows, dilation, groups and reversal.",
        attrs=(
            Attr("window", AttrKind.WINDOW, default=()),
            Attr(
                "dim_labels",
                AttrKind.CONV_DIMS,
                required=True,
                proto="convolution_dimension_numbers",
            ),
            Attr("feature_group_count", AttrKind.INT, default=1),
            Attr("batch_group_count", AttrKind.INT, default=1),
            PRECISION,
            ALGORITHM,
            Attr("convolution_kind", AttrKind.WORD),
            Attr("sparsity_config", AttrKind.SPARSITY),
        ),
        category="conv",
        tolerance=Tolerance.SUM,
    ),
)
