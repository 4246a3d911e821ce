"""Comparison and logic."""

from __future__ import annotations

import math

from xladev.frontends.torch.lower.promotion import operand, result_type
from xladev.frontends.torch.lower.table import Family, Function
from xladev.frontends.torch.lower.value import Number, TensorBuilder, Value
from xladev.hlo import dtype as dt
from xladev.hlo.shape import Shape

Operand = Value | Number

COMPARISON = Family("comparison", "Comparison and logic.")

_DIRECTIONS = {
    "eq": "Whether equal.",
    "ne": "Whether not equal.",
    "lt": "Whether less.",
    "le": "Whether less or equal.",
    "gt": "Whether greater.",
    "ge": "Whether greater or equal.",
}


def _comparison(direction: str, what: str) -> Function:
    def lower(b: TensorBuilder, out: Shape, left: Operand, right: Operand) -> Value:
        to = result_type(left, right)
        x = operand(b, left, to, out.dims)
        return x.compare(operand(b, right, to, out.dims), direction.upper())

    lower.__doc__ = what
    return lower


for _name, _what in _DIRECTIONS.items():
    for _overload in ("Tensor", "Scalar"):
        COMPARISON.add(f"{_name}.{_overload}", _comparison(_name, _what))

_LOGIC = {
    "logical_and": ("and", "Whether both are true."),
    "logical_or": ("or", "Whether one is true."),
    "logical_xor": ("xor", "Whether just one is true."),
}


def _logic(opcode: str, what: str) -> Function:
    def lower(b: TensorBuilder, out: Shape, left: Operand, right: Operand) -> Value:
        x = operand(b, left, dt.PRED, out.dims)
        return x.op(opcode, operand(b, right, dt.PRED, out.dims))

    lower.__doc__ = what
    return lower


for _name, (_opcode, _what) in _LOGIC.items():
    COMPARISON.add(f"{_name}.default", _logic(_opcode, _what))


@COMPARISON.lowers("logical_not.default")
def _logical_not(b: TensorBuilder, out: Shape, x: Value) -> Value:
    """Whether not true."""
    return ~x.cast(dt.PRED)


@COMPARISON.lowers("isnan.default")
def _isnan(b: TensorBuilder, out: Shape, x: Value) -> Value:
    """Whether not a number."""
    return x.is_nan() if x.dtype.is_float or x.dtype.is_complex else x.like(False, dt.PRED)


@COMPARISON.lowers("isinf.default")
def _isinf(b: TensorBuilder, out: Shape, x: Value) -> Value:
    """Whether infinite; of complex numbers, whether a part is."""
    if x.dtype.is_complex:
        return x.op("real").abs().eq(math.inf) | x.op("imag").abs().eq(math.inf)
    return x.abs().eq(math.inf) if x.dtype.is_float else x.like(False, dt.PRED)


@COMPARISON.lowers("isfinite.default")
def _isfinite(b: TensorBuilder, out: Shape, x: Value) -> Value:
    """Whether neither infinite nor NaN."""
    if x.dtype.is_complex:
        return x.op("real").op("is-finite") & x.op("imag").op("is-finite")
    return x.op("is-finite") if x.dtype.is_float else x.like(True, dt.PRED)
