"""Dots that stay in the order they have, and vectors whose order costs nothing."""

from functools import partial

import numpy as np
import pytest

from tests.unit.passes.checks import assert_same_values, assert_unchanged, run
from xladev.hlo.text import parse_module
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


@pytest.mark.parametrize("vector", ["[64]", "[64,1]", "[1,64]"])
def test_a_matrix_whose_rows_are_summed_comes_behind_the_vector(vector: str) -> None:
    result = "[9]" if vector == "[64]" else "[9,1]"
    text = f"""HloModule m
    ENTRY main {{ x = f32[64,9] parameter(0)  y = f32{vector} parameter(1)
      ROOT d = f32{result} dot(x, y), lhs_contracting_dims={{0}},
        rhs_contracting_dims={{{int(vector == "[1,64]")}}} }}"""
    after = run(EITHER, text)
    (made,) = (i for i in after.entry.instructions if i.opcode == "dot")
    assert [o.shape.dims for o in made.operands] == [(1, 64), (64, 9)]
    assert made["lhs_contracting_dims"] == (1,) and made["rhs_contracting_dims"] == (0,)
    compare = partial(np.testing.assert_allclose, rtol=1e-5)
    assert_same_values(parse_module(text), after, 1, compare=compare)
