"""Index arithmetic of vectors: what is known of a coordinate that moves."""

from __future__ import annotations

import pytest

from xladev.codegen.elemental.vectors import NotInVectorsError, VectorIndexMath
from xladev.codegen.llvm import I64, Value


class _Recorder:
    """Writes nothing: gives each instruction's result a name of its own."""

    def __init__(self) -> None:
        self._count = 0

    def _made(self, *_: object) -> Value:
        self._count += 1
        return Value(f"%{self._count}", I64)

    add = sub = mul = udiv = icmp = const = _made


def test_conditions_are_known_from_the_span_of_a_coordinate() -> None:
    at = VectorIndexMath(_Recorder(), 16)  # type: ignore[arg-type]
    x = Value("%x", I64)
    at.start(x, 1, (16, 48))
    shifted = at.sub(at.add(x, 5), 2)
    assert at.within(shifted, 19, 51) is True
    assert at.within(shifted, 51, 99) is False
    assert at.within(shifted, 0, 19) is False
    assert not at.cuts
    with pytest.raises(NotInVectorsError):
        at.within(shifted, 0, 30)
    assert at.cuts == {27}


def test_lanes_are_a_few_elements_apart_where_that_is_allowed() -> None:
    at = VectorIndexMath(_Recorder(), 16)  # type: ignore[arg-type]
    x = Value("%x", I64)
    at.start(x, 16, (16, 48))
    with pytest.raises(NotInVectorsError):
        at.mul(x, 3)
    at.most_stride = 4
    place = at.add(at.mul(x, 3), 7)
    assert (at.stride(x), at.stride(place), at.stride(5)) == (1, 3, 0)
    assert at.within(place, 3 * 16 + 7, 3 * 47 + 8) is True
    assert at.within(place, 3 * 47 + 8, 999) is False
    with pytest.raises(NotInVectorsError):
        at.within(place, 0, 100)
    assert at.cuts == {31}
    assert 3 * 30 + 7 < 100 <= 3 * 31 + 7
    for refused in (
        lambda: at.mul(place, 2),
        lambda: at.rem(place, 16),
        lambda: at.div(place, 32),
        lambda: at.clamp(place, 0, 4),
    ):
        with pytest.raises(NotInVectorsError):
            refused()


def test_what_is_the_same_in_a_run_is_one_value() -> None:
    at = VectorIndexMath(_Recorder(), 16)  # type: ignore[arg-type]
    start, x = Value("%start", I64), Value("%x", I64)
    at.is_in_run(x, start, 32)
    assert at.div(x, 64) is at.div(start, 64)
    assert at.div(x, 16) is not at.div(start, 16)


def test_what_is_made_where_code_may_not_run_is_forgotten() -> None:
    at = VectorIndexMath(_Recorder(), 16)  # type: ignore[arg-type]
    start, x = Value("%start", I64), Value("%x", I64)
    at.is_in_run(x, start, 32)
    before = at.div(x, 64)
    with at.scope():
        inside = at.div(x, 96)
        assert at.div(x, 64) is before
    assert at.div(x, 96) is not inside
    assert at.div(x, 64) is before
