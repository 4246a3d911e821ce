"""The compute representation of an HLO element: one SSA value, or two for complex numbers.

Between operations an element is held as follows (lanes apart):

=====================  ===========  ==============================================================
HLO type               compute      invariant
=====================  ===========  ==============================================================
pred                   ``i1``
sN, uN                 ``iN``       sub-byte integers too: ``s4`` is ``i4``
f32, f64               ``float``, ``double``
other floats           ``float``    the value is one that the narrow type has
c64, c128              a pair of ``float`` or ``double``
=====================  ===========  ==============================================================
"""

from __future__ import annotations

from dataclasses import dataclass

from xladev.codegen.llvm import (
    DOUBLE,
    FLOAT,
    I1,
    FunctionBuilder,
    IrType,
    Value,
    integer,
    vector,
)
from xladev.errors import UnsupportedError
from xladev.hlo.dtype import C128, F64, Kind, PrimitiveType


@dataclass(frozen=True, slots=True)
class ComplexValue:
    """A complex element in compute representation."""

    real: Value
    imag: Value

    @property
    def lanes(self) -> int:
        """Length of the vectors; 1 for a scalar."""
        return self.real.type.lanes


Element = Value | ComplexValue


def compute_type(dtype: PrimitiveType) -> IrType:
    """LLVM type that an element is computed in; of a complex type, that of each part.

    Raises UnsupportedError for types without elements.
    """
    if dtype.kind is Kind.PRED:
        return I1
    if dtype.is_integral:
        return integer(dtype.bits)
    if dtype is F64 or dtype is C128:
        return DOUBLE
    if dtype.is_float or dtype.is_complex:
        return FLOAT
    raise UnsupportedError(f"{dtype} has no elements to compute with")


def real_of(element: Element, what: str) -> Value:
    """The single value of a real element; UnsupportedError if it is complex."""
    if isinstance(element, ComplexValue):
        raise UnsupportedError(f"{what} is not defined on complex numbers")
    return element


def complex_of(element: Element, what: str) -> ComplexValue:
    """The pair of a complex element; UnsupportedError if it is real."""
    if isinstance(element, Value):
        raise UnsupportedError(f"{what} is defined on complex numbers only")
    return element


def splat(b: FunctionBuilder, element: Element, lanes: int) -> Element:
    """The element in every lane."""
    if isinstance(element, ComplexValue):
        return ComplexValue(_splat(b, element.real, lanes), _splat(b, element.imag, lanes))
    return _splat(b, element, lanes)


def _splat(b: FunctionBuilder, value: Value, lanes: int) -> Value:
    if value.lanes == lanes:
        return value
    if value.text.startswith("%"):
        return b.splat(value, lanes)
    return Value(f"splat ({value})", vector(value.type, lanes))
