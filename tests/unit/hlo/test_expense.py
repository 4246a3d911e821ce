"""Expense of opcodes: what is expensive, cheap and free, and over what it counts."""

import pytest

from xladev.hlo.expense import DIVISION, FREE, INSTRUCTION, PAIR
from xladev.hlo.opdef import Tolerance
from xladev.hlo.opset import OPSET

EXPENSIVE_IN_XLA = {
    "atan2", "cbrt", "divide", "exponential", "exponential-minus-one", "log", "log-plus-one",
    "logistic", "power", "remainder", "rsqrt", "sqrt", "tanh",
}  # fmt: skip
"""xla/service/instruction_fusion.cc, InstructionFusion::IsExpensive, of elementwise floats."""

ONLY_HERE = {
    "acos", "acosh", "asin", "asinh", "atanh", "cosh", "cosine", "erf", "exp2", "log2", "sine",
    "sinh", "tan",
}  # fmt: skip
"""Further ones: what XLA expands, and sines and cosines, which cost as much as exponentials."""


def test_the_elementwise_opcodes_that_are_expensive() -> None:
    found = {name for name, op in OPSET.items() if op.elementwise and op.is_expensive}
    assert found == EXPENSIVE_IN_XLA | ONLY_HERE


def test_every_function_is_expensive() -> None:
    functions = [
        op for op in OPSET.values() if op.elementwise and op.tolerance is Tolerance.FUNCTION
    ]
    assert all(op.is_expensive for op in functions)


def test_the_grades_of_simple_opcodes() -> None:
    simple = {name for name, op in OPSET.items() if op.elementwise and op.expense <= INSTRUCTION}
    assert simple == {
        "add", "and", "compare", "convert", "maximum", "minimum", "multiply", "negate", "not",
        "or", "select", "subtract", "xor",
    }  # fmt: skip
    pairs = {name for name, op in OPSET.items() if op.elementwise and op.expense == PAIR}
    assert pairs == {"abs", "ceil", "clamp", "floor"}


def test_nothing_that_computes_is_free() -> None:
    free = {name for name, op in OPSET.items() if op.expense == FREE}
    assert free == {"bitcast", "broadcast", "constant", "iota", "parameter", "tuple"}
    assert not any(op.elementwise for op in OPSET.values() if op.expense == FREE)


@pytest.mark.parametrize("opcode", ["reduce", "map", "sort", "scatter", "select-and-scatter"])
def test_what_goes_over_its_operands_says_so(opcode: str) -> None:
    assert OPSET[opcode].over_operands
    assert sum(op.over_operands for op in OPSET.values()) == 5


def test_one_operation_is_less_than_a_division() -> None:
    assert FREE < INSTRUCTION < PAIR < DIVISION
