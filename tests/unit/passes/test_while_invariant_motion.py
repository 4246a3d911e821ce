"""What is the same in every iteration is computed before the loop."""

from dataclasses import replace

from tests.unit.passes.checks import assert_same_values, assert_unchanged, run
from tests.unit.passes.loops.sample_loops import counting
from xladev.hlo.ir import HloModule
from xladev.hlo.rebuild import rebuild
from xladev.hlo.text import parse_module
from xladev.hlo.verifier import verify
from xladev.passes.while_invariant_motion import WhileInvariantMotion


def with_body(line: str, used: str) -> str:
    text = counting().replace("more_sum =", f"{line}\nmore_sum =")
    return text.replace("add(sum, same)", f"add(sum, {used})")


def test_an_expression_of_invariants_moves() -> None:
    text = with_body("s1 = f32[2] sine(same)  s2 = f32[2] exponential(s1)", "s2")
    after = run(WhileInvariantMotion(), text)
    verify(after)
    assert_same_values(parse_module(text), after, 1)
    assert {"sine", "exponential"} <= {i.opcode for i in after.entry.instructions}
    body = next(c for c in after.computations if c.name == "body")
    assert not {"sine", "exponential"} & {i.opcode for i in body.instructions}


def test_a_value_that_is_the_next_state() -> None:
    text = with_body("s1 = f32[2] sine(same)", "same").replace("more_sum, changed)", "s1, changed)")
    after = run(WhileInvariantMotion(), text)
    verify(after)
    assert_same_values(parse_module(text), after, 1)


def test_what_is_cheap_or_grows_or_changes_stays() -> None:
    for line, used in (
        ("q = f32[] constant(1)  s1 = f32[2] broadcast(q)", "s1"),
        ("s1 = f32[2] sine(sum)", "s1"),
        ("s1 = f32[2] opt-barrier(same)", "s1"),
        ("s1 = f32[2] slice(same), slice={[0:2]}", "s1"),
        (
            "q = f32[2,90] broadcast(same), dimensions={0}  "
            "d = f32[90,90] dot(q, q), lhs_contracting_dims={0}, rhs_contracting_dims={0}  "
            "s2 = f32[1,2] slice(d), slice={[0:1], [0:2]}  s1 = f32[2] reshape(s2)",
            "s1",
        ),
    ):
        assert_unchanged(WhileInvariantMotion(), with_body(line, used))


def test_what_may_fail_or_not_end_stays() -> None:
    for line in (
        's1 = f32[2] custom-call(same), custom_call_target="cos"',
        "s1 = f32[2] call(same), to_apply=f",
        "s1 = f32[2] while(same), condition=never, body=f",
        "n1 = f32[] constant(0)  n2 = f32[] constant(1)  "
        "s1 = f32[2] rng(n1, n2), distribution=rng_uniform",
    ):
        text = with_body(line, "s1").replace(
            "HloModule m",
            """HloModule m
            f { p1 = f32[2] parameter(0)  ROOT p2 = f32[2] sine(p1) }
            never { p3 = f32[2] parameter(0)  ROOT p4 = pred[] constant(false) }""",
        )
        assert_unchanged(WhileInvariantMotion(), text)


def test_what_moves_stays_on_its_device() -> None:
    module = parse_module(with_body("s1 = f32[2] sine(same)", "s1"))
    old = next(i for i in module.entry.instructions if i.opcode == "while")
    placed = replace(old, note=replace(old.note, device="npu:0"))
    moved = HloModule(module.name, rebuild(module.entry, {old: placed}), module.header)
    after = WhileInvariantMotion().run(moved)
    (sine,) = (i for i in after.entry.instructions if i.opcode == "sine")
    assert sine.note.device == "npu:0"


def test_a_loop_that_runs_once_keeps_all() -> None:
    text = with_body("s1 = f32[2] sine(same)", "s1").replace("constant(5)", "constant(1)")
    assert_unchanged(WhileInvariantMotion(), text)
