"""How a mathematical function becomes code: one internal function per precision and lane count."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xladev.codegen.llvm import DOUBLE, FunctionBuilder, Value
from xladev.errors import UnsupportedError

MathEmitter = Callable[[FunctionBuilder, Sequence[Value]], Value]
"""Emits a function of values of one type, float or double, with any lane count."""


def shared(name: str, single: MathEmitter, double: MathEmitter) -> MathEmitter:
    """A call of the module's own function ``name``, made from the emitter for the precision."""

    def emit(b: FunctionBuilder, args: Sequence[Value]) -> Value:
        type_ = args[0].type
        kernel = {"float": single, "double": double}.get(type_.element)
        if kernel is None:
            raise UnsupportedError(f"{name} is computed in f32 or f64, not in {type_}")
        return b.call_shared(name, type_, args, kernel)

    return emit


def in_double(kernel: MathEmitter) -> MathEmitter:
    """The f32 function that computes in f64 and rounds once at the end."""

    def emit(b: FunctionBuilder, args: Sequence[Value]) -> Value:
        wide = kernel(b, [b.refloat(arg, DOUBLE) for arg in args])
        return b.refloat(wide, args[0].type.scalar())

    return emit


def horner(b: FunctionBuilder, x: Value, coefficients: Sequence[float]) -> Value:
    """A polynomial, lowest power first, by fused multiply-adds."""
    total: Value = b.const(x.type, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = b.multiply_add(total, x, coefficient)
    return total


def with_sign(b: FunctionBuilder, magnitude: Value, sign: Value) -> Value:
    """A positive f32 with the sign of another.

    The fence keeps LLVM from looking for that sign before conversions, in an f64 that it would then
    round to half at once: a call of a function nobody provides.
    """
    return b.copysign(magnitude, b.intrinsic("arithmetic.fence", sign))
