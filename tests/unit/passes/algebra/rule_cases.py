"""What tests of rules share: a case says what one rule makes of a text, or that it does nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.unit.passes.checks import leaves
from xladev.hlo.dtype import by_numpy
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.literal import Array, Literal
from xladev.hlo.text import parse_module
from xladev.hlo.verifier import verify
from xladev.passes.algebraic_simplifier import AlgebraicSimplifier
from xladev.passes.rewrite import RewriteRule, RuleSet
from xladev.testing.random_inputs import random_arguments

COMPUTATIONS = """
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
max { a1 = f32[] parameter(0)  b1 = f32[] parameter(1)  ROOT c1 = f32[] maximum(a1, b1) }
plus { a2 = s32[] parameter(0)  b2 = s32[] parameter(1)  ROOT c2 = s32[] add(a2, b2) }
halves { a4 = bf16[] parameter(0)  b4 = bf16[] parameter(1)  ROOT c4 = bf16[] add(a4, b4) }
odd { a3 = f32[] parameter(0)  b3 = f32[] parameter(1)  d3 = f32[] subtract(a3, b3)
  ROOT c3 = f32[] negate(d3) }
"""
"""Reducers that cases may call."""


@dataclass(frozen=True)
class Case:
    """What a rule does.

    Attributes:
        rule: the rule.
        before: body of an entry computation; ``p0: f32[2], p1: s32[]`` may come before a bar.
        after: the body that it becomes, with the same parameters, or the name of one that is the
            result; empty if nothing happens.
        rtol: how far floats may differ, relative; 0 for not a bit.
    """

    rule: RewriteRule
    before: str
    after: str = ""
    rtol: float = 0.0

    def __str__(self) -> str:
        return f"{self.rule.name}: {self.before[-50:]}"


def module_of(body: str, parameters: str = "") -> HloModule:
    """A module of ``NAME: SHAPE, ... | BODY``."""
    head, bar, rest = body.partition("|")
    declared, text = (head, rest) if bar else (parameters, body)
    lines = [
        f"{name.strip()} = {shape.strip()} parameter({number})"
        for number, (name, _, shape) in enumerate(
            p.partition(":") for p in declared.split(";") if p.strip()
        )
    ]
    inside = "\n".join([*lines, text])
    return parse_module(f"HloModule m\n{COMPUTATIONS}\nENTRY e {{\n{inside}\n}}")


def check(case: Case) -> None:
    """The rule does what the case says, and changes no value; nor does the whole simplifier."""
    before = module_of(case.before)
    after = RuleSet([case.rule]).run(before)
    verify(after)
    assert formula(after.entry) == _wanted(case, before)
    for simplified in (after, AlgebraicSimplifier().run(before)):
        verify(simplified)
        assert_same_bits(before, simplified, case.rtol)


def _wanted(case: Case, before: HloModule) -> str:
    if not case.after:
        assert RuleSet([case.rule]).run(before) is before
        return formula(before.entry)
    for parameter in before.entry.parameters:
        if parameter.name == case.after:
            return formula(HloComputation("e", before.entry.parameters, parameter))
    declared, bar, _ = case.before.partition("|")
    return formula(module_of(case.after, declared if bar else "").entry)


def formula(computation: HloComputation) -> str:
    """The root of a computation as one expression, without names and layouts."""
    texts: dict[HloInstruction, str] = {}
    for i in computation.instructions:
        operands = ", ".join(texts[o] for o in i.operands)
        attrs = "".join(f", {k}={_spelled(v)}" for k, v in sorted(i.attrs.items()))
        texts[i] = f"{i.shape.to_string(layout=False)} {i.opcode}({operands}{attrs})"
    return texts[computation.root]


def _spelled(value: Any) -> str:
    if isinstance(value, HloComputation):
        return formula(value)
    return value.bits().hex() if isinstance(value, Literal) else str(value)


def assert_same_bits(before: HloModule, after: HloModule, rtol: float = 0.0) -> None:
    """Both give the same bits, NaN aside, on ordinary arguments and on special ones."""
    for seed in range(6):
        arguments = random_arguments(before, seed, wild=seed > 1)
        wanted = leaves(HloEvaluator().run(before, *arguments))
        found = leaves(HloEvaluator().run(after, *arguments))
        for want, got in zip(wanted, found, strict=True):
            assert want.dtype == got.dtype
            if rtol:
                np.testing.assert_allclose(_wide(got), _wide(want), rtol=rtol)
            else:
                np.testing.assert_array_equal(_bits(got), _bits(want))


def _wide(array: Array) -> Array:
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def _bits(array: Array) -> Array:
    """Bytes of the elements; NaN in one form."""
    array = np.ascontiguousarray(array)
    if array.dtype.kind in "fc" or by_numpy(array.dtype).is_float:
        nan = np.asarray(array != array)
        array = np.where(nan, array.dtype.type(np.nan), array).astype(array.dtype)
    return array.reshape(-1).view(np.uint8)
