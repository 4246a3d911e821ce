"""Equal instructions are computed once."""

from tests.unit.passes.checks import assert_becomes, assert_unchanged, run
from xladev.hlo.text import parse_module
from xladev.passes.cse import CommonSubexpressionElimination as Cse


def test_chains_merge_and_commuted_operands_too() -> None:
    assert_becomes(
        Cse(),
        """
        HloModule m
        ENTRY main { x = f32[2] parameter(0)  y = f32[2] parameter(1)
          a = f32[2] add(x, y)
          b = f32[2] add(y, x)
          c = f32[2] negate(a)
          d = f32[2] negate(b)
          ROOT r = f32[2] subtract(c, d) }
        """,
        """
        HloModule m
        ENTRY main { x = f32[2] parameter(0)  y = f32[2] parameter(1)
          a = f32[2] add(x, y)
          c = f32[2] negate(a)
          ROOT r = f32[2] subtract(c, c) }
        """,
    )


def test_reducers_are_compared_by_structure() -> None:
    text = """
    HloModule m
    f { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
    g { p = f32[] parameter(0)  q = f32[] parameter(1)  ROOT s = f32[] add(p, q) }
    h { u = f32[] parameter(0)  v = f32[] parameter(1)  ROOT w = f32[] maximum(u, v) }
    ENTRY main { x = f32[4] parameter(0)  z = f32[] constant(0)
      a = f32[] reduce(x, z), dimensions={0}, to_apply=f
      b = f32[] reduce(x, z), dimensions={0}, to_apply=g
      c = f32[] reduce(x, z), dimensions={0}, to_apply=h
      ROOT r = (f32[], f32[], f32[]) tuple(a, b, c) }
    """
    a, b, c = run(Cse(), text).entry.root.operands
    assert a is b
    assert c is not a


def test_constants_merge_by_bits() -> None:
    text = """
    HloModule m
    ENTRY main { a = f32[] constant(0)  b = f32[] constant(0)  c = f32[] constant(-0)
      ROOT r = (f32[], f32[], f32[]) tuple(a, b, c) }
    """
    a, b, c = run(Cse(), text).entry.root.operands
    assert a is b
    assert c is not a


def test_what_differs_or_acts_stays() -> None:
    for body in (
        "a = f32[2] rng(l, h), distribution=rng_uniform b = f32[2] rng(l, h), "
        "distribution=rng_uniform",
        "a = f32[] opt-barrier(l) b = f32[] opt-barrier(l)",
        "a = f32[] negate(l) b = f32[] negate(l), sharding={maximal device=1}",
        "a = f32[] negate(l) b = f32[] negate(l), control-predecessors={h}",
    ):
        assert_unchanged(
            Cse(),
            f"""
            HloModule m
            ENTRY main {{ l = f32[] parameter(0)  h = f32[] parameter(1)
              {body.replace(" b = ", chr(10) + " b = ")}
              ROOT r = tuple(a, b) }}
            """,
        )


def test_a_deep_chain_is_no_problem() -> None:
    lines = ["v0 = f32[] parameter(0)"]
    lines += [f"v{n} = f32[] add(v{n - 1}, v{n - 1})" for n in range(1, 5000)]
    text = "HloModule m\nENTRY e {\n" + "\n".join(lines) + "\nROOT r = f32[] negate(v4999) }"
    assert Cse().run(parse_module(text)).instruction_count == 5001
