"""Products with vectors become sums of elementwise products, where they lie along memory."""

from functools import partial

import numpy as np
import pytest

from tests.unit.passes.checks import assert_same_values, assert_unchanged, opcodes, run
from xladev.hlo.text import parse_module
from xladev.hlo.verifier import verify
from xladev.passes.dot_strength_reduction import DotStrengthReduction

PASS = DotStrengthReduction()


def dot(x: str, y: str, result: str, numbers: str, dtype: str = "c64") -> str:
    return f"""HloModule m
    ENTRY e {{ x = {dtype}[{x}] parameter(0)  y = {dtype}[{y}] parameter(1)
      ROOT d = {dtype}[{result}] dot(x, y), {numbers} }}"""


BATCHES = "lhs_batch_dims={0}, rhs_batch_dims={0}, "
LAST = BATCHES + "lhs_contracting_dims={2}, rhs_contracting_dims={1}"


@pytest.mark.parametrize(
    "text",
    [
        dot("9,30", "30", "9", "lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
        dot("30,1", "9,30", "1,9", "lhs_contracting_dims={0}, rhs_contracting_dims={1}"),
        dot("5,30", "5,30", "5", BATCHES + "lhs_contracting_dims={1}, rhs_contracting_dims={1}"),
        dot("5,9,30", "5,30", "5,9", LAST),
        dot("5,1,30", "5,30,1", "5,1,1", LAST),
        dot("7,2,3", "3,2", "7", "lhs_contracting_dims={1,2}, rhs_contracting_dims={1,0}"),
        dot("9,30", "30", "9", "lhs_contracting_dims={1}, rhs_contracting_dims={0}", "s64"),
        dot("9,30", "30", "9", "lhs_contracting_dims={1}, rhs_contracting_dims={0}", "f32"),
    ],
)  # fmt: skip
def test_sums_along_memory(text: str) -> None:
    after = run(PASS, text)
    verify(after)
    assert "dot" not in opcodes(after)
    compare = partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-5)
    assert_same_values(parse_module(text), after, 1, compare=compare)


def test_other_dots_stay() -> None:
    across = "lhs_contracting_dims={0}, rhs_contracting_dims={0}"
    assert_unchanged(PASS, dot("30,9", "30", "9", across))
    assert_unchanged(PASS, dot("30,2", "30,2", "2,2", across))
    along = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    assert_unchanged(PASS, dot("9,30", "30", "9", along, "bf16"))
    assert_unchanged(DotStrengthReduction(lambda i: False), dot("9,30", "30", "9", along))
