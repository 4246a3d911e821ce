"""Torch's promotion of element types: arrays with dimensions decide before scalars, these before
Python numbers, unless a number is of a higher category (bool, integer, float, complex).

Source: torch's documentation, "Tensor Attributes", torch.dtype.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import Any

from xladev.frontends.torch.lower.value import Number, TensorBuilder, Value
from xladev.hlo import dtype as dt
from xladev.hlo.dtype import PrimitiveType

_CATEGORY_OF_NUMBER = {bool: 0, int: 1, float: 2, complex: 3}
_DEFAULT = {0: dt.PRED, 1: dt.S64, 2: dt.F32, 3: dt.C64}


def category(element: PrimitiveType) -> int:
    """0 for pred, 1 integers, 2 floats, 3 complex."""
    if element is dt.PRED:
        return 0
    return 1 if element.is_integral else 3 if element.is_complex else 2


def joined(left: PrimitiveType, right: PrimitiveType) -> PrimitiveType:
    """The type that holds both of two arrays."""
    if left is right:
        return left
    low, high = sorted((left, right), key=category)
    if category(low) < category(high):
        return _as_complex(low, high) if high.is_complex else high
    return _same_category(left, right)


def _as_complex(low: PrimitiveType, high: PrimitiveType) -> PrimitiveType:
    return dt.C128 if low is dt.F64 else high


def _same_category(left: PrimitiveType, right: PrimitiveType) -> PrimitiveType:
    small, large = sorted((left, right), key=lambda each: each.bits)
    if not left.is_integral:
        return dt.F32 if small.bits == large.bits else large
    if small.is_signed == large.is_signed or large.is_signed and large.bits > small.bits:
        return large
    signed = {8: dt.S16, 16: dt.S32, 32: dt.S64, 64: dt.S64}
    return signed[large.bits if not large.is_signed else small.bits]


def result_type(*operands: Value | Number) -> PrimitiveType:
    """The type in which arrays and numbers meet."""
    values = [o for o in operands if isinstance(o, Value)]
    groups: tuple[Iterable[PrimitiveType], ...] = (
        [v.dtype for v in values if v.rank],
        [v.dtype for v in values if not v.rank],
        [_of_number(o) for o in operands if not isinstance(o, Value)],
    )
    found: PrimitiveType | None = None
    for group in groups:
        types = list(group)
        if types:
            found = _raised(found, reduce(joined, types))
    return found or dt.F32


def _raised(found: PrimitiveType | None, other: PrimitiveType) -> PrimitiveType:
    """What counts more, unless the other is of a higher category; a float decides how precise a
    complex number is."""
    if found is None or (category(other) > category(found) and not found.is_float):
        return other
    if category(other) <= category(found):
        return found
    return dt.C128 if found is dt.F64 else dt.C64


def _of_number(number: Any) -> PrimitiveType:
    return _DEFAULT[_CATEGORY_OF_NUMBER[type(number)]]


def operand(
    builder: TensorBuilder, value: Value | Number, to: PrimitiveType, dims: tuple[int, ...]
) -> Value:
    """An array or number as an operand of this type and these sizes."""
    if not isinstance(value, Value):
        return builder.full(value, to, dims)
    return value.cast(to).expand(dims)
