"""Reduction finds the one instruction that matters, wherever it hides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from tests.unit.loops import around, counted
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.ir import HloInstruction, HloModule
from xladev.hlo.literal import Value
from xladev.hlo.text import parse_module, print_module
from xladev.hlo.verifier import verify
from xladev.testing.random_inputs import random_arguments
from xladev.testing.reduce import reduce_module


def has_opcode(module: HloModule, opcode: str) -> bool:
    return any(i.opcode == opcode for c in module.computations for i in c.instructions)


def chain(length: int, at: int) -> str:
    lines = ["a0 = f32[4] parameter(0)", "b = f32[4] parameter(1)"]
    for n in range(1, length):
        op = "atan2" if n == at else "add"
        lines.append(f"a{n} = f32[4] {op}(a{n - 1}, b)")
    lines.append(f"ROOT t = (f32[4], f32[4], f32[4]) tuple(a{length - 1}, b, a{length // 2})")
    return "HloModule m\nENTRY e {\n" + "\n".join(lines) + "\n}"


LOOP = """HloModule m
cond { s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT lt = pred[] compare(i, n), direction=LT }
inner { x = f32[4] parameter(0)
  ROOT y = f32[4] cbrt(x) }
body { s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  a = f32[4] get-tuple-element(s), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  m = f32[4] multiply(a, a)
  c = f32[4] call(m), to_apply=inner
  ROOT t = (s32[], f32[4]) tuple(next, c) }
ENTRY e { x = f32[4] parameter(0)
  zero = s32[] constant(0)
  init = (s32[], f32[4]) tuple(zero, x)
  w = (s32[], f32[4]) while(init), condition=cond, body=body
  r = f32[4] get-tuple-element(w), index=1
  ROOT n = f32[4] negate(r) }"""


@pytest.mark.parametrize("at", [1, 7, 20, 39])
def test_a_chain_shrinks_to_the_instruction(at: int) -> None:
    module = parse_module(chain(40, at))
    seen: list[HloModule] = []

    def interesting(candidate: HloModule, arguments: Sequence[Value]) -> bool:
        verify(candidate)
        HloEvaluator().run(candidate, *arguments)
        seen.append(candidate)
        return has_opcode(candidate, "atan2")

    found = reduce_module(module, random_arguments(module), interesting)
    assert found.complete
    assert [i.opcode for i in found.module.entry.instructions if i.operands] == ["atan2"]
    assert found.tried < 120
    assert parse_module(print_module(found.module)) == found.module


def test_loops_and_calls_are_opened() -> None:
    module = parse_module(LOOP)
    found = reduce_module(module, random_arguments(module), lambda m, _: has_opcode(m, "cbrt"))
    assert [i.opcode for i in found.module.entry.instructions] == ["parameter", "cbrt"]


def test_arguments_are_what_was_computed_there() -> None:
    module = parse_module(chain(10, 6))
    x, y = np.arange(4, dtype=np.float32), np.ones(4, np.float32)
    found = reduce_module(module, (x, y), lambda m, _: has_opcode(m, "atan2"))
    wanted = np.arctan2(x + 5, y)
    np.testing.assert_allclose(HloEvaluator().run(found.module, *found.arguments), wanted, 1e-6)


def test_time_is_bounded() -> None:
    module = parse_module(chain(40, 20))
    found = reduce_module(module, random_arguments(module), lambda *_: False, budget_s=0.0)
    assert not found.complete
    assert found.module is module


TURN = """c = f32[1] dynamic-slice(x, i), dynamic_slice_sizes={1}
  u = f32[1] negate(c)
  y = f32[4] dynamic-update-slice(x, u, i)"""
LATE = counted("f32[4]", TURN, 4) + around("f32[4]")


def test_a_failure_of_the_last_turn_is_taken_out_of_its_loop() -> None:
    """Wrong where a slice begins at the last element, as with bounds that end too early."""

    def interesting(module: HloModule, arguments: Sequence[Value]) -> bool:
        met: list[int] = []

        @dataclass(frozen=True, slots=True)
        class Watching(HloEvaluator):
            def value(self, instruction: HloInstruction, operands: tuple[Value, ...]) -> Value:
                if instruction.opcode == "dynamic-slice" and operands[1] == 3:
                    met.append(1)
                return HloEvaluator.value(self, instruction, operands)

        Watching().run(module, *arguments)
        return bool(met)

    found = reduce_module(parse_module(LATE), [np.ones(4, np.float32)], interesting)
    opcodes = [i.opcode for i in found.module.entry.instructions]
    assert opcodes == ["parameter", "parameter", "dynamic-slice"]
