"""Constants that a loop carries are written into it."""

from tests.unit.passes.checks import assert_same_values, assert_unchanged, run
from tests.unit.passes.loops.sample_loops import counting
from xladev.hlo.text import parse_module
from xladev.hlo.verifier import verify
from xladev.passes.while_constant_sinking import WhileConstantSinking
from xladev.passes.while_simplifier import WhileSimplifier

SPREAD = "c = f32[] constant(2)  q = f32[2] broadcast(c)"


def test_constants_and_their_broadcasts() -> None:
    for made in ("q = f32[2] constant({1, 2})", SPREAD):
        text = counting().replace("init =", f"{made}\ninit =").replace("tuple(z, x,", "tuple(z, q,")
        after = run(WhileConstantSinking(), text)
        verify(after)
        assert_same_values(parse_module(text), after, 1)
        body = next(c for c in after.computations if c.name == "body")
        (total,) = (i for i in body.instructions if i.opcode == "add" and i.shape.rank)
        assert total.operands[1].opcode in ("constant", "broadcast")
        narrowed = WhileSimplifier().run(after)
        loop = next(i for i in narrowed.entry.instructions if i.opcode == "while")
        assert len(loop.shape.tuple_shapes) == 2


def test_a_part_that_changes_stays() -> None:
    text = counting().replace("init =", f"{SPREAD}\ninit =").replace("x, y, y", "x, q, y")
    assert_unchanged(WhileConstantSinking(), text)


def test_parameters_stay() -> None:
    assert_unchanged(WhileConstantSinking(), counting())


def test_limits_of_the_condition_become_constants() -> None:
    text = """
    HloModule m
    c { s = (s32[], s32[]) parameter(0)  i = s32[] get-tuple-element(s), index=0
      n = s32[] get-tuple-element(s), index=1
      ROOT more = pred[] compare(i, n), direction=LT }
    b { t = (s32[], s32[]) parameter(0)  j = s32[] get-tuple-element(t), index=0
      m = s32[] get-tuple-element(t), index=1  k = s32[] add(j, j)
      ROOT u = (s32[], s32[]) tuple(k, m) }
    ENTRY main { z = s32[] parameter(0)  e = s32[] constant(10)
      init = (s32[], s32[]) tuple(z, e)
      ROOT w = (s32[], s32[]) while(init), condition=c, body=b }
    """
    after = run(WhileConstantSinking(), text)
    verify(after)
    condition = next(c for c in after.computations if c.name == "c")
    assert condition.root.operands[1].opcode == "constant"
    assert_same_values(parse_module(text), after, 1, given=[parse_value(3)])


def parse_value(number: int) -> object:
    import numpy as np

    return np.int32(number)
