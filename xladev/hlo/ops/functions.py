"""Elementwise mathematical functions of one operand.

Each is calculated in a raised precision and rounded once, so results are within a small fraction
over half a unit in the last place; the C library's long double functions bound f64.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from xladev.hlo.expense import DIVISION, FUNCTION
from xladev.hlo.literal import Array
from xladev.hlo.numerics import complexes, reals
from xladev.hlo.numerics.precision import narrow, raise_precision
from xladev.hlo.opdef import Attr, AttrKind, OpDef, Tolerance
from xladev.hlo.ops import rules
from xladev.hlo.ops.unary import infer_unary

ACCURACY = Attr("result_accuracy", AttrKind.ACCURACY)

Function = Callable[[Array], Array]

COMPLEX_SPECIALS = (
    "Complex infinities, NaN and signed zeros are treated as in C99 Annex G; XLA:CPU gives NaN for "
    "some parts that are known, and takes the branch of +0 at cuts."
)


def rounded_once(of_reals: Function, of_complexes: Function) -> Function:
    """A function of one array, calculated in a raised precision."""

    def function(x: Array) -> Array:
        chosen = of_complexes if x.dtype.kind == "c" else of_reals
        return narrow(np.asarray(chosen(raise_precision(x))), x.dtype)

    return function


_LOG1P = ("XLA:CPU's f64 is off by up to a hundred units in the last place below zero.",)
_NEAR_ZERO = ("XLA:CPU's complex sine loses digits of the imaginary part near zero.",)


def _op(
    name: str,
    summary: str,
    of_reals: Function,
    of_complexes: Function | None = None,
    differences: tuple[str, ...] = (),
    expense: int = FUNCTION,
) -> OpDef:
    kinds = rules.FLOAT if of_complexes is None else rules.FLOAT | rules.COMPLEX
    return OpDef(
        name,
        1,
        summary,
        attrs=(ACCURACY,),
        infer=infer_unary(kinds),
        evaluate=rules.elementwise(rounded_once(of_reals, of_complexes or of_reals)),
        category="elementwise",
        expense=expense,
        elementwise=True,
        tolerance=Tolerance.FUNCTION,
        differences=(*differences, *(() if of_complexes is None else (COMPLEX_SPECIALS,))),
    )


OPS: tuple[OpDef, ...] = (
    _op("acos", "Inverse cosine.", np.arccos, np.arccos),
    _op("acosh", "Inverse hyperbolic cosine.", np.arccosh, np.arccosh),
    _op("asin", "Inverse sine.", np.arcsin, np.arcsin),
    _op("asinh", "Inverse hyperbolic sine.", np.arcsinh, np.arcsinh),
    _op("atanh", "Inverse hyperbolic tangent.", np.arctanh, np.arctanh),
    _op("cbrt", "Cube root; of negative numbers too.", np.cbrt, complexes.cbrt),
    _op("cosine", "Cosine.", np.cos, np.cos),
    _op("sine", "Sine.", np.sin, np.sin, _NEAR_ZERO),
    _op("tan", "Tangent.", np.tan, complexes.tan),
    _op("cosh", "Hyperbolic cosine.", np.cosh, np.cosh),
    _op("sinh", "Hyperbolic sine.", np.sinh, np.sinh),
    _op("tanh", "Hyperbolic tangent.", np.tanh, complexes.tanh),
    _op("erf", "Gauss error function.", reals.erf),
    _op("exponential", "Natural exponential.", np.exp, np.exp),
    _op("exp2", "Two to the power of the operand.", np.exp2, complexes.exp2),
    _op("exponential-minus-one", "exp(x) - 1, accurate near zero.", np.expm1, complexes.expm1),
    _op("log", "Natural logarithm.", np.log, np.log),
    _op("log2", "Logarithm to base two.", np.log2, complexes.log2),
    _op("log-plus-one", "log(1 + x), accurate near zero.", np.log1p, complexes.log1p, _LOG1P),
    _op("logistic", "1 / (1 + exp(-x)).", reals.logistic, complexes.logistic),
    _op("sqrt", "Square root.", np.sqrt, np.sqrt, expense=DIVISION),
    _op("rsqrt", "Reciprocal square root.", reals.rsqrt, complexes.rsqrt, expense=DIVISION),
)
