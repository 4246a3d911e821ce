"""Barriers disappear, of tuples too."""

from tests.unit.passes.checks import assert_becomes
from xladev.passes.opt_barrier_remover import OptBarrierRemover


def test_barriers_become_their_operands() -> None:
    assert_becomes(
        OptBarrierRemover(),
        """
        HloModule m
        ENTRY e { x = f32[2] parameter(0)  y = f32[] parameter(1)
          t = (f32[2], f32[]) tuple(x, y)
          b = (f32[2], f32[]) opt-barrier(t)
          ROOT r = f32[2] get-tuple-element(b), index=0 }
        """,
        """
        HloModule m
        ENTRY e { x = f32[2] parameter(0)  y = f32[] parameter(1)
          t = (f32[2], f32[]) tuple(x, y)
          ROOT r = f32[2] get-tuple-element(t), index=0 }
        """,
    )
