"""What the vector unit computes: NumPy code by opcode, function and element type.

Each code is a callable ``run(out, *sources)`` on arrays of equal shape that are views of the
scratchpad, with bf16 as its bits. Which combinations exist is what `vector_function` answers; all
others are illegal instructions.

What a vendor replaces: nothing; it is the simulated hardware.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

import numpy as np

from xladev.platforms.template_npu.device import isa, numerics
from xladev.platforms.template_npu.device.isa import ElementType
from xladev.platforms.template_npu.device.numerics import Array, bf16_to_f32, f32_to_bf16

Run = Callable[..., object]
Function = Callable[..., Any]

_FLOAT_UNARY: Mapping[str, Function] = MappingProxyType(
    {
        "neg": np.negative, "abs": np.abs, "sign": numerics.sign, "floor": np.floor,
        "ceil": np.ceil, "round_even": np.rint, "round_away": numerics.round_away,
        "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "erf": numerics.erf,
        **{name: numerics.through_f64(function) for name, function in {
            "cbrt": np.cbrt, "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log,
            "log2": np.log2, "log1p": np.log1p, "sin": np.sin, "cos": np.cos, "tan": np.tan,
            "asin": np.arcsin, "acos": np.arccos, "sinh": np.sinh, "cosh": np.cosh,
            "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
        }.items()},
        "logistic": numerics.logistic,
    }
)  # fmt: skip
_INTEGER_UNARY: Mapping[str, Function] = MappingProxyType(
    {
        "neg": np.negative, "abs": np.abs, "sign": np.sign, "not": np.invert,
        "popcnt": numerics.population_count, "clz": numerics.count_leading_zeros,
    }
)  # fmt: skip
_FLOAT_BINARY: Mapping[str, Function] = MappingProxyType(
    {
        "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide,
        "rem": np.fmod, "pow": numerics.power, "max": numerics.maximum, "min": numerics.minimum,
        "atan2": numerics.arctangent,
    }
)  # fmt: skip
_INTEGER_BINARY: Mapping[str, Function] = MappingProxyType(
    {
        "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": numerics.divide_integers,
        "rem": numerics.remainder_integers, "pow": numerics.power_integers, "max": np.maximum,
        "min": np.minimum, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
        "shl": numerics.shift_left, "shr": numerics.shift_right,
        "sar": numerics.shift_right_arithmetic, "mulhi": numerics.multiply_high,
    }
)  # fmt: skip
_PRED_BINARY: Mapping[str, Function] = MappingProxyType(
    {
        "add": np.logical_or, "mul": np.logical_and, "max": np.logical_or,
        "min": np.logical_and, "and": np.logical_and, "or": np.logical_or,
        "xor": np.logical_xor,
    }
)  # fmt: skip
_COMPARE: Mapping[str, Function] = MappingProxyType(
    {
        "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
        "gt": np.greater, "ge": np.greater_equal,
    }
)  # fmt: skip
_PRED = isa.TYPE_NUMBERS["pred"]
_BF16 = isa.TYPE_NUMBERS["bf16"]


def binary_function(name: str, type_: ElementType) -> Function | None:
    """A function of two arrays of floats (f32 for bf16), integers or preds; None if there is none.

    It takes ``out`` only if it is a NumPy ufunc.
    """
    if type_.is_float:
        return _FLOAT_BINARY.get(name)
    return (_PRED_BINARY if type_.name == "pred" else _INTEGER_BINARY).get(name)


def quantizer(type_number: int, imm: int) -> Run:
    """The code of a quantize instruction of f32 or bf16."""
    widths = divmod(imm, 256)
    run = _through_f32(lambda x: numerics.quantize(x, *widths), isa.TYPES[type_number])
    assert run is not None
    return run


@cache
def vector_function(opcode: str, function: str, type_number: int, result_number: int) -> Run | None:
    """The code of a vector instruction; None if there is no such instruction."""
    type_, result = isa.TYPES[type_number], isa.TYPES[result_number]
    if opcode == "convert":
        return _convert(type_, result)
    if opcode == "compare":
        return _compare(function, type_) if result_number == _PRED else None
    if opcode == "unary" and function == "is_finite":
        return _is_finite(type_) if result_number == _PRED else None
    if type_number != result_number:
        return None
    if opcode == "unary":
        return _unary(function, type_)
    if opcode == "binary":
        return _through_f32(binary_function(function, type_), type_)
    if opcode == "select":
        return _select
    return None


def _copy(out: Array, source: Array) -> None:
    np.copyto(out, source)


def _select(out: Array, chosen: Array, then: Array, otherwise: Array) -> None:
    np.copyto(out, np.where(chosen, then, otherwise))


def _unary(name: str, type_: ElementType) -> Run | None:
    if name == "copy":
        return _copy
    if type_.name == "pred":
        return _assigning(np.logical_not) if name == "not" else None
    table = _FLOAT_UNARY if type_.is_float else _INTEGER_UNARY
    return _through_f32(table.get(name), type_)


def _through_f32(function: Function | None, type_: ElementType) -> Run | None:
    if function is None:
        return None
    if type_.number != _BF16:
        return _assigning(function)

    def run(out: Array, *sources: Array) -> None:
        np.copyto(out, f32_to_bf16(np.asarray(function(*map(bf16_to_f32, sources)))))

    return run


def _assigning(function: Function) -> Run:
    if isinstance(function, np.ufunc):
        ufunc = function

        def run_in_place(out: Array, *sources: Array) -> None:
            ufunc(*sources, out=out)

        return run_in_place

    def run(out: Array, *sources: Array) -> None:
        np.copyto(out, function(*sources), casting="unsafe")

    return run


def _is_finite(type_: ElementType) -> Run | None:
    if not type_.is_float:
        return None
    widen = bf16_to_f32 if type_.number == _BF16 else np.asarray

    def run(out: Array, source: Array) -> None:
        np.isfinite(widen(source), out=out)

    return run


def _compare(name: str, type_: ElementType) -> Run | None:
    total = name.startswith("total_")
    relation = _COMPARE[name.removeprefix("total_")]
    if not type_.is_float:
        return None if total else _assigning(relation)
    widen = bf16_to_f32 if type_.number == _BF16 else np.ascontiguousarray if total else np.asarray

    def run(out: Array, a: Array, b: Array) -> None:
        x, y = widen(a), widen(b)
        if total:
            x, y = numerics.total_order_key(x), numerics.total_order_key(y)
        relation(x, y, out=out)

    return run


def _convert(type_: ElementType, result: ElementType) -> Run:
    def run(out: Array, source: Array) -> None:
        np.copyto(out, converted(source, type_, result))

    return _copy if type_ is result else run


def converted(source: Array, type_: ElementType, result: ElementType) -> Array:
    """The values of ``source`` as bits of another type."""
    values = bf16_to_f32(source) if type_.number == _BF16 else source
    if result.name == "pred":
        return np.asarray(values != 0)
    if result.number == _BF16:
        return f32_to_bf16(values) if type_.is_float else numerics.integers_to_bf16(values)
    if type_.is_float and not result.is_float:
        return numerics.float_to_integer(values, np.dtype(result.bits))
    return values.astype(result.bits)


def reduce_lanes(name: str, type_: ElementType, lanes: Array) -> Array:
    """All elements along the last axis combined: upper half onto lower half until one is left.

    bf16 is combined in f32 and rounded once.
    """
    function = binary_function(name, type_)
    if function is None:
        raise KeyError(name)
    values = bf16_to_f32(lanes) if type_.number == _BF16 else lanes
    while values.shape[-1] > 1:
        count = values.shape[-1]
        half = count // 2
        low = function(values[..., :half], values[..., count - half :])
        middle = values[..., half : count - half]
        values = np.concatenate((low, middle), axis=-1) if count % 2 else np.asarray(low)
    last = values[..., 0]
    return f32_to_bf16(np.ascontiguousarray(last)) if type_.number == _BF16 else last
