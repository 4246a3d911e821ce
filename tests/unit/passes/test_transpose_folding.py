"""Dots read transposed operands themselves."""

import numpy as np
import pytest

from tests.unit.passes.checks import (
    assert_becomes,
    assert_same_values,
    assert_unchanged,
    opcodes,
    run,
)
from xladev.hlo.text import parse_module
from xladev.passes.dot_canonicalizer import DotCanonicalizer
from xladev.passes.expansions.dot import is_canonical
from xladev.passes.transpose_folding import TransposeFolding

BOTH = """
HloModule m
ENTRY main { x = f32[4,2,3] parameter(0)  y = f32[3,5,4] parameter(1)
  a = f32[4,3,2] transpose(x), dimensions={0,2,1}
  b = f32[4,3,5] transpose(y), dimensions={2,0,1}
  ROOT d = f32[4,2,5] dot(a, b), lhs_batch_dims={0}, rhs_batch_dims={0},
    lhs_contracting_dims={1}, rhs_contracting_dims={1}, operand_precision={highest,default} }
"""


def close(want: object, got: object) -> None:
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)  # type: ignore[arg-type]


def test_both_operands() -> None:
    assert_becomes(
        TransposeFolding(),
        BOTH,
        """
        HloModule m
        ENTRY main { x = f32[4,2,3] parameter(0)  y = f32[3,5,4] parameter(1)
          ROOT dot.1 = f32[4,2,5] dot(x, y), lhs_batch_dims={0}, rhs_batch_dims={2},
            lhs_contracting_dims={2}, rhs_contracting_dims={0},
            operand_precision={highest,default} }
        """,
    )


@pytest.mark.parametrize("each", [TransposeFolding(), DotCanonicalizer()], ids=lambda p: p.name)
def test_values_stay(each: TransposeFolding | DotCanonicalizer) -> None:
    after = run(each, BOTH)
    assert after is not parse_module(BOTH)
    assert_same_values(parse_module(BOTH), after, 2, compare=close)


def test_free_dimensions_in_another_order_stay() -> None:
    assert_unchanged(
        TransposeFolding(),
        """
        HloModule m
        ENTRY main { x = f32[4,2,3] parameter(0)  y = f32[3] parameter(1)
          a = f32[2,4,3] transpose(x), dimensions={1,0,2}
          ROOT d = f32[2,4] dot(a, y), lhs_contracting_dims={2}, rhs_contracting_dims={0} }
        """,
    )


def test_canonical_dots() -> None:
    text = """
    HloModule m
    ENTRY main { x = f32[3,4,2] parameter(0)  y = f32[5,3,2,4] parameter(1)
      ROOT d = f32[3,5] dot(x, y), lhs_batch_dims={0}, rhs_batch_dims={1},
        lhs_contracting_dims={1,2}, rhs_contracting_dims={3,2} }
    """
    after = run(DotCanonicalizer(), text)
    assert all(is_canonical(i) for i in after.entry.instructions if i.opcode == "dot")
    assert_same_values(parse_module(text), after, 3, compare=close)


def test_dots_stay_that_hardly_use_what_would_be_transposed() -> None:
    text = """
    HloModule m
    ENTRY main { x = f32[3,16] parameter(0)  y = f32[5,16] parameter(1)
      ROOT d = f32[3,5] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={1} }
    """
    assert_unchanged(DotCanonicalizer(least_reuse=4), text)
    assert "transpose" in opcodes(run(DotCanonicalizer(least_reuse=3), text))


def test_dots_that_need_no_transpose_are_canonical_at_once() -> None:
    text = """
    HloModule m
    ENTRY main { x = f32[16] parameter(0)  y = f32[16,5] parameter(1)
      ROOT d = f32[5] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={0} }
    """
    after = run(DotCanonicalizer(least_reuse=1000), text)
    assert "transpose" not in opcodes(after)
    assert all(is_canonical(i) for i in after.entry.instructions if i.opcode == "dot")
