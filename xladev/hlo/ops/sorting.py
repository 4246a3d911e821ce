"""Opcodes that order elements."""

from __future__ import annotations

from xladev.hlo.opdef import VARIADIC, Attr, AttrKind, OpDef

OPS: tuple[OpDef, ...] = (
    OpDef(
        "sort",
        (1, VARIADIC),
        "Sorts along one dimension by any comparator.",
        attrs=(
            Attr("dimensions", AttrKind.INTS, required=True),
            Attr("is_stable", AttrKind.BOOL, default=False),
            Attr("to_apply", AttrKind.COMPUTATION, required=True),
        ),
        category="shape",
    ),
    OpDef(
        "topk",
        1,
        "The k largest or smallest elements of the last dimension, with their indices.",
        attrs=(
            Attr("k", AttrKind.INT, required=True),
            Attr("largest", AttrKind.BOOL, default=True),
            Attr("is_stable", AttrKind.BOOL, default=False),
        ),
        category="shape",
    ),
)
