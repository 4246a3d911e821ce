"""Elementwise opcodes of two operands."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from xladev.hlo import dtype as dt
from xladev.hlo.expense import DIVISION, FUNCTION, INSTRUCTION, SEQUENCE
from xladev.hlo.literal import Array
from xladev.hlo.numerics import complexes, integers
from xladev.hlo.numerics.precision import narrow, pointwise, raise_precision, widen
from xladev.hlo.opdef import InferFn, OpCall, OpDef, Tolerance
from xladev.hlo.ops import rules
from xladev.hlo.shape import Shape

Function = Callable[[Array, Array], Array]


def infer_binary(kinds: rules.Kinds) -> InferFn:
    """Shape rule: two arrays (``OP_c1``) of these kinds (c2), of one type (c3) and size (c4)."""

    def infer(call: OpCall) -> Shape:
        rules.require_arrays(call)
        rules.require_kinds(call, call.operands[0], kinds, "c2")
        rules.same_element_type(call, call.operands, "c3")
        return rules.merge_dims(call, call.operands, "c4")

    return infer


def _infer_complex(call: OpCall) -> Shape:
    shape = infer_binary(rules.FLOAT)(call)
    result = {dt.F32: dt.C64, dt.F64: dt.C128}.get(shape.element_type)
    if result is None:
        call.fail("complex_c5", f"no complex type has parts of type {shape.element_type}")
    return rules.with_type(shape, result)


def add(a: Array, b: Array) -> Array:
    """Sum; logical or of pred."""
    if a.dtype == np.bool_:
        return np.logical_or(a, b)
    return pointwise(widen(a) + widen(b), a.dtype)


def subtract(a: Array, b: Array) -> Array:
    """Difference."""
    return pointwise(widen(a) - widen(b), a.dtype)


def multiply(a: Array, b: Array) -> Array:
    """Product; logical and of pred."""
    if a.dtype == np.bool_:
        return np.logical_and(a, b)
    if a.dtype.kind == "c":
        return complexes.multiply(raise_precision(a), raise_precision(b)).astype(a.dtype)
    return pointwise(widen(a) * widen(b), a.dtype)


def divide(a: Array, b: Array) -> Array:
    """Quotient."""
    if a.dtype.kind == "c":
        return complexes.divide(raise_precision(a), raise_precision(b)).astype(a.dtype)
    if dt.by_numpy(a.dtype).is_integral:
        return integers.divide(a, b)
    return pointwise(widen(a) / widen(b), a.dtype)


def remainder(a: Array, b: Array) -> Array:
    """Remainder with the dividend's sign."""
    if dt.by_numpy(a.dtype).is_integral:
        return integers.remainder(a, b)
    return pointwise(np.fmod(widen(a), widen(b)), a.dtype)


def power(a: Array, b: Array) -> Array:
    """``a`` to the power of ``b``."""
    if dt.by_numpy(a.dtype).is_integral:
        return integers.power(a, b)
    function = complexes.power if a.dtype.kind == "c" else np.power
    return pointwise(function(raise_precision(a), raise_precision(b)), a.dtype)


def atan2(a: Array, b: Array) -> Array:
    """Angle of the point with ordinate ``a`` and abscissa ``b``."""
    return pointwise(np.arctan2(raise_precision(a), raise_precision(b)), a.dtype)


def maximum(a: Array, b: Array) -> Array:
    """Larger element; NaN wins, and -0 is below 0. Complex numbers compare by parts in order."""
    return _first_unless(a, b, _exceeds(b, a))


def minimum(a: Array, b: Array) -> Array:
    """Smaller element; NaN wins, and -0 is below 0. Complex numbers compare by parts in order."""
    return _first_unless(a, b, _exceeds(a, b))


def _exceeds(x: Array, y: Array) -> Array:
    if x.dtype.kind == "c":
        return complexes.precedes(y, x)
    wide_x, wide_y = widen(x), widen(y)
    if dt.by_numpy(x.dtype).is_float:
        zeros = (wide_x == 0) & (wide_y == 0)
        return (wide_x > wide_y) | (zeros & ~np.signbit(wide_x) & np.signbit(wide_y))
    return wide_x > wide_y


def _first_unless(a: Array, b: Array, second: Array) -> Array:
    """``b`` where ``second``; a NaN of ``a``, then of ``b``, before all else."""
    if a.dtype == np.bool_ or dt.by_numpy(a.dtype).is_integral:
        return np.where(second, b, a)
    return np.where(~np.isnan(a) & (second | np.isnan(b)), b, a)


def _bitwise(logical: Function, bitwise: Function) -> Function:
    def function(a: Array, b: Array) -> Array:
        if a.dtype == np.bool_:
            return logical(a, b)
        combined = np.asarray(bitwise(integers.codes(a), integers.codes(b)))
        return integers.from_codes(combined, a.dtype)

    return function


def compose(a: Array, b: Array) -> Array:
    """Complex numbers of real parts ``a`` and imaginary parts ``b``."""
    return narrow(complexes.compose(a, b), np.result_type(a.dtype, np.complex64))


def _op(
    name: str,
    summary: str,
    kinds: rules.Kinds,
    function: Function,
    expense: int,
    tolerance: Tolerance = Tolerance.EXACT,
    infer: InferFn | None = None,
    forms: tuple[str, ...] = (),
    differences: tuple[str, ...] = (),
) -> OpDef:
    return OpDef(
        name,
        2,
        summary,
        infer=infer or infer_binary(kinds),
        evaluate=rules.elementwise(function),
        category="elementwise",
        expense=expense,
        elementwise=True,
        tolerance=tolerance,
        forms=forms,
        differences=differences,
    )


_ROUNDED = Tolerance.ROUNDED
_FUNCTION = Tolerance.FUNCTION
_REAL = rules.INTEGER | rules.FLOAT

OPS: tuple[OpDef, ...] = (
    _op("add", "Sum; integers wrap, pred is logical or.", rules.ANY, add, INSTRUCTION, _ROUNDED),
    _op("subtract", "Difference; integers wrap.", rules.NUMBER, subtract, INSTRUCTION, _ROUNDED),
    _op(
        "multiply",
        "Product; integers wrap, pred is logical and.",
        rules.ANY,
        multiply,
        INSTRUCTION,
        _ROUNDED,
    ),
    _op(
        "mulhi",
        "High half of the integer product.",
        rules.INTEGER,
        integers.multiply_high,
        SEQUENCE,
    ),
    _op(
        "divide",
        "Quotient; integers truncate, division by zero gives all ones.",
        rules.NUMBER,
        divide,
        DIVISION,
        _ROUNDED,
    ),
    _op(
        "remainder",
        "Remainder with the sign of the dividend; by zero gives the dividend.",
        _REAL,
        remainder,
        FUNCTION,
    ),
    _op("maximum", "Larger operand; NaN propagates.", rules.ANY, maximum, INSTRUCTION),
    _op("minimum", "Smaller operand; NaN propagates.", rules.ANY, minimum, INSTRUCTION),
    _op(
        "and",
        "Bitwise or logical and.",
        rules.LOGICAL,
        _bitwise(np.logical_and, np.bitwise_and),
        INSTRUCTION,
    ),
    _op(
        "or",
        "Bitwise or logical or.",
        rules.LOGICAL,
        _bitwise(np.logical_or, np.bitwise_or),
        INSTRUCTION,
    ),
    _op(
        "xor",
        "Bitwise exclusive or.",
        rules.LOGICAL,
        _bitwise(np.logical_xor, np.bitwise_xor),
        INSTRUCTION,
    ),
    _op(
        "shift-left",
        "Shift; by the width or more gives zero.",
        rules.INTEGER,
        integers.shift_left,
        SEQUENCE,
    ),
    _op(
        "shift-right-arithmetic",
        "Shift filling with the sign; by the width or more gives all sign.",
        rules.INTEGER,
        integers.shift_right_arithmetic,
        SEQUENCE,
        forms=(
            "Unsigned types are shifted as the signed type of their width is: the top bit fills.",
        ),
    ),
    _op(
        "shift-right-logical",
        "Shift filling with zeros; by the width or more gives zero.",
        rules.INTEGER,
        integers.shift_right_logical,
        SEQUENCE,
    ),
    _op(
        "complex",
        "Complex number of real and imaginary parts.",
        rules.FLOAT,
        compose,
        SEQUENCE,
        infer=_infer_complex,
    ),
    _op(
        "power",
        "First operand to the power of the second.",
        rules.NUMBER,
        power,
        FUNCTION,
        _FUNCTION,
        differences=(
            "Integers are multiplied as often as the exponent says, wrapping; XLA:CPU looks at the "
            "exponent's lowest bits only.",
            "Where a complex base or exponent is infinite, XLA:CPU gives NaN more often.",
        ),
    ),
    _op("atan2", "Angle of the point (second, first).", rules.FLOAT, atan2, FUNCTION, _FUNCTION),
)
