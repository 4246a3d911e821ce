"""erf: an odd polynomial up to 1, then 1 - erfc(x) with erfc(x) = exp(-x**2) R(x)."""

from __future__ import annotations

from collections.abc import Sequence

from xladev.codegen.llvm import FunctionBuilder, Value
from xladev.codegen.math import coefficients as c
from xladev.codegen.math.exponential import exp_normal_single, scaled_exp
from xladev.codegen.math.shared import MathEmitter, horner, shared, with_sign

_Args = Sequence[Value]
_ONE_FROM, _ONE_FROM_SINGLE = 6.0, 4.0
"""erf is 1 to the last place of f64, and of f32, from here on."""


def _erf(
    inner: Sequence[float], outer: Sequence[float], exponential: Sequence[float]
) -> MathEmitter:
    def emit(b: FunctionBuilder, args: _Args) -> Value:
        x = b.fabs(args[0])
        z = b.fmul(x, x)
        near = b.fmul(x, horner(b, z, inner))
        bounded = b.select(b.fcmp("ogt", x, _ONE_FROM), _ONE_FROM, x)
        far = b.fsub(1.0, _erfc(b, bounded, outer, exponential))
        value = b.select(b.fcmp("olt", x, 1.0), near, far)
        return b.copysign(value, args[0])

    return emit


def _erfc(
    b: FunctionBuilder, x: Value, table: Sequence[float], exponential: Sequence[float]
) -> Value:
    """exp(-x**2) P(t) / (1 + 2 x), t = (x - 2.5) / (x + 2.5), for 1 <= x <= 6."""
    falling = scaled_exp(b, b.fneg(b.fmul(x, x)), exponential)
    t = b.fdiv(b.fsub(x, 2.5), b.fadd(x, 2.5))
    return b.fdiv(b.fmul(falling, horner(b, t, table)), b.multiply_add(x, 2.0, 1.0))


def _erf_single(b: FunctionBuilder, args: _Args) -> Value:
    """As in f64, with erfc(x) = exp(P(x - 2.5)) on [1, 4]; beyond, erf is 1 to the last place."""
    x = b.fabs(args[0])
    z = b.fmul(x, x)
    near = b.multiply_add(x, horner(b, z, (c.ERF_IN_F32[0] - 1.0, *c.ERF_IN_F32[1:])), x)
    bounded = b.select(b.fcmp("ogt", x, _ONE_FROM_SINGLE), _ONE_FROM_SINGLE, x)
    logarithm = horner(b, b.fsub(bounded, 2.5), c.LOG_ERFC_IN_F32)
    far = b.fsub(1.0, exp_normal_single(b, logarithm))
    return with_sign(b, b.select(b.fcmp("olt", x, 1.0), near, far), args[0])


emit_erf = shared("erf", _erf_single, _erf(c.ERF_F64, c.ERFCX_F64, c.EXP_F64))
