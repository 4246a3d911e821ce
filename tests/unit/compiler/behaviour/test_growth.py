"""Compilation of values of many parts does work in proportion to them.

Work is counted in calls of functions, not timed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import pytest

import xladev
from tests.tools.profiled_calls import calls
from xladev.hlo.proto import write_module

SMALL, LARGE = 60, 240
MOST_GROWTH = 1.5
"""Calls per part of the large program over those of the small one; quadratic work gives 4."""


def _loop(count: int) -> str:
    """A loop with a state of many parts, most of which no iteration changes."""
    parts = ", ".join(["f32[2]"] * count)
    elements = "\n".join(
        f"  g{n} = f32[2] get-tuple-element(p), index={n + 1}" for n in range(count)
    )
    names = ", ".join(f"g{n}" for n in range(1, count))
    return f"""HloModule loop
    body {{
      p = (s32[], {parts}) parameter(0)
      i = s32[] get-tuple-element(p), index=0
      one = s32[] constant(1)
      next = s32[] add(i, one)
    {elements}
      sum = f32[2] add(g0, g1)
      ROOT t = (s32[], {parts}) tuple(next, sum, {names})
    }}
    condition {{
      p = (s32[], {parts}) parameter(0)
      i = s32[] get-tuple-element(p), index=0
      ten = s32[] constant(10)
      ROOT less = pred[] compare(i, ten), direction=LT
    }}
    ENTRY e {{
      p = (s32[], {parts}) parameter(0)
      ROOT w = (s32[], {parts}) while(p), condition=condition, body=body
    }}"""


def _results(count: int) -> str:
    parts = ", ".join(["f32[2]"] * count)
    return f"""HloModule results
    ENTRY e {{ x = f32[2] parameter(0)  ROOT t = ({parts}) tuple({", ".join(["x"] * count)}) }}"""


def _parameters(count: int) -> str:
    listed = " ".join(f"x{n} = f32[2] parameter({n})" for n in range(count))
    return f"HloModule parameters\n ENTRY e {{ {listed} ROOT s = f32[2] add(x0, x{count - 1}) }}"


def _parts_of_a_parameter(count: int) -> str:
    parts = ", ".join(["f32[2]"] * count)
    elements = " ".join(f"g{n} = f32[2] get-tuple-element(p), index={n}" for n in range(count))
    names = ", ".join(f"g{n}" for n in reversed(range(count)))
    return f"""HloModule parts
    ENTRY e {{ p = ({parts}) parameter(0)  {elements}  ROOT t = ({parts}) tuple({names}) }}"""


KINDS: Mapping[str, Callable[[int], str]] = MappingProxyType(
    {"loop": _loop, "results": _results, "parameters": _parameters, "parts": _parts_of_a_parameter}
)


@pytest.mark.parametrize("kind", KINDS)
def test_work_grows_with_the_parts(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLADEV_CACHE", "off")
    xladev.compile(KINDS[kind](8).encode(), "cpu")  # what is done once is done
    found: list[float] = []
    for count in (SMALL, LARGE):
        module = xladev.parse(KINDS[kind](count))
        found.append(calls(lambda module=module: xladev.compile(module, "cpu")) / count)
    assert found[1] / found[0] < MOST_GROWTH


def test_equal_parts_of_a_shape_are_read_and_written_once() -> None:
    """A part costs what the list costs, not what its layout has fields."""
    modules = [xladev.parse(_results(count)) for count in (1000, 2000)]
    written = [write_module(module) for module in modules]
    assert [xladev.load(data) for data in written] == modules  # and what is done once is done
    writes = [calls(lambda module=module: write_module(module)) for module in modules]
    reads = [calls(lambda data=data: xladev.load(data)) for data in written]
    for small, large in (writes, reads):
        assert (large - small) / 1000 < 40
