"""HLO constants in compute representation."""

from __future__ import annotations

import numpy as np

from xladev.codegen.llvm import Value, constant, vector
from xladev.codegen.scalar.elements import ComplexValue, Element, compute_type
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.literal import Literal

Number = bool | int | float | complex


def constant_element(dtype: PrimitiveType, number: Number | np.generic, lanes: int = 1) -> Element:
    """A constant of any element type, rounded to it as NumPy would; spread over the lanes."""
    rounded = np.asarray(number).astype(dtype.np)
    if dtype.is_complex:
        z = complex(rounded)
        return ComplexValue(_real(dtype, z.real, lanes), _real(dtype, z.imag, lanes))
    if dtype.is_float:
        return _real(dtype, float(rounded.astype(np.float64)), lanes)
    return _real(dtype, int(rounded), lanes)


def literal_element(literal: Literal) -> Element:
    """The only element of a constant array of size 1.

    Raises:
        LiteralError: the text elided its value.
    """
    return constant_element(literal.shape.element_type, literal.value.reshape(-1)[0])


def _real(dtype: PrimitiveType, number: float | int, lanes: int) -> Value:
    return constant(vector(compute_type(dtype), lanes), number)
