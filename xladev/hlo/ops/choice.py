"""Elementwise opcodes that compare and choose."""

from __future__ import annotations

from xladev.hlo.opdef import Attr, AttrKind, OpDef

OPS: tuple[OpDef, ...] = (
    OpDef(
        "compare",
        2,
        "Compares in one of six directions, floats by IEEE or total order.",
        attrs=(
            Attr("direction", AttrKind.WORD, required=True, proto="comparison_direction"),
            Attr("type", AttrKind.WORD, proto="comparison_type"),
        ),
        category="elementwise",
        elementwise=True,
    ),
    OpDef(
        "select",
        3,
        "Second operand where the first is true, else the third.",
        category="elementwise",
        elementwise=True,
    ),
    OpDef(
        "clamp",
        3,
        "Second operand limited to the range from the first to the third.",
        category="elementwise",
        elementwise=True,
    ),
)
