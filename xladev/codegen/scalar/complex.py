"""Complex arithmetic and functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from xladev.codegen.llvm import FunctionBuilder
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
    x, y = args
    real = b.fsub(b.fmul(x.real, y.real), b.fmul(x.imag, y.imag))
    imag = b.fadd(b.fmul(x.real, y.imag), b.fmul(x.imag, y.real))
    return ComplexValue(real, imag)


def _negate(b: FunctionBuilder, args: _Args) -> ComplexValue:
    return ComplexValue(b.fneg(args[0].real), b.fneg(args[0].imag))


COMPLEX_EMITTERS: Mapping[str, ComplexEmitter] = MappingProxyType(
    {
        "add": _add,
        "subtract": _subtract,
        "multiply": _multiply,
        "negate": _negate,
    }
)
