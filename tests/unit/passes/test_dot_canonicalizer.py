"""Dots that stay in the order they have, and vectors whose order costs nothing."""

import pytest

from tests.unit.passes.checks import assert_unchanged, run
from xladev.passes.dot_canonicalizer import DotCanonicalizer

EITHER = DotCanonicalizer(4, either_order=True)


def dot(rows: int, order: int, right: str = "[64,9]") -> str:
    left = f"[{rows},64]" if order else f"[64,{rows}]"
    return f"""HloModule m
    ENTRY main {{ x = f32{left} parameter(0)  y = f32{right} parameter(1)
      ROOT d = f32[{rows},9] dot(x, y), lhs_contracting_dims={{{order}}},
        rhs_contracting_dims={{{int(right == "[9,64]")}}} }}"""


@pytest.mark.parametrize("right", ["[64,9]", "[9,64]"])
def test_a_vector_lies_along_memory(right: str) -> None:
    root = run(EITHER, dot(1, 0, right)).entry.root
    turned, matrix = root.operands
    assert (turned.opcode, turned.shape.dims) == ("reshape", (1, 64))
    assert turned.operands[0].opcode == matrix.opcode == "parameter"
    assert root["lhs_contracting_dims"] == (1,)
    assert root["rhs_contracting_dims"] == (int(right == "[9,64]"),)


def test_matrices_stay_in_either_order() -> None:
    assert_unchanged(EITHER, dot(2, 0))
    assert_unchanged(EITHER, dot(2, 1, "[9,64]"))
    assert_unchanged(EITHER, dot(1, 1))
