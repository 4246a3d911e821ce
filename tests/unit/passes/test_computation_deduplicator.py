"""Equal computations become one."""

from tests.unit.passes.checks import run
from xladev.passes.computation_deduplicator import ComputationDeduplicator


def test_equal_reducers_become_one_through_their_callers() -> None:
    module = run(
        ComputationDeduplicator(),
        """
        HloModule m
        f { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
        g { p = f32[] parameter(0)  q = f32[] parameter(1)  ROOT s = f32[] add(p, q) }
        u { x = f32[4] parameter(0)  z = f32[] constant(0)
            ROOT r = f32[] reduce(x, z), dimensions={0}, to_apply=f }
        v { y = f32[4] parameter(0)  zero = f32[] constant(0)
            ROOT t = f32[] reduce(y, zero), dimensions={0}, to_apply=g }
        ENTRY main { i = f32[4] parameter(0)
          a.1 = f32[] call(i), to_apply=u
          b.1 = f32[] call(i), to_apply=v
          ROOT o = f32[] subtract(a.1, b.1) }
        """,
    )
    assert [c.name for c in module.computations] == ["f", "u", "main"]


def test_computations_that_differ_stay() -> None:
    module = run(
        ComputationDeduplicator(),
        """
        HloModule m
        f { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] subtract(a, b) }
        g { p = f32[] parameter(0)  q = f32[] parameter(1)  ROOT s = f32[] subtract(q, p) }
        ENTRY main { x = f32[4] parameter(0)  z = f32[] constant(0)
          d = f32[] reduce(x, z), dimensions={0}, to_apply=f
          e = f32[] reduce(x, z), dimensions={0}, to_apply=g
          ROOT o = f32[] subtract(d, e) }
        """,
    )
    assert len(module.computations) == 3
