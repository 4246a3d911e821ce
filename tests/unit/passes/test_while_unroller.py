"""Small loops are written out."""

from tests.unit.passes.checks import assert_same_values, assert_unchanged, opcodes, run
from tests.unit.passes.loops.sample_loops import counting
from xladev.hlo.text import parse_module
from xladev.hlo.verifier import verify
from xladev.passes.call_inliner import CallInliner
from xladev.passes.while_unroller import WhileUnroller

ADDER = "adder { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }"


def test_a_few_turns_become_calls() -> None:
    after = run(WhileUnroller(), counting(limit=3))
    verify(after)
    assert sum(i.opcode == "call" for i in after.entry.instructions) == 3
    assert_same_values(parse_module(counting(limit=3)), after, 1)
    inlined = CallInliner().run(after)
    assert not {"call", "while"} & opcodes(inlined)
    assert_same_values(parse_module(counting(limit=3)), inlined, 1)


def test_many_turns_or_much_code_stay() -> None:
    assert_unchanged(WhileUnroller(max_turns=4), counting(limit=5))
    assert_unchanged(WhileUnroller(max_instructions=10), counting(limit=5))
    assert_unchanged(WhileUnroller(), counting(step=0))


def test_effects_and_collectives_stay() -> None:
    for line in (
        "tok = token[] after-all()  out = token[] outfeed(changed, tok), outfeed_shape=f32[2]",
        "all = f32[2] all-reduce(changed), replica_groups={}, to_apply=adder",
    ):
        text = counting(limit=2).replace("ROOT u =", f"{line}\nROOT u =")
        assert_unchanged(WhileUnroller(), text.replace("HloModule m", f"HloModule m\n{ADDER}"))


def test_loops_around_loops_stay() -> None:
    inner = counting(limit=2).replace("ENTRY main", "inside").replace("HloModule m", "")
    text = f"""
    HloModule m
    {inner}
    c2 {{ s2 = (s32[], f32[2]) parameter(0)  i2 = s32[] get-tuple-element(s2), index=0
      n2 = s32[] constant(2)  ROOT more2 = pred[] compare(i2, n2), direction=LT }}
    b2 {{ t2 = (s32[], f32[2]) parameter(0)  j2 = s32[] get-tuple-element(t2), index=0
      v2 = f32[2] get-tuple-element(t2), index=1
      call2 = f32[2] call(v2, v2), to_apply=inside  one2 = s32[] constant(1)
      k2 = s32[] add(j2, one2)  ROOT u2 = (s32[], f32[2]) tuple(k2, call2) }}
    ENTRY outer {{ x2 = f32[2] parameter(0)  z2 = s32[] constant(0)
      init2 = (s32[], f32[2]) tuple(z2, x2)
      ROOT w2 = (s32[], f32[2]) while(init2), condition=c2, body=b2 }}
    """
    module = CallInliner().run(parse_module(text))
    after = WhileUnroller().run(module)
    assert sum(i.opcode == "while" for i in after.entry.instructions) == 1
    assert_same_values(module, after, 1)
