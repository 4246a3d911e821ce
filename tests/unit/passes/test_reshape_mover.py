"""Reshapes move below elementwise opcodes."""

import pytest

from tests.unit.passes.checks import assert_becomes, assert_unchanged, run
from xladev.passes.reshape_mover import ReshapeMover


def test_reshapes_alike_become_one() -> None:
    assert_becomes(
        ReshapeMover(),
        """
        HloModule m
        ENTRY main { x = f32[6] parameter(0)  y = f32[6] parameter(1)  c = f32[] parameter(2)
          a = f32[2,3] reshape(x)
          b = f32[2,3] reshape(y)
          k = f32[2,3] broadcast(c)
          d = f32[2,3] add(a, k)
          ROOT r = f32[2,3] subtract(d, b) }
        """,
        """
        HloModule m
        ENTRY main { x = f32[6] parameter(0)  y = f32[6] parameter(1)  c = f32[] parameter(2)
          broadcast.1 = f32[6] broadcast(c)
          add.2 = f32[6] add(x, broadcast.1)
          subtract.4 = f32[6] subtract(add.2, y)
          ROOT reshape.5 = f32[2,3] reshape(subtract.4) }
        """,
    )


def test_transposes_alike_become_one() -> None:
    after = run(
        ReshapeMover(),
        """
        HloModule m
        ENTRY main { x = f32[2,3] parameter(0)  y = f32[2,3] parameter(1)
          p = pred[3,2] parameter(2)
          a = f32[3,2] transpose(x), dimensions={1,0}
          b = f32[3,2] transpose(y), dimensions={1,0}
          s = pred[3,2] compare(a, b), direction=LT
          ROOT r = pred[3,2] and(s, p) }
        """,
    )
    compared = after.entry.root.operands[0]
    assert (compared.opcode, compared.operands[0].opcode) == ("transpose", "compare")


@pytest.mark.parametrize(
    "body",
    [
        "a = f32[2,3] reshape(x)  n = f32[2,3] negate(a)  ROOT r = f32[2,3] dot(n, a), "
        "lhs_batch_dims={0,1}, rhs_batch_dims={0,1}",
        "a = f32[2,3] reshape(x)  b = f32[2,3] reshape(y)  s = f32[2,3] add(a, b)  "
        "ROOT r = (f32[2,3], f32[2,3]) tuple(s, b)",
        "a = f32[2,3] reshape(x)  w = f32[1,2,3] parameter(2)  b = f32[2,3] reshape(w)  "
        "ROOT r = f32[2,3] add(a, b)",
        "a = f32[2,3] reshape(x)  b = f32[2,3] reshape(y)  w = f32[2,3] parameter(2)  "
        "c = pred[2,3] compare(w, w), direction=EQ  ROOT r = f32[2,3] select(c, a, b)",
    ],
)
def test_what_stays(body: str) -> None:
    text = f"HloModule m\nENTRY e {{ x = f32[6] parameter(0)  y = f32[6] parameter(1)\n{body} }}"
    assert_unchanged(ReshapeMover(), text)
