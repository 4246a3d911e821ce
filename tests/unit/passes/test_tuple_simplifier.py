"""Tuples that are put together and taken apart."""

from tests.unit.passes.checks import assert_becomes, assert_unchanged
from xladev.passes.tuple_simplifier import TupleSimplifier


def test_a_part_of_a_tuple_is_what_it_was_made_of() -> None:
    assert_becomes(
        TupleSimplifier(),
        """
        HloModule m
        ENTRY main { x = f32[2] parameter(0)  y = s32[] parameter(1)
          inner = (f32[2], s32[]) tuple(x, y)
          outer = ((f32[2], s32[]), f32[2]) tuple(inner, x)
          i = (f32[2], s32[]) get-tuple-element(outer), index=0
          e = s32[] get-tuple-element(i), index=1
          ROOT r = s32[] negate(e) }
        """,
        """
        HloModule m
        ENTRY main { x = f32[2] parameter(0)  y = s32[] parameter(1)  ROOT r = s32[] negate(y) }
        """,
    )


def test_all_parts_in_order_are_the_whole() -> None:
    text = """
    HloModule m
    ENTRY main {{ t = (f32[2], s32[]) parameter(0)
      a = f32[2] get-tuple-element(t), index=0
      b = s32[] get-tuple-element(t), index=1
      ROOT r = (f32[2], s32[]) tuple({}) }}
    """
    assert_becomes(
        TupleSimplifier(),
        text.format("a, b"),
        "HloModule m\nENTRY main { ROOT t = (f32[2], s32[]) parameter(0) }",
    )


def test_some_parts_or_another_order_stay() -> None:
    for parts, shape in (("a", "(s32[])"), ("b, a", "(s32[], s32[])")):
        assert_unchanged(
            TupleSimplifier(),
            f"""
            HloModule m
            ENTRY main {{ t = (s32[], s32[]) parameter(0)
              a = s32[] get-tuple-element(t), index=0
              b = s32[] get-tuple-element(t), index=1
              ROOT r = {shape} tuple({parts}) }}
            """,
        )


def test_parts_of_other_layouts_are_not_exchanged() -> None:
    assert_unchanged(
        TupleSimplifier(),
        """
        HloModule m
        ENTRY main { x = f32[2,2]{0,1} parameter(0)
          t = (f32[2,2]{1,0}) tuple(x)
          ROOT e = f32[2,2]{1,0} get-tuple-element(t), index=0 }
        """,
    )
