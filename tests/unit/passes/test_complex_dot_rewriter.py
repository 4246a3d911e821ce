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

VECTORS = {
    "behind": ("[9,5]", "[5]", "[9]", "{1}", "{0}", "{}", "{}"),
    "before": ("[5]", "[5,7]", "[7]", "{0}", "{0}", "{}", "{}"),
    "of one column": ("[9,5]", "[5,1]", "[9,1]", "{1}", "{0}", "{}", "{}"),
    "of one row": ("[1,5]", "[7,5]", "[1,7]", "{1}", "{1}", "{}", "{}"),
    "two of them": ("[5]", "[5]", "[]", "{0}", "{0}", "{}", "{}"),
    "a batch of them": ("[3,4,5]", "[3,5]", "[3,4]", "{2}", "{1}", "{0}", "{0}"),
    "a batch that is behind": ("[4,5,3]", "[1,5,3]", "[3,4,1]", "{1}", "{1}", "{2}", "{2}"),
    "sums of two dimensions": ("[4,5,3]", "[3,4]", "[5]", "{0,2}", "{1,0}", "{}", "{}"),
}


def text(name: str, dtype: str = "c64") -> str:
    left, right, result, *dims = (DOTS | VECTORS)[name]
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


@pytest.mark.parametrize("dtype", ["c64", "c128"])
@pytest.mark.parametrize("name", VECTORS)
def test_products_with_vectors_are_two_sums(name: str, dtype: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    module = parse_module(text(name, dtype))
    made = run(ComplexDotRewriter(), text(name, dtype))
    opcodes = [i.opcode for i in made.entry.instructions]
    assert "dot" not in opcodes
    assert opcodes.count("reduce") == 2
    values = []
    for p in module.entry.parameters:
        parts = rng.integers(-9, 9, (2, *p.shape.dims))
        values.append((parts[0] + 1j * parts[1]).astype(p.shape.element_type.np))
    wanted, got = (HloEvaluator().run(m, *values) for m in (module, made))
    np.testing.assert_array_equal(got, wanted)


def test_few_products_and_real_numbers_stay() -> None:
    assert_unchanged(ComplexDotRewriter(9 * 5 + 1), text("behind"))
    assert_unchanged(ComplexDotRewriter(least_row=6), text("behind"))
    assert_unchanged(ComplexDotRewriter(least_row=6), text("of one row"))
    assert run(ComplexDotRewriter(least_row=6), text("before")).entry.root.opcode == "complex"
    assert_unchanged(ComplexDotRewriter(), text("rows are fewer", "f32"))
    assert_unchanged(ComplexDotRewriter(2 * 5 * 7 + 1), text("rows are fewer"))
    assert run(ComplexDotRewriter(2 * 5 * 7), text("rows are fewer")).entry.root.opcode == "complex"


@pytest.mark.parametrize(
    ("left", "right", "result"),
    [("0,5", "5,7", "0,7"), ("9,5", "5,0", "9,0"), ("1,5", "5,0", "1,0"), ("0,5", "5,1", "0,1")],
)
def test_products_without_elements_stay(left: str, right: str, result: str) -> None:
    assert_unchanged(
        ComplexDotRewriter(),
        f"""HloModule m
        ENTRY main {{ x = c64[{left}] parameter(0)  y = c64[{right}] parameter(1)
          ROOT d = c64[{result}] dot(x, y), lhs_contracting_dims={{1}},
            rhs_contracting_dims={{0}} }}""",
    )
