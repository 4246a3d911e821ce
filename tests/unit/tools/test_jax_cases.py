"""What counts as the same result of one of JAX's cases."""

import numpy as np
import pytest

from tests.tools.jax_cases import compare

A = np.random.RandomState(0).randn(2, 4, 4)
SYMMETRIC = A + np.swapaxes(A, -1, -2)


def test_signs_and_orders_of_decompositions_are_free() -> None:
    left, values, right = np.linalg.svd(A)
    assert not compare("svd", [values, left, right], [values, -left, -right])
    values, vectors = np.linalg.eigh(SYMMETRIC)
    assert not compare("eigh", [vectors, values], [-vectors, values])
    values = np.linalg.eigvals(A)
    assert not compare("eig", [values], [values[:, ::-1]])


def test_wrong_decompositions_are_found() -> None:
    left, values, right = np.linalg.svd(A)
    assert "epsilons" in compare("svd", [values, left, right], [values, -left, right])
    values, vectors = np.linalg.eigh(SYMMETRIC)
    assert compare("eigh", [vectors[:, ::-1], values], [vectors, values])
    values = np.linalg.eigvals(A)
    assert compare("eig", [values + 1e-9], [values])


@pytest.mark.parametrize(
    ("got", "wanted", "why"),
    [
        ([1, 2], [1, 2], ""),
        ([1, 2], [1, 3], "1 of 2 values differ"),
        ([1, 2], [[1, 2]], "int64(2,) instead of int64(1, 2)"),
        ([1.0, np.nan, np.inf], [1.0 + 1e-15, np.nan, np.inf], ""),
        ([1.0, np.nan], [1.0, 2.0], "inf epsilons from JAX's CPU, more than 32"),
        ([1.0, np.inf], [1.0, -np.inf], "inf epsilons from JAX's CPU, more than 32"),
        ([1.0 + 2e-14, 9.0], [1.0, 9.0], "90 epsilons from JAX's CPU, more than 32"),
        ([1e-18, 9.0], [0.0, 9.0], ""),
    ],
)
def test_values_are_compared(got: list[object], wanted: list[object], why: str) -> None:
    assert compare("add", [np.array(got)], [np.array(wanted)]) == why


def test_products_are_as_exact_as_their_arguments() -> None:
    got, wanted = [np.array([1.0])], [np.array([1.0 + 1e-7])]
    assert compare("dot_general", got, wanted)
    assert not compare("dot_general", got, wanted, np.float32)
    assert compare("dot_general", got, wanted, np.int32)
