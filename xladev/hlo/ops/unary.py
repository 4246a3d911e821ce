"""Elementwise opcodes of one operand that are exact."""

from __future__ import annotations

from xladev.hlo.opdef import Attr, AttrKind, OpDef

OPS: tuple[OpDef, ...] = (
    OpDef(
        "abs",
        1,
        "Magnitude; of complex numbers, a real.",
        category="elementwise",
        elementwise=True,
    ),
    OpDef(
        "negate",
        1,
        "Arithmetic negation; integers wrap.",
        category="elementwise",
        elementwise=True,
    ),
    OpDef(
        "sign",
        1,
        "-1, 0 or 1, keeping NaN and signed zero; z/|z| for complex.",
        category="elementwise",
        elementwise=True,
    ),
    OpDef(
        "not",
        1,
        "Bitwise or logical complement.",
        category="elementwise",
        elementwise=True,
    ),
    OpDef(
        "is-finite",
        1,
        "Whether a float is neither infinite nor NaN.",
        category="elementwise",
        elementwise=True,
    ),
    OpDef(
        "count-leading-zeros",
        1,
        "Number of leading zero bits.",
        category="elementwise",
        elementwise=True,
    ),
    OpDef(
        "popcnt",
        1,
        "Number of set bits.",
        category="elementwise",
        elementwise=True,
    ),
    OpDef(
        "real",
        1,
        "Real part; the identity on floats.",
        category="elementwise",
        elementwise=True,
    ),
    OpDef(
        "imag",
        1,
        "Imaginary part; zero for floats.",
        category="elementwise",
        elementwise=True,
    ),
    OpDef(
        "ceil",
        1,
        "Rounds toward plus infinity.",
        category="elementwise",
        elementwise=True,
    ),
    OpDef(
        "floor",
        1,
        "Rounds toward minus infinity.",
        category="elementwise",
        elementwise=True,
    ),
    OpDef(
        "round-nearest-afz",
        1,
        "Rounds to the nearest integer, ties away from zero.",
        category="elementwise",
        elementwise=True,
    ),
    OpDef(
        "round-nearest-even",
        1,
        "Rounds to the nearest integer, ties to even.",
        category="elementwise",
        elementwise=True,
    ),
)
