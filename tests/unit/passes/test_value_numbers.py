"""Numbers of computations by what they compute, names apart."""

from __future__ import annotations

from xladev.hlo.text import parse_module
from xladev.passes.value_numbers import ValueNumbers

TEXT = """
HloModule m
inner.1 { a = f32[] parameter(0)  ROOT s = f32[] sine(a) }
inner.2 { b = f32[] parameter(0)  ROOT t = f32[] sine(b) }
inner.3 { c = f32[] parameter(0)  ROOT u = f32[] cosine(c) }
outer.1 { d = f32[] parameter(0)  ROOT v = f32[] call(d), to_apply=inner.1 }
outer.2 { e = f32[] parameter(0)  ROOT w = f32[] call(e), to_apply=inner.2 }
outer.3 { f = f32[] parameter(0)  ROOT x = f32[] call(f), to_apply=inner.3 }
ENTRY main { p = f32[] parameter(0)  q = f32[] call(p), to_apply=outer.1
  r = f32[] call(q), to_apply=outer.2  ROOT y = f32[] call(r), to_apply=outer.3 }
"""


def test_computations_are_numbered_with_those_that_they_call() -> None:
    named = {c.name: c for c in parse_module(TEXT).computations}
    numbers = ValueNumbers()
    outer = [numbers.add(named[f"outer.{n}"]) for n in (1, 2, 3)]
    inner = [numbers.add(named[f"inner.{n}"]) for n in (1, 2, 3)]
    assert outer[0] == outer[1] != outer[2]
    assert inner[0] == inner[1] != inner[2]


def test_calls_may_nest_deeper_than_python_recurses() -> None:
    depth = 3000
    lines = ["HloModule m", "f.0 { a = f32[] parameter(0)  ROOT r = f32[] sine(a) }"]
    for n in range(1, depth):
        body = f"a.{n} = f32[] parameter(0)  ROOT r.{n} = f32[] call(a.{n}), to_apply=f.{n - 1}"
        lines.append(f"f.{n} {{ {body} }}")
    last = f"ENTRY e {{ p = f32[] parameter(0)  ROOT q = f32[] call(p), to_apply=f.{depth - 1} }}"
    module = parse_module("\n".join([*lines, last]))
    assert ValueNumbers().add(module.entry) == depth
