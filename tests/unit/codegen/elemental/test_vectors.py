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

    add = sub = mul = icmp = const = _made


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
