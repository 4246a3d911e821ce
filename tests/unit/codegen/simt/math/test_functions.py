"""Which functions a target has code of its own for follows from its approximate instructions."""

import pytest

from xladev.codegen.simt.math.functions import functions_with

ALL = ("xd.ex2", "xd.lg2", "xd.rcp", "xd.rsqrt", "xd.sqrt", "xd.tanh", "xd.div")


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_without_any_only_angles_are_its_own(dtype):
    table = functions_with(())
    assert table("sine", dtype) and table("cosine", dtype)
    assert not any(table(o, dtype) for o in ("exponential", "tanh", "logistic", "divide", "log"))


def test_what_narrow_results_want_most_is_chosen():
    whole, without = functions_with(ALL), functions_with(set(ALL) - {"xd.tanh"})
    assert whole("tanh", "bf16") not in (None, whole("tanh", "f32"))
    assert without("tanh", "bf16") is without("tanh", "f32") is whole("tanh", "f32")
    assert whole("exponential", "f16") not in (None, whole("exponential", "f32"))


def test_other_types_and_opcodes_are_shared_code():
    table = functions_with(ALL)
    assert table("exponential", "f64") is None
    assert table("log", "f16") is table("log", "f32") is None
    assert table("atan2", "f32") is None
