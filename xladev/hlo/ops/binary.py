"""Elementwise opcodes of two operands."""

from __future__ import annotations

from xladev.hlo.opdef import OpDef, Tolerance

OPS: tuple[OpDef, ...] = (
    OpDef(
        "add",
        2,
        "Sum; integers wrap, pred is logical or.",
        category="elementwise",
        elementwise=True,
    ),
    OpDef(
        "subtract",
        2,
        "Difference; integers wrap.",
        category="elementwise",
        elementwise=True,
    ),
    OpDef(
        "multiply",
        2,
        "Product; integers wrap, pred is logical and.",
        category="elementwise",
        elementwise=True,
    ),
    OpDef(
        "mulhi",
        2,
        "High half of the integer product.",
        category="elementwise",
        elementwise=True,
    ),
    OpDef(
        "divide",
        2,
        "Quotient; integers truncate, division by zero gives all ones.",
        category="elementwise",
        elementwise=True,
    ),
    OpDef(
        "remainder",
        2,
        "Remainder with the sign of the dividend; by zero gives the dividend.",
        category="elementwise",
        elementwise=True,
    ),
    OpDef(
        "maximum",
        2,
        "Larger operand; NaN propagates.",
        category="elementwise",
        elementwise=True,
    ),
    OpDef(
        "minimum",
        2,
        "Smaller operand; NaN propagates.",
        category="elementwise",
        elementwise=True,
    ),
    OpDef(
        "and",
        2,
        "Bitwise or logical and.",
        category="elementwise",
        elementwise=True,
    ),
    OpDef(
        "or",
        2,
        "Bitwise or logical or.",
        category="elementwise",
        elementwise=True,
    ),
    OpDef(
        "xor",
        2,
        "Bitwise exclusive or.",
        category="elementwise",
        elementwise=True,
    ),
    OpDef(
        "shift-left",
        2,
        "Shift; by the width or more gives zero.",
        category="elementwise",
        elementwise=True,
    ),
    OpDef(
        "shift-right-arithmetic",
        2,
        "Shift filling with the sign; by the width or more gives all sign.",
        category="elementwise",
        elementwise=True,
    ),
    OpDef(
        "shift-right-logical",
        2,
        "Shift filling with zeros; by the width or more gives zero.",
        category="elementwise",
        elementwise=True,
    ),
    OpDef(
        "complex",
        2,
        "Complex number of real and imaginary parts.",
        category="elementwise",
        elementwise=True,
    ),
    OpDef(
        "power",
        2,
        "First operand to the power of the second.",
        category="elementwise",
        elementwise=True,
        tolerance=Tolerance.FUNCTION,
    ),
    OpDef(
        "atan2",
        2,
        "Angle of the point (second, first).",
        category="elementwise",
        elementwise=True,
        tolerance=Tolerance.FUNCTION,
    ),
)
