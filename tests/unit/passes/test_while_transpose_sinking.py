"""Loops whose dots read a transpose carry what it is a transpose of."""

import numpy as np
import pytest

from tests.unit.passes.checks import assert_same_values, assert_unchanged, listing, run
from xladev.hlo.ir import HloModule
from xladev.hlo.text import parse_module
from xladev.hlo.verifier import verify
from xladev.passes.while_transpose_sinking import WhileTransposeSinking

STEP = "d = f32[2,4] dot(h, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
STATE = "(s32[], f32[4,4], f32[2,4])"


def recurrent(
    step: str = STEP, more: str = "c = s32[] constant(5)", result: str = "index=2"
) -> str:
    """A loop that multiplies by a transpose in each iteration."""
    return f"""
    HloModule m
    condition {{ s = {STATE} parameter(0)
      i = s32[] get-tuple-element(s), index=0  {more}
      ROOT more = pred[] compare(i, c), direction=LT }}
    body {{ t = {STATE} parameter(0)
      j = s32[] get-tuple-element(t), index=0  one = s32[] constant(1)
      k = s32[] add(j, one)
      q = f32[4,4] get-tuple-element(t), index=1
      h = f32[2,4] get-tuple-element(t), index=2
      {step}
      ROOT u = {STATE} tuple(k, q, d) }}
    ENTRY main {{ x = f32[4,4] parameter(0)  y = f32[2,4] parameter(1)
      z = s32[] constant(0)
      xt = f32[4,4] transpose(x), dimensions={{1,0}}
      init = {STATE} tuple(z, xt, y)
      w = {STATE} while(init), condition=condition, body=body
      ROOT r = f32[{"4,4" if result == "index=1" else "2,4"}] get-tuple-element(w), {result} }}
    """


def dot_of(module: HloModule) -> tuple[int, ...]:
    """Dimensions that the dot of the body sums over in what the loop carries."""
    (dot,) = (i for c in module.computations for i in c.instructions if i.opcode == "dot")
    dims: tuple[int, ...] = dot["rhs_contracting_dims"]
    return dims


def test_the_dot_reads_it_as_it_is() -> None:
    after = run(WhileTransposeSinking(), recurrent())
    verify(after)
    assert not any(i.opcode == "transpose" for c in after.computations for i in c.instructions)
    assert dot_of(after) == (1,), listing(after)
    compare = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6)  # noqa: E731
    assert_same_values(parse_module(recurrent()), after, 1, compare=compare)


def test_of_another_shape() -> None:
    text = recurrent().replace("f32[4,4]", "f32[4,3]").replace("xt = f32[4,3]", "xt = f32[4,3]")
    text = text.replace("x = f32[4,3] parameter", "x = f32[3,4] parameter")
    step = STEP.replace("f32[2,4] dot", "f32[2,3] dot")
    pad = "v = f32[] constant(1)  d = f32[2,4] pad(e, v), padding=0_0x0_1"
    text = text.replace(STEP, f"{step.replace('d =', 'e =')}  {pad}")
    after = run(WhileTransposeSinking(), text)
    verify(after)
    assert dot_of(after) == (1,)
    compare = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6)  # noqa: E731
    assert_same_values(parse_module(text), after, 1, compare=compare)


@pytest.mark.parametrize(
    "text",
    [
        recurrent(f"{STEP.replace('d =', 'e =')}  d = f32[2,4] dot(e, p), "
                  "lhs_contracting_dims={1}, rhs_contracting_dims={0}  p = f32[4,4] add(q, q)"),
        recurrent(more="q2 = f32[4,4] get-tuple-element(s), index=1  o = s32[] constant(0)  "
                       "z2 = f32[] constant(0)  f = f32[1,1] slice(q2), slice={[0:1], [0:1]}  "
                       "g = f32[] reshape(f)  b2 = pred[] compare(g, z2), direction=LT  "
                       "c5 = s32[] constant(5)  c = s32[] select(b2, o, c5)"),
        recurrent(result="index=1"),
        recurrent().replace("tuple(k, q, d)", "tuple(k, q3, d)").replace(
            STEP, f"{STEP}  q3 = f32[4,4] add(q, q)"),
        recurrent(result="index=3").replace(STATE, f"{STATE[:-1]}, f32[4,4])").replace(
            "tuple(k, q, d)", "tuple(k, q, d, q)").replace("tuple(z, xt, y)", "tuple(z, xt, y, x)"
            ).replace("f32[2,4] get-tuple-element(w)", "f32[4,4] get-tuple-element(w)"),
    ],
    ids=["other readers", "the condition", "behind the loop", "a part that changes",
         "another part of the next iteration"],
)  # fmt: skip
def test_what_else_reads_it(text: str) -> None:
    assert_unchanged(WhileTransposeSinking(), text)


def test_dots_that_read_it_slowly() -> None:
    asked: list[tuple[int, ...]] = []

    def reads_well(dot: object) -> bool:
        asked.append(dot["rhs_contracting_dims"])  # type: ignore[index]
        return False

    assert_unchanged(WhileTransposeSinking(reads_well), recurrent())
    assert asked == [(1,)]
