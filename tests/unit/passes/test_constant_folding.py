"""What depends on constants alone becomes a constant."""

import pytest

from tests.unit.passes.checks import assert_becomes, assert_unchanged, run
from xladev.hlo.text import parse_module
from xladev.passes.constant_folding import ConstantFolding


def test_chains_become_one_constant() -> None:
    assert_becomes(
        ConstantFolding(),
        """
        HloModule m
        ENTRY main { x = s32[3] parameter(0)
          a = s32[3] constant({3, 1, 2})
          b = s32[3] constant({10, 20, 30})
          c = s32[3] add(a, b)
          d = s32[3] reverse(c), dimensions={0}
          ROOT r = s32[3] multiply(x, d) }
        """,
        """
        HloModule m
        ENTRY main { x = s32[3] parameter(0)
          d = s32[3] constant({32, 21, 13})
          ROOT r = s32[3] multiply(x, d) }
        """,
    )


def test_computations_are_run_on_few_elements() -> None:
    text = """
    HloModule m
    add {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }}
    ENTRY main {{ x = f32[{n}] constant({{{values}}})  z = f32[] constant(0)
      ROOT r = f32[] reduce(x, z), dimensions={{0}}, to_apply=add }}
    """
    few = run(ConstantFolding(), text.format(n=3, values="1, 2, 4"))
    assert few.entry.root["literal"].array == 7
    many = text.format(n=2000, values=", ".join(map(str, range(2000))))
    assert_unchanged(ConstantFolding(), many)


def test_computations_that_draw_stay() -> None:
    assert_unchanged(
        ConstantFolding(),
        """
        HloModule m
        f { a = f32[] parameter(0)  o = f32[] constant(9)
          ROOT r = f32[] rng(a, o), distribution=rng_uniform }
        ENTRY main { c = f32[3] constant({0, 1, 2})
          ROOT r = f32[3] map(c), dimensions={0}, to_apply=f }
        """,
    )


@pytest.mark.parametrize(
    "body",
    [
        "c = f32[] constant(1)  ROOT r = f32[8] broadcast(c)",
        "c = f32[] constant(1)  ROOT r = f32[] opt-barrier(c)",
        "c = f32[2,2]{0,1} constant({{1,2},{3,4}})  ROOT r = f32[4] bitcast(c)",
        "c = f32[] constant(1)  d = f32[] constant(2)  ROOT r = f32[] rng(c, d), "
        "distribution=rng_uniform",
        "c = f32[2] constant({...})  ROOT r = f32[2] negate(c)",
        "c = f32[1] constant({1})  z = f32[] constant(0)  "
        "ROOT r = f32[100001] pad(c, z), padding=0_100000",
        "c = f32[4] constant({1,2,3,4})  n = s32[] constant(2)  "
        "ROOT r = f32[<=4] set-dimension-size(c, n), dimensions={0}",
    ],
)
def test_what_stays(body: str) -> None:
    assert_unchanged(ConstantFolding(), f"HloModule m\nENTRY e {{ {body} }}")


def test_limits_are_options() -> None:
    text = "HloModule m\nENTRY e { c = f32[2] constant({1, 2})  ROOT r = f32[2] negate(c) }"
    module = parse_module(text)
    assert ConstantFolding(max_elements=1).run(module) is module
    assert ConstantFolding(max_flops=1).run(module) is module
    assert ConstantFolding().run(module) is not module


def test_layout_and_metadata_stay() -> None:
    text = """
    HloModule m
    ENTRY e { c = f32[1,2]{0,1} constant({{1, 2}})
      ROOT r = f32[1,2]{0,1} negate(c), metadata={op_name="neg"} }
    """
    root = run(ConstantFolding(), text).entry.root
    assert root.opcode == "constant"
    assert str(root.shape) == "f32[1,2]{0,1}"
    assert root.note.metadata.op_name == "neg"
