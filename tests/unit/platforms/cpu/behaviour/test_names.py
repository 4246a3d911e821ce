"""Names come from files: whatever stands in them, they never become code."""

import numpy as np
import pytest

from xladev.client import compile
from xladev.hlo import dtype as dt
from xladev.hlo.builder import HloBuilder
from xladev.hlo.shape import array

X = array(dt.F32, (4,))
INJECTED = "a\n@taken = global i8 0\n;"


@pytest.mark.parametrize("name", ["\u00e9", "a\0b", 'a"b', "%0", "a.b", "x" * 5000, INJECTED])
def test_any_name(name: str) -> None:
    b = HloBuilder(name)
    x = b.parameter(X, f"{name}.x")
    turned = b.op("reverse", x, dimensions=(0,), name=f"{name}.r")
    last = b.op("concatenate", turned, turned, dimensions=(0,), name=f"{name}.c")
    module = b.module(b.op("sort", last, dimensions=(0,), to_apply=_less(name), name=f"{name}.s"))
    got = compile(module, "cpu")(np.float32([1, 4, 2, 3]))
    assert got.numpy().tolist() == [1, 1, 2, 2, 3, 3, 4, 4]


def _less(name: str):  # type: ignore[no-untyped-def]
    b = HloBuilder(f"{name}.less")
    a, c = b.parameter(array(dt.F32)), b.parameter(array(dt.F32))
    return b.build(b.op("compare", a, c, direction="LT"))
