"""Batch normalisation."""

from __future__ import annotations

from xladev.hlo.opdef import Attr, AttrKind, OpDef, Tolerance

_BATCH_NORM = (
    Attr("epsilon", AttrKind.FLOAT, required=True),
    Attr("feature_index", AttrKind.INT, required=True),
)


OPS: tuple[OpDef, ...] = (
    OpDef(
        "batch-norm-training",
        3,
        "Normalises by the batch's mean and variance, and returns them.",
        attrs=_BATCH_NORM,
        category="training",
        tolerance=Tolerance.SUM,
    ),
    OpDef(
        "batch-norm-inference",
        5,
        "Normalises by given mean and variance.",
        attrs=_BATCH_NORM,
        category="training",
        tolerance=Tolerance.SUM,
    ),
    OpDef(
        "batch-norm-grad",
        5,
        "Gradients of operand, scale and offset.",
        attrs=_BATCH_NORM,
        category="training",
        tolerance=Tolerance.SUM,
    ),
)
