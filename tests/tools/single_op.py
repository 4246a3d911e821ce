"""Builds and evaluates programs of one instruction, for tests of the opset."""

from __future__ import annotations

from typing import Any

import numpy as np

from xladev.hlo import dtype as dt
from xladev.hlo.builder import HloBuilder
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.ir import HloComputation, HloModule
from xladev.hlo.shape import Shape, array


def shape_of(value: Any) -> Shape:
    """The array shape of a NumPy value."""
    value = np.asarray(value)
    return array(dt.by_numpy(value.dtype), value.shape)


def module_of(opcode: str, *operands: Shape, shape: Shape | None = None, **attrs: Any) -> HloModule:
    """A module whose entry applies one opcode to its parameters."""
    b = HloBuilder("single")
    parameters = [b.parameter(operand) for operand in operands]
    return b.module(b.op(opcode, *parameters, shape=shape, **attrs))


def infer(opcode: str, *operands: Shape, shape: Shape | None = None, **attrs: Any) -> Shape:
    """The result shape that the opcode's rule gives."""
    return module_of(opcode, *operands, shape=shape, **attrs).entry.root.shape


def run(opcode: str, *operands: Any, shape: Shape | None = None, **attrs: Any) -> Any:
    """The value of one opcode on NumPy operands."""
    values = [np.asarray(operand) for operand in operands]
    module = module_of(opcode, *map(shape_of, values), shape=shape, **attrs)
    return HloEvaluator().run(module, *values)


def scalar_computation(
    opcode: str, element_type: dt.PrimitiveType = dt.F32, **attrs: Any
) -> HloComputation:
    """A computation that applies a binary opcode to two scalars."""
    b = HloBuilder(f"{opcode}_{element_type}")
    x, y = (b.parameter(array(element_type)) for _ in range(2))
    return b.build(b.op(opcode, x, y, **attrs))
