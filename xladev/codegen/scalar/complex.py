"""Complex arithmetic, and the complex functions of `codegen.math` under their HLO opcodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from xladev.codegen.llvm import FunctionBuilder, Value
from xladev.codegen.math.complex.arithmetic import emit_magnitude
from xladev.codegen.math.complex.functions import COMPLEX_MATH
from xladev.codegen.math.complex.pairs import PairKernel
from xladev.codegen.scalar.elements import ComplexValue, Element

ComplexEmitter = Callable[[FunctionBuilder, Sequence[ComplexValue]], Element]
_Args = Sequence[ComplexValue]


def _add(b: FunctionBuilder, args: _Args) -> ComplexValue:
    x, y = args
    return ComplexValue(b.fadd(x.real, y.real), b.fadd(x.imag, y.imag))


def _subtract(b: FunctionBuilder, args: _Args) -> ComplexValue:
    x, y = args
    return ComplexValue(b.fsub(x.real, y.real), b.fsub(x.imag, y.imag))


def _multiply(b: FunctionBuilder, args: _Args) -> ComplexValue:
    """The textbook product, as NumPy and XLA have it; parts may overflow on the way."""
    x, y = args
    real = b.fsub(b.fmul(x.real, y.real), b.fmul(x.imag, y.imag))
    imag = b.fadd(b.fmul(x.real, y.imag), b.fmul(x.imag, y.real))
    return ComplexValue(real, imag)


def _negate(b: FunctionBuilder, args: _Args) -> ComplexValue:
    return ComplexValue(b.fneg(args[0].real), b.fneg(args[0].imag))


def _abs(b: FunctionBuilder, args: _Args) -> Value:
    return emit_magnitude(b, (args[0].real, args[0].imag))


def _of_pairs(kernel: PairKernel) -> ComplexEmitter:
    def emit(b: FunctionBuilder, args: _Args) -> ComplexValue:
        return ComplexValue(*kernel(b, [(z.real, z.imag) for z in args]))

    return emit


COMPLEX_EMITTERS: Mapping[str, ComplexEmitter] = MappingProxyType(
    {
        "add": _add,
        "subtract": _subtract,
        "multiply": _multiply,
        "negate": _negate,
        "abs": _abs,
        **{opcode: _of_pairs(kernel) for opcode, kernel in COMPLEX_MATH.items()},
    }
)
