"""Dead code goes, effects stay."""

from tests.unit.passes.checks import assert_becomes, assert_unchanged, run
from xladev.passes.dce import DeadCodeElimination


def test_dead_chain_and_its_computation_go() -> None:
    assert_becomes(
        DeadCodeElimination(),
        """
        HloModule m
        add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
        ENTRY main { x = f32[4] parameter(0)  unused = f32[] parameter(1)
          z = f32[] constant(0)
          d = f32[] reduce(x, z), dimensions={0}, to_apply=add
          e = f32[] negate(d)
          ROOT r = f32[4] negate(x) }
        """,
        """
        HloModule m
        ENTRY main { x = f32[4] parameter(0)  unused = f32[] parameter(1)
          ROOT r = f32[4] negate(x) }
        """,
    )


def test_control_predecessors_live() -> None:
    assert_unchanged(
        DeadCodeElimination(),
        """
        HloModule m
        ENTRY main { x = f32[] parameter(0)
          a = f32[] sine(x)
          ROOT r = f32[] negate(x), control-predecessors={a} }
        """,
    )


def test_effects_within_loops_live() -> None:
    text = """
    HloModule m
    body { p = s32[] parameter(0)  t = token[] after-all()
           o = token[] outfeed(p, t)  one = s32[] constant(1)  ROOT n = s32[] add(p, one) }
    cond { q = s32[] parameter(0)  ten = s32[] constant(10)
           ROOT l = pred[] compare(q, ten), direction=LT }
    ENTRY main { x = s32[] parameter(0)
      w = s32[] while(x), condition=cond, body=body
      dead = s32[] negate(x)
      ROOT r = s32[] add(x, x) }
    """
    names = [i.opcode for i in run(DeadCodeElimination(), text).entry.instructions]
    assert names == ["parameter", "while", "add"]
