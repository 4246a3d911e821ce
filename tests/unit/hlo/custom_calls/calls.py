"""Builds and runs one custom call with a backend configuration."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.tools.single_op import shape_of
from xladev.hlo.builder import HloBuilder
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.ir import Annotations, HloModule
from xladev.hlo.shape import Shape


def module_of_call(
    target: str, shape: Shape, operands: tuple[Any, ...], config: str = "", **attrs: Any
) -> HloModule:
    """A module whose entry calls ``target`` on its parameters."""
    b = HloBuilder("call")
    parameters = [b.parameter(shape_of(operand)) for operand in operands]
    note = Annotations(backend_config=config)
    attrs = {"custom_call_target": target, **attrs}
    return b.module(b.op("custom-call", *parameters, shape=shape, note=note, **attrs))


def run_call(target: str, shape: Shape, *operands: Any, config: str = "", **attrs: Any) -> Any:
    """The value of one custom call."""
    values = tuple(np.asarray(operand) for operand in operands)
    return HloEvaluator().run(module_of_call(target, shape, values, config, **attrs), *values)
