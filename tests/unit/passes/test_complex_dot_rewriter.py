"""Products of complex numbers become one product of real numbers each."""

import numpy as np
import pytest

from tests.unit.passes.checks import assert_unchanged, run
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.text import parse_module
from xladev.passes.complex_dot_rewriter import ComplexDotRewriter

DOTS = {
    "rows are fewer": ("[2,5]", "[5,7]", "[2,7]", "{1}", "{0}", "{}", "{}"),
    "columns are fewer": ("[9,5]", "[5,3]", "[9,3]", "{1}", "{0}", "{}", "{}"),
    "summed first": ("[5,4]", "[6,5]", "[4,6]", "{0}", "{1}", "{}", "{}"),
    "a batch": ("[3,4,5]", "[3,5,6]", "[3,4,6]", "{2}", "{1}", "{0}", "{0}"),
    "a batch behind": ("[4,3,5]", "[5,6,3]", "[3,4,6]", "{2}", "{0}", "{1}", "{2}"),
    "several dimensions": ("[2,3,4,5]", "[5,3,2,2]", "[2,4,2,2]", "{1,3}", "{1,0}", "{}", "{}"),
}


def text(name: str, dtype: str = "c64") -> str:
    left, right, result, *dims = DOTS[name]
    return f"""HloModule m
    ENTRY main {{ x = {dtype}{left} parameter(0)  y = {dtype}{right} parameter(1)
      ROOT d = {dtype}{result} dot(x, y), lhs_contracting_dims={dims[0]},
        rhs_contracting_dims={dims[1]}, lhs_batch_dims={dims[2]}, rhs_batch_dims={dims[3]} }}"""


@pytest.mark.parametrize("dtype", ["c64", "c128"])
@pytest.mark.parametrize("name", DOTS)
def test_products_are_the_same_numbers(name: str, dtype: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    module = parse_module(text(name, dtype))
    made = run(ComplexDotRewriter(), text(name, dtype))
    dots = [i for i in made.entry.instructions if i.opcode == "dot"]
    assert len(dots) == 1 and dots[0].shape.element_type.is_float
    values = []
    for p in module.entry.parameters:
        parts = rng.integers(-9, 9, (2, *p.shape.dims))  # sums of integers have no rounding
        values.append((parts[0] + 1j * parts[1]).astype(p.shape.element_type.np))
    wanted, got = (HloEvaluator().run(m, *values) for m in (module, made))
    assert got.dtype == wanted.dtype
    np.testing.assert_array_equal(got, wanted)


def test_vectors_few_products_and_real_numbers_stay() -> None:
    vector = """HloModule m
    ENTRY main { x = c64[9,5] parameter(0)  y = c64[5] parameter(1)
      ROOT d = c64[9] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0} }"""
    assert_unchanged(ComplexDotRewriter(), vector)
    assert_unchanged(ComplexDotRewriter(), text("rows are fewer", "f32"))
    assert_unchanged(ComplexDotRewriter(2 * 5 * 7 + 1), text("rows are fewer"))
    assert run(ComplexDotRewriter(2 * 5 * 7), text("rows are fewer")).entry.root.opcode == "complex"
