"""Opcodes that change the element type or precision."""

from __future__ import annotations

from xladev.hlo.opdef import Attr, AttrKind, OpDef

OPS: tuple[OpDef, ...] = (
    OpDef(
        "convert",
        1,
        "Value cast between element types.",
        category="elementwise",
        elementwise=True,
    ),
    OpDef(
        "bitcast-convert",
        1,
        "Same bits as another element type; widths may differ by a minor dimension.",
        category="elementwise",
    ),
    OpDef(
        "reduce-precision",
        1,
        "Rounds to fewer exponent and mantissa bits.",
        attrs=(
            Attr("exponent_bits", AttrKind.INT, required=True),
            Attr("mantissa_bits", AttrKind.INT, required=True),
        ),
        category="elementwise",
        elementwise=True,
    ),
    OpDef(
        "stochastic-convert",
        2,
        "Cast that rounds up or down by random bits.",
        category="elementwise",
        elementwise=True,
    ),
)
