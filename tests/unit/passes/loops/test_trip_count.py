"""How often loops run, against running them."""

from __future__ import annotations

import pytest

from tests.unit.passes.loops.sample_loops import counting
from xladev.hlo.ir import HloInstruction
from xladev.hlo.text import parse_module
from xladev.passes.loops.loop import KnownLoop
from xladev.passes.loops.trip_count import trip_count

MOST = 300


def loop_of(text: str) -> KnownLoop:
    (found,) = (i for i in parse_module(text).entry.instructions if i.opcode == "while")
    loop = KnownLoop.of(found)
    assert loop is not None
    return loop


def simulated(first: int, step: int, limit: int, direction: str, bits: int) -> int | None:
    """Iterations of a signed counter that wraps; None if it wraps or goes on for long."""
    least, count, value = -(1 << bits - 1), 0, first
    goes_on = {
        "LT": int.__lt__, "LE": int.__le__, "GT": int.__gt__, "GE": int.__ge__, "NE": int.__ne__,
        "EQ": int.__eq__,
    }[direction]  # fmt: skip
    while goes_on(value, limit):
        value += step
        count += 1
        if not least <= value < -least or count > MOST:
            return None
    return count


@pytest.mark.parametrize("direction", ["LT", "LE", "GT", "GE", "NE", "EQ"])
@pytest.mark.parametrize("step", [-3, -1, 0, 1, 2])
def test_every_direction(direction: str, step: int) -> None:
    for first in (-7, 0, 5, 127, -128):
        for limit in (-128, -2, 0, 1, 7, 127):
            want = simulated(first, step, limit, direction, 8)
            loop = loop_of(counting(first, step, limit, direction, "s8"))
            assert trip_count(loop) == want, (first, step, limit, direction)


def test_unsigned_counters() -> None:
    assert trip_count(loop_of(counting(250, 2, 255, "LE", "u8"))) is None
    assert trip_count(loop_of(counting(250, 1, 255, "LT", "u8"))) == 5


def test_operands_may_be_swapped() -> None:
    text = counting().replace("compare(i, n), direction=LT", "compare(n, i), direction=GT")
    assert trip_count(loop_of(text)) == 5


def test_a_limit_that_the_state_carries() -> None:
    text = """
    HloModule m
    c { s = (s32[], s32[]) parameter(0)  i = s32[] get-tuple-element(s), index=0
      n = s32[] get-tuple-element(s), index=1
      ROOT more = pred[] compare(i, n), direction=LT }
    b { t = (s32[], s32[]) parameter(0)  j = s32[] get-tuple-element(t), index=0
      m = s32[] get-tuple-element(t), index=1  one = s32[] constant(1)
      k = s32[] subtract(j, one)  l = s32[] add(one, j)
      ROOT u = (s32[], s32[]) tuple(l, m) }
    ENTRY main { z = s32[] constant(3)  e = s32[] constant(10)
      init = (s32[], s32[]) tuple(z, e)
      ROOT w = (s32[], s32[]) while(init), condition=c, body=b }
    """
    assert trip_count(loop_of(text)) == 7
    assert trip_count(loop_of(text.replace("tuple(l, m)", "tuple(l, l)"))) is None
    assert trip_count(loop_of(text.replace("tuple(l, m)", "tuple(k, m)"))) is None


def test_what_is_no_counter() -> None:
    assert trip_count(loop_of(counting(kind="f32"))) is None
    assert trip_count(loop_of(counting().replace("k = s32[] add", "k = s32[] multiply"))) is None


def test_a_state_used_as_a_whole_is_not_seen_through() -> None:
    whole = counting().replace(
        "ROOT u = (s32[], f32[2], f32[2], f32[2]) tuple(k, same, more_sum, changed)",
        "ROOT u = (s32[], f32[2], f32[2], f32[2]) opt-barrier(t)",
    )
    assert KnownLoop.of(_while(whole)) is None


def _while(text: str) -> HloInstruction:
    return next(i for i in parse_module(text).entry.instructions if i.opcode == "while")
