"""Pairs become what they stand for."""

import pytest

from tests.unit.passes.checks import assert_becomes, assert_same_values, assert_unchanged
from xladev.hlo.text import parse_module
from xladev.hlo.verifier import verify
from xladev.passes.synchronous_pairs import SynchronousPairs

ADD = "add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }"


def test_all_reduce() -> None:
    assert_becomes(
        SynchronousPairs(),
        f"""
        HloModule m
        {ADD}
        ENTRY main {{ x = f32[4] parameter(0)
          s = f32[4] all-reduce-start(x), channel_id=1, to_apply=add
          ROOT r = f32[4] all-reduce-done(s) }}
        """,
        f"""
        HloModule m
        {ADD}
        ENTRY main {{ x = f32[4] parameter(0)
          ROOT r = f32[4] all-reduce(x), channel_id=1, to_apply=add }}
        """,
    )


def test_all_gather_permute_and_copy() -> None:
    assert_becomes(
        SynchronousPairs(),
        """
        HloModule m
        ENTRY main { x = f32[4] parameter(0)
          s = (f32[4], f32[8]) all-gather-start(x), replica_groups={{0,1}}, dimensions={0}
          g = f32[8] all-gather-done(s)
          t = (f32[8], f32[8], u32[], u32[]) collective-permute-start(g),
            source_target_pairs={{0,1},{1,0}}
          p = f32[8] collective-permute-done(t)
          u = (f32[8], f32[8], u32[]) copy-start(p)
          ROOT r = f32[8] copy-done(u) }
        """,
        """
        HloModule m
        ENTRY main { x = f32[4] parameter(0)
          g = f32[8] all-gather(x), replica_groups={{0,1}}, dimensions={0}
          p = f32[8] collective-permute(g), source_target_pairs={{0,1},{1,0}}
          ROOT r = f32[8] copy(p) }
        """,
    )


def test_wrapped_computation_becomes_a_call() -> None:
    text = """
        HloModule m
        work { x = f32[4] parameter(0)  ROOT y = f32[4] negate(x) }
        ENTRY main { x = f32[4] parameter(0)
          s = ((f32[4]), f32[4], s32[]) async-start(x), calls=work
          u = ((f32[4]), f32[4], s32[]) async-update(s)
          ROOT r = f32[4] async-done(u) }
        """
    assert_becomes(
        SynchronousPairs(),
        text,
        """
        HloModule m
        work { x = f32[4] parameter(0)  ROOT y = f32[4] negate(x) }
        ENTRY main { x = f32[4] parameter(0)  ROOT r = f32[4] call(x), to_apply=work }
        """,
    )
    before = parse_module(text)
    assert_same_values(before, SynchronousPairs().run(before), 1)


@pytest.mark.parametrize("attribute", ["", ", control-predecessors={a}"])
def test_order_is_kept(attribute: str) -> None:
    module = SynchronousPairs().run(
        parse_module(f"""
        HloModule m
        ENTRY main {{ x = f32[4] parameter(0)
          a = f32[4] sine(x)
          u = (f32[4], f32[4], u32[]) copy-start(x)
          c = f32[4] copy-done(u){attribute}
          ROOT r = f32[4] add(a, c) }}
        """)
    )
    copy = next(i for i in module.entry.instructions if i.opcode == "copy")
    assert [p.name for p in copy.note.control_predecessors] == (["a"] if attribute else [])


LOOKED_INTO = {
    "all-reduce": """
          s = f32[4] all-reduce-start(x), channel_id=1, to_apply=add
          n = f32[4] negate(s)
          d = f32[4] all-reduce-done(s)
          ROOT t = (f32[4], f32[4]) tuple(n, d)""",
    "all-gather": """
          s = (f32[4], f32[4], u32[2]) all-gather-start(x), dimensions={0}
          g = f32[4] get-tuple-element(s), index=1
          d = f32[4] all-gather-done(s)
          ROOT t = (f32[4], f32[4]) tuple(g, d)""",
    "collective-permute": """
          ROOT s = (f32[4], f32[4], u32[]) collective-permute-start(x),
            source_target_pairs={{0,0}}""",
    "copy": """
          s = (f32[4], f32[4], u32[]) copy-start(x)
          d = f32[4] copy-done(s)
          ROOT t = ((f32[4], f32[4], u32[]), f32[4]) tuple(s, d)""",
    "call": """
          s = ((f32[4]), f32[4], s32[]) async-start(x), calls=work
          u = ((f32[4]), f32[4], s32[]) async-update(s)
          r = f32[4] async-done(u)
          ROOT t = (((f32[4]), f32[4], s32[]), f32[4]) tuple(u, r)""",
}


@pytest.mark.parametrize("opcode", LOOKED_INTO)
def test_a_start_that_others_read_becomes_a_tuple(opcode: str) -> None:
    before = parse_module(f"""
        HloModule m
        {ADD}
        work {{ x = f32[4] parameter(0)  ROOT y = f32[4] negate(x) }}
        ENTRY main {{ x = f32[4] parameter(0){LOOKED_INTO[opcode]} }}
        """)
    after = SynchronousPairs().run(before)
    assert SynchronousPairs().run(after) is after
    assert [i for i in after.entry.instructions if i.op.category == "async"] == []
    assert sum(i.opcode == opcode for i in after.entry.instructions) == 1
    verify(after)
    assert_same_values(before, after, 1)


def test_plain_programs_are_left_alone() -> None:
    assert_unchanged(
        SynchronousPairs(),
        "HloModule m\nENTRY main { x = f32[4] parameter(0)  ROOT r = f32[4] negate(x) }",
    )
