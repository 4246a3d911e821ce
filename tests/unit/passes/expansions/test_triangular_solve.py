"""cholesky and triangular-solve as blocks and loops, against their direct definitions."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from tests.unit.passes.expansions.single import assert_near, both_values, expanded
from xladev.hlo import dtype as dt
from xladev.hlo.text import parse_module

DIMS = [(1, 1), (5, 5), (2, 3, 4, 4), (0, 0), (70, 70)]


def matrix(dims: tuple[int, ...], dtype: Any, seed: int) -> Any:
    """Positive definite."""
    rng = np.random.default_rng(seed)
    a = rng.standard_normal(dims)
    if np.dtype(dtype).kind == "c":
        a = a + 1j * rng.standard_normal(dims)
    n = dims[-1]
    return (a @ np.conj(a).swapaxes(-1, -2) + n * np.eye(n)).astype(dtype)


def hide(a: Any, lower: bool) -> None:
    """Puts NaN where nobody may read."""
    pick = np.triu_indices if lower else np.tril_indices
    rows, columns = pick(a.shape[-1], 1 if lower else -1)
    a[..., rows, columns] = np.nan


def text_of(dims: tuple[int, ...]) -> str:
    return ",".join(map(str, dims))


@pytest.mark.parametrize("dims", DIMS, ids=text_of)
@pytest.mark.parametrize("element_type", ["f32", "f64", "c64", "c128", "f16"])
def test_cholesky(element_type: str, dims: tuple[int, ...], seed: int) -> None:
    for lower in (True, False):
        a = matrix(dims, dt.by_name(element_type).np, seed)
        hide(a, lower)
        shape = f"{element_type}[{text_of(dims)}]"
        assert_near(f"c = {shape} cholesky({shape} x), lower={str(lower).lower()}", 0, a, eps=64)


def test_cholesky_of_several_blocks(seed: int) -> None:
    a = matrix((2, 150, 150), np.float32, seed)
    assert_near("c = f32[2,150,150] cholesky(f32[2,150,150] x), lower=true", 0, a, eps=64)


def test_cholesky_of_an_indefinite_matrix_is_nan_in_its_triangle(seed: int) -> None:
    a = matrix((2, 4, 4), np.float32, seed)
    a[1, 2, 2] = -1
    ((direct, made),) = both_values("c = f32[2,4,4] cholesky(f32[2,4,4] x), lower=true", 0, a)
    np.testing.assert_array_equal(np.isnan(direct), np.isnan(made))
    np.testing.assert_allclose(direct, made, rtol=1e-5)
    assert np.isnan(made[1][np.tril_indices(4)]).all()


SYSTEMS = [((), 1, 1), ((), 5, 3), ((2, 3), 4, 2), ((2,), 70, 2), ((), 3, 0)]


@pytest.mark.parametrize("system", SYSTEMS, ids=str)
@pytest.mark.parametrize("element_type", ["f32", "c64", "f16"])
def test_triangular_solve(
    element_type: str, system: tuple[tuple[int, ...], int, int], seed: int
) -> None:
    batch, n, k = system
    rng = np.random.default_rng(seed)
    dtype = dt.by_name(element_type).np
    for lower, left, unit in product((True, False), repeat=3):
        for transpose in ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"):
            a = (matrix((*batch, n, n), dtype, seed) / n / 2 + np.eye(n)).astype(dtype)
            hide(a, lower)
            dims = (*batch, n, k) if left else (*batch, k, n)
            b = rng.standard_normal(dims).astype(dtype)
            shape = f"{element_type}[{text_of(dims)}]"
            assert_near(
                f"c = {shape} triangular-solve({element_type}[{text_of(a.shape)}] x, {shape} y), "
                f"lower={lower}, left_side={left}, unit_diagonal={unit}, transpose_a={transpose}"
                .replace("True", "true").replace("False", "false"),
                0, a, b, eps=200,
            )  # fmt: skip


def test_the_number_of_instructions_is_bounded() -> None:
    for n, most in ((1000, 2000), (20000, 8000)):
        text = f"c = f32[{n},{n}] cholesky(f32[{n},{n}] x), lower=true"
        assert len(expanded(parse_module(text)).instructions) < most
