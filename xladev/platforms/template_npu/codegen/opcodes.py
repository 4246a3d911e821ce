"""Which instruction computes which elementwise HLO opcode.

What a vendor replaces: the table, by the functions of their vector unit. What is not in it runs on
the host.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.ir import HloInstruction
from xladev.platforms.template_npu.device import isa
from xladev.platforms.template_npu.device.functions import vector_function

UNARY: Mapping[str, str] = MappingProxyType(
    {
        "abs": "abs", "acos": "acos", "acosh": "acosh", "asin": "asin", "asinh": "asinh",
        "atanh": "atanh", "cbrt": "cbrt", "ceil": "ceil", "cosh": "cosh",
        "cosine": "cos", "count-leading-zeros": "clz", "erf": "erf", "exp2": "exp2",
        "exponential": "exp", "exponential-minus-one": "expm1", "floor": "floor",
        "is-finite": "is_finite", "log": "log", "log-plus-one": "log1p", "log2": "log2",
        "logistic": "logistic", "negate": "neg", "not": "not", "popcnt": "popcnt",
        "real": "copy", "round-nearest-afz": "round_away", "round-nearest-even": "round_even",
        "rsqrt": "rsqrt", "sign": "sign", "sine": "sin", "sinh": "sinh", "sqrt": "sqrt",
        "tan": "tan", "tanh": "tanh", "imag": "copy",
    }
)  # fmt: skip
BINARY: Mapping[str, str] = MappingProxyType(
    {
        "add": "add", "and": "and", "atan2": "atan2", "divide": "div", "maximum": "max",
        "minimum": "min", "mulhi": "mulhi", "multiply": "mul", "or": "or", "power": "pow",
        "remainder": "rem", "shift-left": "shl", "shift-right-arithmetic": "sar",
        "shift-right-logical": "shr", "subtract": "sub", "xor": "xor",
    }
)  # fmt: skip
COMBINERS: Mapping[str, str] = MappingProxyType(
    {"add": "add", "maximum": "max", "minimum": "min", "multiply": "mul"}
)
"""Functions that a scatter may apply, by opcode."""

REDUCERS: Mapping[str, str] = MappingProxyType(
    {**COMBINERS, "and": "and", "or": "or", "xor": "xor"}
)
"""Functions that the vector unit reduces lanes with, by opcode."""


def type_number(dtype: PrimitiveType) -> int | None:
    """The device's number of an element type; None if it has not got it."""
    return isa.TYPE_NUMBERS.get(dtype.name)


def instruction_of(i: HloInstruction) -> tuple[str, str] | None:
    """Opcode and function that compute an elementwise instruction; None if there are none."""
    opcode = i.opcode
    if opcode in UNARY:
        return "unary", UNARY[opcode]
    if opcode in BINARY:
        return "binary", BINARY[opcode]
    if opcode == "reduce-precision":
        return "quantize", ""
    if opcode == "compare":
        total = "total_" if i["type"] == "TOTALORDER" else ""
        return "compare", total + i["direction"].lower()
    plain = {"select": ("select", ""), "convert": ("convert", ""), "clamp": ("binary", "max")}
    return plain.get(opcode)


def elementwise_refusal(i: HloInstruction) -> str:
    """Why the vector unit cannot compute an elementwise instruction; empty if it can."""
    found = instruction_of(i)
    if found is None:
        return f"the vector unit has no {i.opcode}"
    source, result = i.operands[-1].shape.element_type, i.shape.element_type
    numbers = type_number(source), type_number(result)
    if numbers[0] is None or numbers[1] is None:
        return f"the vector unit has no {source if numbers[0] is None else result}"
    if found[0] == "quantize":
        return "" if source.is_float else f"the vector unit has no {i.opcode} of {source.name}"
    if vector_function(*found, *numbers) is None:
        return f"the vector unit has no {i.opcode} of {source.name}"
    return ""
