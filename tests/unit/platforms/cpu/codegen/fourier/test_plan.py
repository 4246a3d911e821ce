"""Lengths divided into radices."""

from __future__ import annotations

from math import prod

import pytest

from xladev.platforms.cpu.codegen.fourier.codelets import LONGEST_CODELET, RADICES
from xladev.platforms.cpu.codegen.fourier.plan import (
    column_radices,
    convolution_length,
    is_direct,
    prime_factors,
    row_radices,
)


@pytest.mark.parametrize("n", [1, 2, 16, 17, 360, 997, 1024, 13**3, 2 * 3 * 5 * 7 * 11 * 13])
def test_radices_multiply_to_the_length(n: int) -> None:
    assert prod(prime_factors(n)) == n
    assert is_direct(n) == (n not in (17, 997))
    if is_direct(n):
        for radices in (row_radices(n), column_radices(n)):
            assert prod(radices) == n
            assert all(r in RADICES or n <= LONGEST_CODELET for r in radices if r > 1)


def test_short_rows_have_one_codelet() -> None:
    assert all(row_radices(n) == (n,) for n in range(1, LONGEST_CODELET + 1))


def test_rows_begin_with_radices_that_fill_vectors() -> None:
    assert row_radices(4096)[0] >= 4
    assert row_radices(3**6)[0] == 9


@pytest.mark.parametrize("n", [17, 97, 997, 1009, 65537, 1000003])
def test_convolutions_are_long_enough_and_direct(n: int) -> None:
    m = convolution_length(n)
    assert 2 * n - 1 <= m <= 4 * n
    assert is_direct(m)
