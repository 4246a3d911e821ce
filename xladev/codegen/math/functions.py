"""The table of mathematical functions by HLO opcode."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from xladev.codegen.math.error_function import emit_erf
from xladev.codegen.math.exponential import emit_exp, emit_exp2, emit_expm1, emit_logistic
from xladev.codegen.math.hyperbolic import (
    emit_acosh,
    emit_asinh,
    emit_atanh,
    emit_cosh,
    emit_sinh,
    emit_tanh,
)
from xladev.codegen.math.inverse_trigonometric import emit_acos, emit_asin, emit_atan, emit_atan2
from xladev.codegen.math.logarithm import emit_log, emit_log1p, emit_log2
from xladev.codegen.math.power import emit_pow
from xladev.codegen.math.remainder import emit_remainder
from xladev.codegen.math.roots import emit_cbrt, emit_rsqrt
from xladev.codegen.math.shared import MathEmitter
from xladev.codegen.math.trigonometric import emit_cos, emit_sin, emit_tan

MATH: Mapping[str, MathEmitter] = MappingProxyType(
    {
        "acos": emit_acos,
        "acosh": emit_acosh,
        "asin": emit_asin,
        "asinh": emit_asinh,
        "atan": emit_atan,
        "atan2": emit_atan2,
        "atanh": emit_atanh,
        "cbrt": emit_cbrt,
        "cosh": emit_cosh,
        "cosine": emit_cos,
        "erf": emit_erf,
        "exp2": emit_exp2,
        "exponential": emit_exp,
        "exponential-minus-one": emit_expm1,
        "log": emit_log,
        "log-plus-one": emit_log1p,
        "log2": emit_log2,
        "logistic": emit_logistic,
        "power": emit_pow,
        "remainder": emit_remainder,
        "rsqrt": emit_rsqrt,
        "sine": emit_sin,
        "sinh": emit_sinh,
        "tan": emit_tan,
        "tanh": emit_tanh,
    }
)
