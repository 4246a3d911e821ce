"""Rows of transforms, linear algebra and science as JAX computes them, against NumPy and SciPy."""

import numpy as np
import pytest

pytest.importorskip("jax")

import jax

from benchmarks.cpu.functions import jax_functions, numpy_functions, scipy_functions
from benchmarks.cpu.functions.inputs import INPUTS, made
from benchmarks.cpu.measure import difference
from benchmarks.cpu.rows import chosen, read_rows

SMALL = [r for r in chosen(read_rows(), ("fft", "linalg"), "") if "f64" not in r.name]
SMALL = [
    r for r in SMALL
    if r.parameters.get("n", 0) <= 64 and np.prod(r.parameters.get("shape", [1])) <= 4096
]  # fmt: skip


@pytest.mark.parametrize("row", SMALL, ids=lambda r: r.stem)
def test_libraries_compute_the_same(row) -> None:
    arguments = made(row.name, INPUTS[row.kind](row.parameters))
    wanted = jax.tree.leaves(jax_functions.FUNCTIONS[row.kind](row.parameters)(*arguments))
    plain = numpy_functions.FUNCTIONS.get(row.kind)
    others = [
        plain(row.parameters) if plain else None,
        scipy_functions.function(row.kind, row.parameters, 1),
    ]
    for function in filter(None, others):
        result = function(*arguments)
        got = [*result] if isinstance(result, tuple) else [np.asarray(result)]
        assert difference(got, [np.asarray(w) for w in wanted]) == ""


@pytest.mark.parametrize("row", chosen(read_rows(), ("science",), ""), ids=lambda r: r.stem)
def test_programs_of_science_give_numbers(row) -> None:
    arguments = made(row.name, INPUTS[row.kind](row.parameters))
    results = jax.tree.leaves(
        jax.jit(jax_functions.FUNCTIONS[row.kind](row.parameters))(*arguments)
    )
    assert all(np.isfinite(r).all() for r in results)
    assert any(np.abs(r).max() > 0 for r in results)
