"""Which parameters a part of the root is computed from, and when that is not told."""

from __future__ import annotations

import pytest

from xladev.compiler.program.result_needs import result_needs
from xladev.hlo.text import parse_module


def needs(body: str, before: str = "") -> tuple[tuple[int, ...], ...]:
    head = "x = f32[4] parameter(0)  y = f32[4] parameter(1)"
    return result_needs(parse_module(f"HloModule m\n{before}\nENTRY e {{ {head}\n{body} }}"))


def test_parts_without_connection() -> None:
    text = """a = f32[4] sine(x)  b = f32[4] cosine(y)  c = f32[4] add(a, b)
      n = f32[4] negate(b)  ROOT t = (f32[4], f32[4], f32[4]) tuple(a, c, n)"""
    assert needs(text) == ((0,), (0, 1), (1,))


def test_control_dependences_count() -> None:
    text = """a = f32[4] sine(x)  b = f32[4] cosine(y), control-predecessors={a}
      ROOT t = (f32[4], f32[4]) tuple(a, b)"""
    assert needs(text) == ((0,), (0, 1))


CALL = 'custom-call(x), custom_call_target="f"'
LOOP = """on { p = f32[4] parameter(0)  ROOT r = pred[] constant(false) }
body { p = f32[4] parameter(0)  ROOT r = f32[4] sine(p) }"""


@pytest.mark.parametrize(
    ("first", "before"),
    [("add(x, y)", ""), (CALL, ""), ("while(x), condition=on, body=body", LOOP)],
)
def test_not_told(first: str, before: str) -> None:
    """Where each part needs all, may not end with other values, or runs the user's code."""
    second = "subtract(x, y)" if first.startswith("add") else "cosine(y)"
    text = f"""a = f32[4] {first}  b = f32[4] {second}
      ROOT t = (f32[4], f32[4]) tuple(a, b)"""
    assert needs(text, before) == ()
