"""Custom calls that nobody knows are refused when they are compiled, with near names."""

from __future__ import annotations

import pytest

from xladev.client import compile as compile_for
from xladev.errors import UnsupportedError
from xladev.hlo.custom_calls.definition import CustomCall
from xladev.hlo.custom_calls.registry import register, unregister
from xladev.hlo.text import parse_module

ALONE = """HloModule m
ENTRY e { p = f32[4] parameter(0)
  ROOT r = f32[4] custom-call(p), custom_call_target="Qrr" }"""
WITHIN = """HloModule m
f { a = f32[] parameter(0)  b = f32[] parameter(1)
  ROOT r = f32[] custom-call(a, b), custom_call_target="Qrr" }
ENTRY e { p = f32[4] parameter(0)  z = f32[] constant(0)
  ROOT r = f32[] reduce(p, z), dimensions={0}, to_apply=f }"""
IN_A_LOOP = """HloModule m
c { s = (f32[4]) parameter(0)  ROOT t = pred[] constant(true) }
b { s = (f32[4]) parameter(0)  x = f32[4] get-tuple-element(s), index=0
  y = f32[4] custom-call(x), custom_call_target="Qrr"  ROOT r = (f32[4]) tuple(y) }
ENTRY e { p = (f32[4]) parameter(0)
  ROOT w = (f32[4]) while(p), condition=c, body=b }"""


@pytest.mark.parametrize("text", [ALONE, WITHIN, IN_A_LOOP], ids=["alone", "within", "in a loop"])
@pytest.mark.parametrize("platform", ["cpu", "interpreter"])
def test_refused_when_compiled(platform: str, text: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        compile_for(parse_module(text), platform)
    assert "unknown custom call 'Qrr'" in str(caught.value.why)
    assert "did you mean Qr?" in str(caught.value.hint)


def test_a_target_without_a_meaning_on_the_host_is_refused_too() -> None:
    register(CustomCall("Qrr", "Of a device alone."))
    try:
        with pytest.raises(UnsupportedError, match="no platform runs custom call 'Qrr'"):
            compile_for(parse_module(ALONE), "cpu")
    finally:
        unregister("Qrr")
