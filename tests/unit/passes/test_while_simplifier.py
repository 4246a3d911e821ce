"""Loops lose what they do in vain."""

from dataclasses import replace

from tests.unit.passes.checks import assert_same_values, assert_unchanged, opcodes, run
from tests.unit.passes.loops.sample_loops import counting
from xladev.hlo.ir import HloInstruction, HloModule
from xladev.hlo.rebuild import rebuild
from xladev.hlo.text import parse_module
from xladev.hlo.verifier import verify
from xladev.passes.while_simplifier import WhileSimplifier


def simplified(text: str) -> HloModule:
    after = run(WhileSimplifier(), text)
    verify(after)
    assert_same_values(parse_module(text), after, 1)
    return after


def the_loop(module: HloModule) -> HloInstruction:
    (found,) = (i for i in module.entry.instructions if i.opcode == "while")
    return found


def test_a_loop_that_never_runs_is_its_initial_state() -> None:
    assert "while" not in opcodes(simplified(counting(limit=0)))


def test_a_loop_that_runs_once_is_a_call() -> None:
    after = simplified(counting(limit=1))
    assert "while" not in opcodes(after)
    assert "call" in opcodes(after)


def test_what_nobody_reads_is_dropped_and_what_stays_the_same_goes_by() -> None:
    after = simplified(counting())
    loop = the_loop(after)
    assert len(loop.shape.tuple_shapes) == 3
    assert "multiply" not in opcodes(after)
    assert after.entry.root.operands[0].opcode == "parameter"


def test_all_of_it_is_needed_where_the_whole_result_is() -> None:
    text = counting().replace("ROOT r = f32[2] subtract(a, b)", "").replace("w =", "ROOT w =")
    text = text.replace("a = f32[2] get-tuple-element(w), index=1", "")
    assert_unchanged(
        WhileSimplifier(), text.replace("b = f32[2] get-tuple-element(w), index=2", "")
    )


def test_parts_that_need_each_other_only_are_dropped() -> None:
    text = counting().replace("multiply(unread, same)", "multiply(unread, sum)")
    assert len(the_loop(simplified(text)).shape.tuple_shapes) == 3


def test_effects_keep_what_they_need() -> None:
    text = counting().replace(
        "changed = f32[2] multiply(unread, same)",
        "changed = f32[2] multiply(unread, same)  tok = token[] after-all()  "
        "out = token[] outfeed(changed, tok), outfeed_shape=f32[2]",
    )
    after = run(WhileSimplifier(), text)
    assert len(the_loop(after).shape.tuple_shapes) == 4


def test_control_dependencies_keep_a_loop() -> None:
    text = counting(limit=0).replace("body=body", "body=body, control-predecessors={x}")
    assert_unchanged(WhileSimplifier(), text)


def test_control_dependencies_of_a_part_keep_a_loop() -> None:
    text = counting(limit=0).replace(
        "index=2\n      ROOT", "index=2, control-predecessors={w}\nROOT"
    )
    assert "control-predecessors" in text
    assert_unchanged(WhileSimplifier(), text)


def test_who_takes_a_token_from_a_loop_waits_for_it() -> None:
    text = """
    HloModule m
    c { s = (s32[], token[]) parameter(0)  i = s32[] get-tuple-element(s), index=0
      n = s32[] constant(3)  ROOT more = pred[] compare(i, n), direction=LT }
    b { t = (s32[], token[]) parameter(0)  j = s32[] get-tuple-element(t), index=0
      k = token[] get-tuple-element(t), index=1  one = s32[] constant(1)  l = s32[] add(j, one)
      e = f32[] custom-call(j), custom_call_target="Sharding", custom_call_has_side_effect=true
      ROOT u = (s32[], token[]) tuple(l, k) }
    ENTRY main { z = s32[] constant(0)  a = token[] after-all()  x = f32[2] parameter(0)
      init = (s32[], token[]) tuple(z, a)
      w = (s32[], token[]) while(init), condition=c, body=b
      v = token[] get-tuple-element(w), index=1
      ROOT o = token[] outfeed(x, v), outfeed_shape=f32[2] }
    """
    assert_unchanged(WhileSimplifier(), text)


def test_shardings_that_count_parts_keep_them() -> None:
    text = counting().replace(
        "body=body",
        "body=body, sharding={{replicated}, {replicated}, {replicated}, {replicated}}",
    )
    assert_unchanged(WhileSimplifier(), text)


def test_device_and_metadata_stay() -> None:
    module = parse_module(counting().replace("body=body", 'body=body, metadata={op_name="loop"}'))
    old = the_loop(module)
    placed = replace(old, note=replace(old.note, device="npu:0"))
    moved = HloModule(module.name, rebuild(module.entry, {old: placed}), module.header)
    note = the_loop(WhileSimplifier().run(moved)).note
    assert (note.device, note.metadata.op_name) == ("npu:0", "loop")
