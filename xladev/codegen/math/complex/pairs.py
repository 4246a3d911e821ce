"""Complex numbers as pairs of f64, and how their functions become shared code."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xladev.codegen.llvm import DOUBLE, I64, FunctionBuilder, Value

Pair = tuple[Value, Value]
PairKernel = Callable[[FunctionBuilder, Sequence[Pair]], Pair]
RealKernel = Callable[[FunctionBuilder, Pair], Value]

INFINITY = float("inf")
NAN = float("nan")


def shared_pair(name: str, kernel: PairKernel) -> PairKernel:
    """A call of the module's own function of complex numbers; c64 is widened to f64 inside."""

    def body(b: FunctionBuilder, args: tuple[Value, ...]) -> Sequence[Value]:
        element = args[0].type.scalar()
        wide = [b.refloat(x, DOUBLE) for x in args]
        real, imag = kernel(b, list(zip(wide[::2], wide[1::2], strict=True)))
        return b.refloat(real, element), b.refloat(imag, element)

    def emit(b: FunctionBuilder, args: Sequence[Pair]) -> Pair:
        flat = [part for pair in args for part in pair]
        real, imag = b.call_shared_many(f"complex.{name}", [flat[0].type] * 2, flat, body)
        return real, imag

    return emit


def shared_real(name: str, kernel: RealKernel) -> RealKernel:
    """As `shared_pair`, for a real function of one complex number."""

    def body(b: FunctionBuilder, args: tuple[Value, ...]) -> Value:
        value = kernel(b, (b.refloat(args[0], DOUBLE), b.refloat(args[1], DOUBLE)))
        return b.refloat(value, args[0].type.scalar())

    def emit(b: FunctionBuilder, z: Pair) -> Value:
        return b.call_shared(f"complex.{name}", z[0].type, z, body)

    return emit


def binade(b: FunctionBuilder, magnitude: Value) -> tuple[Value, Value]:
    """(2**-n, n) with magnitude * 2**-n in [1, 2), as f64 and i64.

    Zero and subnormals count as the least normal binade; infinity and NaN as the greatest.
    """
    field = b.lshr(b.bitcast(magnitude, I64), 52)
    field = b.intrinsic("smin", b.intrinsic("smax", field, 1), 2045)
    inverse = b.bitcast(b.shl(b.sub(2046, field), 52), DOUBLE)
    return inverse, b.sub(field, 1023)


def larger(b: FunctionBuilder, z: Pair) -> Value:
    """The larger of the two magnitudes; the second if either is NaN."""
    x, y = b.fabs(z[0]), b.fabs(z[1])
    return b.select(b.fcmp("ogt", x, y), x, y)


def dot(b: FunctionBuilder, p: Pair, q: Pair) -> Value:
    """p0 q0 + p1 q1 with an error of at most 1.5 ulp, however much cancels (Kahan)."""
    product = b.fmul(p[1], q[1])
    error = b.fma(p[1], q[1], b.fneg(product))
    return b.fadd(b.fma(p[0], q[0], product), error)


def is_infinite(b: FunctionBuilder, z: Pair) -> Value:
    """True if either part is infinite."""
    return b.or_(
        b.fcmp("oeq", b.fabs(z[0]), INFINITY),
        b.fcmp("oeq", b.fabs(z[1]), INFINITY),
    )
