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


def _is_nan(b: FunctionBuilder, z: ComplexValue) -> Value:
    return b.or_(b.fcmp("uno", z.real, z.real), b.fcmp("uno", z.imag, z.imag))


def _precedes(b: FunctionBuilder, x: ComplexValue, y: ComplexValue) -> Value:
    """Whether x comes before y, by real and then by imaginary part."""
    same = b.and_(b.fcmp("oeq", x.real, y.real), b.fcmp("olt", x.imag, y.imag))
    return b.or_(b.fcmp("olt", x.real, y.real), same)


def _extreme(b: FunctionBuilder, args: _Args, second: Value) -> ComplexValue:
    """The second number where ``second``; a NaN of the first, then of the second, before all."""
    x, y = args
    whole = b.xor(_is_nan(b, x), True)
    chosen = b.and_(whole, b.or_(second, _is_nan(b, y)))
    return ComplexValue(b.select(chosen, y.real, x.real), b.select(chosen, y.imag, x.imag))


def _maximum(b: FunctionBuilder, args: _Args) -> ComplexValue:
    return _extreme(b, args, _precedes(b, args[0], args[1]))


def _minimum(b: FunctionBuilder, args: _Args) -> ComplexValue:
    return _extreme(b, args, _precedes(b, args[1], args[0]))


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
        "maximum": _maximum,
        "minimum": _minimum,
        **{opcode: _of_pairs(kernel) for opcode, kernel in COMPLEX_MATH.items()},
    }
)
