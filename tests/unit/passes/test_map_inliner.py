"""Maps become the opcodes that they apply."""

from tests.unit.passes.checks import assert_same_values, assert_unchanged, opcodes, run
from xladev.hlo.text import parse_module
from xladev.passes.map_inliner import MapInliner

TEXT = """
HloModule m
g { p = f32[] parameter(0)  ROOT s = f32[] sine(p) }
f { a = f32[] parameter(0)  b = f32[] parameter(1)  two = f32[] constant(2)
    c = f32[] call(a), to_apply=g  d = f32[] multiply(c, two)  ROOT e = f32[] subtract(d, b) }
ENTRY main { x = f32[3,4] parameter(0)  y = f32[3,4] parameter(1)
  ROOT r = f32[3,4] map(x, y), dimensions={0,1}, to_apply=f }
"""


def test_a_map_is_written_out(seed: int) -> None:
    module = run(MapInliner(), TEXT)
    assert opcodes(module) == {
        "parameter", "constant", "broadcast", "sine", "multiply", "subtract"
    }  # fmt: skip
    assert_same_values(parse_module(TEXT), module, seed)


def test_a_map_with_a_loop_stays() -> None:
    assert_unchanged(
        MapInliner(),
        """
        HloModule m
        body { p = f32[] parameter(0)  ROOT n = f32[] multiply(p, p) }
        cond { q = f32[] parameter(0)  t = f32[] constant(3)
               ROOT l = pred[] compare(q, t), direction=LT }
        f { a = f32[] parameter(0)  ROOT w = f32[] while(a), condition=cond, body=body }
        ENTRY e { x = f32[5] parameter(0)
          ROOT r = f32[5] map(x), dimensions={0}, to_apply=f }
        """,
    )
