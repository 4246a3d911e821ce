"""The table of complex functions by HLO opcode."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from xladev.codegen.math.complex.arithmetic import (
    emit_divide,
    emit_rsqrt,
    emit_sign,
    emit_sqrt,
)
from xladev.codegen.math.complex.exponential import (
    emit_complex_exp,
    emit_complex_exp2,
    emit_complex_expm1,
    emit_complex_logistic,
)
from xladev.codegen.math.complex.inverse import (
    emit_complex_acos,
    emit_complex_acosh,
    emit_complex_asin,
    emit_complex_asinh,
    emit_complex_atan,
    emit_complex_atanh,
)
from xladev.codegen.math.complex.logarithm import (
    emit_complex_cbrt,
    emit_complex_log,
    emit_complex_log1p,
    emit_complex_log2,
    emit_complex_power,
)
from xladev.codegen.math.complex.pairs import PairKernel
from xladev.codegen.math.complex.trigonometric import (
    emit_complex_cos,
    emit_complex_cosh,
    emit_complex_sin,
    emit_complex_sinh,
    emit_complex_tan,
    emit_complex_tanh,
)

COMPLEX_MATH: Mapping[str, PairKernel] = MappingProxyType(
    {
        "acos": emit_complex_acos,
        "acosh": emit_complex_acosh,
        "asin": emit_complex_asin,
        "asinh": emit_complex_asinh,
        "atan": emit_complex_atan,
        "atanh": emit_complex_atanh,
        "cbrt": emit_complex_cbrt,
        "cosh": emit_complex_cosh,
        "cosine": emit_complex_cos,
        "divide": emit_divide,
        "exp2": emit_complex_exp2,
        "exponential": emit_complex_exp,
        "exponential-minus-one": emit_complex_expm1,
        "log": emit_complex_log,
        "log-plus-one": emit_complex_log1p,
        "log2": emit_complex_log2,
        "logistic": emit_complex_logistic,
        "power": emit_complex_power,
        "rsqrt": emit_rsqrt,
        "sign": emit_sign,
        "sine": emit_complex_sin,
        "sinh": emit_complex_sinh,
        "sqrt": emit_sqrt,
        "tan": emit_complex_tan,
        "tanh": emit_complex_tanh,
    }
)
