"""Float operations that are exact or rounded once; the functions come from codegen.math."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from xladev.codegen.llvm import FunctionBuilder, Value
from xladev.codegen.scalar.operation import FloatEmitter

_Args = Sequence[Value]


def _instruction(name: str) -> FloatEmitter:
    def emit(b: FunctionBuilder, args: _Args) -> Value:
        return b.binary(name, args[0], args[1])

    return emit


def _intrinsic(name: str) -> FloatEmitter:
    def emit(b: FunctionBuilder, args: _Args) -> Value:
        return b.intrinsic(name, *args)

    return emit


def _negate(b: FunctionBuilder, args: _Args) -> Value:
    return b.fneg(args[0])


def _sign(b: FunctionBuilder, args: _Args) -> Value:
    """-1 or 1; zeros and NaN are their own sign."""
    x = args[0]
    return b.select(b.fcmp("one", x, 0.0), b.copysign(1.0, x), x)


EXACT: Mapping[str, FloatEmitter] = MappingProxyType(
    {
        "negate": _negate,
        "abs": _intrinsic("fabs"),
        "sign": _sign,
        "maximum": _intrinsic("maximum"),
        "minimum": _intrinsic("minimum"),
        "ceil": _intrinsic("ceil"),
        "floor": _intrinsic("floor"),
        "round-nearest-even": _intrinsic("roundeven"),
        "round-nearest-afz": _intrinsic("round"),
    }
)
"""Results that the operand's type has, whatever its width, if it has signed zeros and -1..1."""

ROUNDED: Mapping[str, FloatEmitter] = MappingProxyType(
    {
        "add": _instruction("fadd"),
        "subtract": _instruction("fsub"),
        "multiply": _instruction("fmul"),
        "divide": _instruction("fdiv"),
        "sqrt": _intrinsic("sqrt"),
    }
)
"""Results to be rounded to a narrow type; twice 24 bits is enough that rounding twice is exact."""
