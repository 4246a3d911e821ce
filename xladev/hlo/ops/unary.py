"""Elementwise opcodes of one operand that are exact."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from xladev.hlo import dtype as dt
from xladev.hlo.dtype import Kind, PrimitiveType
from xladev.hlo.expense import INSTRUCTION, PAIR, SEQUENCE
from xladev.hlo.literal import Array
from xladev.hlo.numerics import complexes, integers, reals
from xladev.hlo.numerics.precision import narrow, pointwise, raise_precision, widen
from xladev.hlo.opdef import InferFn, OpCall, OpDef, Tolerance
from xladev.hlo.ops import rules
from xladev.hlo.shape import Shape

SIGNED = rules.FLOAT | rules.COMPLEX | {Kind.SINT}


def infer_unary(
    kinds: rules.Kinds, result: Callable[[PrimitiveType], PrimitiveType] = lambda t: t
) -> InferFn:
    """Shape rule: one array (``OP_c1``) of these kinds (``OP_c2``), and a result like it."""

    def infer(call: OpCall) -> Shape:
        rules.require_arrays(call)
        (operand,) = call.operands
        rules.require_kinds(call, operand, kinds, "c2")
        return rules.with_type(operand, result(operand.element_type))

    return infer


def _component(element_type: PrimitiveType) -> PrimitiveType:
    return element_type.component


def _rounded(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """A function on wide floats as one on any floats."""
    return lambda x: pointwise(function(widen(x)), x.dtype)


def absolute(x: Array) -> Array:
    """Magnitude; the least integer stays itself."""
    if x.dtype.kind == "c":
        raised = raise_precision(x)
        return np.asarray(np.hypot(raised.real, raised.imag)).astype(x.real.dtype)
    return pointwise(np.abs(widen(x)), x.dtype)


def negate(x: Array) -> Array:
    """Opposite; integers wrap, floats and NaN flip the sign bit."""
    if dt.by_numpy(x.dtype).is_integral:
        return pointwise(np.negative(widen(x)), x.dtype)
    return np.asarray(np.negative(x))


def sign(x: Array) -> Array:
    """Sign of integers and floats, unit vector of complex numbers."""
    element_type = dt.by_numpy(x.dtype)
    if element_type.is_complex:
        return pointwise(complexes.sign(raise_precision(x)), x.dtype)
    if element_type.is_integral:
        return pointwise(np.sign(widen(x)), x.dtype)
    return narrow(reals.sign(widen(x)), x.dtype)


def complement(x: Array) -> Array:
    """Logical complement of pred, every bit of integers."""
    return np.logical_not(x) if x.dtype == np.bool_ else integers.bitwise_not(x)


def is_finite(x: Array) -> Array:
    """Where the element is neither infinite nor NaN."""
    return np.isfinite(widen(x))


def real(x: Array) -> Array:
    """Real part."""
    return np.array(x.real)


def imag(x: Array) -> Array:
    """Imaginary part."""
    # converted, not cleared: a type without zero has NaN for it
    return np.array(x.imag) if x.dtype.kind == "c" else np.full(x.shape, 0.0).astype(x.dtype)


def _op(
    name: str,
    summary: str,
    kinds: rules.Kinds,
    function: Callable[[Array], Array],
    expense: int,
    result: Callable[[PrimitiveType], PrimitiveType] = lambda t: t,
    tolerance: Tolerance = Tolerance.EXACT,
    differences: tuple[str, ...] = (),
) -> OpDef:
    return OpDef(
        name,
        1,
        summary,
        infer=infer_unary(kinds, result),
        evaluate=rules.elementwise(function),
        category="elementwise",
        expense=expense,
        elementwise=True,
        tolerance=tolerance,
        differences=differences,
    )


_NARROW = ("XLA:CPU counts in the eight bits that hold narrower integers.",)
_PARTS = rules.FLOAT | rules.COMPLEX

OPS: tuple[OpDef, ...] = (
    _op(
        "abs",
        "Magnitude; of complex numbers, a real.",
        SIGNED,
        absolute,
        PAIR,
        _component,
        Tolerance.ROUNDED,
    ),
    _op("negate", "Arithmetic negation; integers wrap.", rules.NUMBER, negate, INSTRUCTION),
    _op(
        "sign",
        "-1, 0 or 1, keeping NaN and signed zero; z/|z| for complex.",
        SIGNED,
        sign,
        SEQUENCE,
        tolerance=Tolerance.ROUNDED,
    ),
    _op("not", "Bitwise or logical complement.", rules.LOGICAL, complement, INSTRUCTION),
    _op(
        "is-finite",
        "Whether a float is neither infinite nor NaN.",
        rules.FLOAT,
        is_finite,
        SEQUENCE,
        lambda _: dt.PRED,
    ),
    _op(
        "count-leading-zeros",
        "Number of leading zero bits.",
        rules.INTEGER,
        integers.count_leading_zeros,
        SEQUENCE,
        differences=(*_NARROW, "XLA folds constants that are negative to other counts."),
    ),
    _op(
        "popcnt",
        "Number of set bits.",
        rules.INTEGER,
        integers.population_count,
        SEQUENCE,
        differences=_NARROW,
    ),
    _op("real", "Real part; the identity on floats.", _PARTS, real, SEQUENCE, _component),
    _op("imag", "Imaginary part; zero for floats.", _PARTS, imag, SEQUENCE, _component),
    _op("ceil", "Rounds toward plus infinity.", rules.FLOAT, _rounded(np.ceil), PAIR),
    _op("floor", "Rounds toward minus infinity.", rules.FLOAT, _rounded(np.floor), PAIR),
    _op(
        "round-nearest-afz",
        "Rounds to the nearest integer, ties away from zero.",
        rules.FLOAT,
        _rounded(reals.round_half_away),
        SEQUENCE,
    ),
    _op(
        "round-nearest-even",
        "Rounds to the nearest integer, ties to even.",
        rules.FLOAT,
        _rounded(np.rint),
        SEQUENCE,
    ),
)
