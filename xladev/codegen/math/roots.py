"""rsqrt and cbrt; sqrt is an instruction."""

from __future__ import annotations

from collections.abc import Sequence

from xladev.codegen.llvm import DOUBLE, I64, FunctionBuilder, Value
from xladev.codegen.math import coefficients as c
from xladev.codegen.math.scaling import power_of_two
from xladev.codegen.math.shared import MathEmitter, horner, in_double, shared

_Args = Sequence[Value]


def emit_rsqrt(b: FunctionBuilder, args: _Args) -> Value:
    """1 / sqrt(x) and a step of Newton's, whose residual 1 - x y**2 is exact to a few bits.

    Where the quotient is no finite number other than 0, it is the result: -0 gives -inf.
    """
    x = args[0]
    y = b.fdiv(1.0, b.sqrt(x))
    product = b.fmul(x, y)
    error = b.fma(x, y, b.fneg(product))
    residual = b.multiply_add(b.fneg(error), y, b.fma(b.fneg(product), y, 1.0))
    better = b.multiply_add(b.fmul(y, 0.5), residual, y)
    return b.select(b.fcmp("uno", residual, residual), y, better)


def _split_by_thirds(b: FunctionBuilder, x: Value) -> tuple[Value, Value]:
    """(m, q) with x = m * 8**q, m in [1, 8), for finite x > 0; q is i64."""
    tiny = b.fcmp("olt", x, 2.0**-1022)
    bits = b.bitcast(b.select(tiny, b.fmul(x, 2.0**54), x), I64)
    biased = b.lshr(bits, 52)
    # floor(n / 3) of 0 <= n < 2**15 by a multiplication; 1023 and 54 are multiples of three.
    third = b.lshr(b.mul(biased, 43691), 17)
    mantissa = b.bitcast(b.sub(bits, b.shl(b.sub(b.mul(third, 3), 1023), 52)), DOUBLE)
    offset = b.select(tiny, b.const(bits.type, 341 + 18), 341)
    return mantissa, b.sub(third, offset)


def _halley(b: FunctionBuilder, root: Value, m: Value) -> Value:
    """One step of third order toward the cube root of m."""
    cube = b.fmul(b.fmul(root, root), root)
    numerator = b.multiply_add(m, 2.0, cube)
    return b.fmul(root, b.fdiv(numerator, b.multiply_add(cube, 2.0, m)))


def _newton(b: FunctionBuilder, root: Value, m: Value) -> Value:
    """A last step whose residual root**3 - m is exact to a few bits beyond f64."""
    square = b.fmul(root, root)
    square_error = b.fma(root, root, b.fneg(square))
    residual = b.multiply_add(square_error, root, b.fma(square, root, b.fneg(m)))
    return b.fsub(root, b.fdiv(residual, b.fmul(square, 3.0)))


def _cbrt(table: Sequence[float], steps: int, polished: bool) -> MathEmitter:
    def emit(b: FunctionBuilder, args: _Args) -> Value:
        magnitude = b.fabs(args[0])
        m, q = _split_by_thirds(b, magnitude)
        root = horner(b, m, table)
        for _ in range(steps):
            root = _halley(b, root, m)
        if polished:
            root = _newton(b, root, m)
        value = b.copysign(b.fmul(root, power_of_two(b, q)), args[0])
        special = b.or_(b.fcmp("oeq", magnitude, 0.0), b.fcmp("ueq", magnitude, float("inf")))
        return b.select(special, args[0], value)

    return emit


emit_cbrt = shared(
    "cbrt",
    in_double(_cbrt(c.CBRT_F32, steps=1, polished=False)),
    _cbrt(c.CBRT_F64, steps=2, polished=True),
)
