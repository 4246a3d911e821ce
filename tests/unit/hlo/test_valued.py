"""Which instructions the evaluator gives a value, by what they are and call."""

from __future__ import annotations

from xladev.errors import EvaluationError
from xladev.hlo.text import parse_module
from xladev.hlo.valued import no_value

WITHIN = """HloModule m
f {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] {inner} }}
ENTRY e {{ p = f32[4] parameter(0)  z = f32[] constant(0)
  ROOT r = f32[] reduce(p, z), dimensions={{0}}, to_apply=f }}"""


def refusal(inner: str) -> EvaluationError | None:
    return no_value(parse_module(WITHIN.format(inner=inner)).entry.root)


def test_what_all_of_has_a_value() -> None:
    assert refusal("add(a, b)") is None
    assert refusal('custom-call(a), custom_call_target="mhlo.tan"') is None


def test_an_unknown_custom_call_within_has_none() -> None:
    found = refusal('custom-call(a), custom_call_target="mhlo.tann"')
    assert found is not None
    assert found.what == "unknown custom call 'mhlo.tann'"
    assert found.hint is not None
    assert "mhlo.tan" in found.hint


def test_an_opcode_without_evaluation_has_none() -> None:
    text = """HloModule m
    ENTRY e { t = token[] after-all()  ROOT i = ((f32[2]), token[]) infeed(t) }"""
    found = no_value(parse_module(text).entry.root)
    assert found is not None
    assert "infeed" in found.what
    assert found.why
