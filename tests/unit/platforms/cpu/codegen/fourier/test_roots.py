"""Roots of unity against decimal arithmetic of fifty digits."""

from __future__ import annotations

from decimal import Decimal, getcontext
from fractions import Fraction

import numpy as np
import pytest

from xladev.platforms.cpu.codegen.fourier.roots import (
    _progressions,
    _wide_roots,
    chirp,
    chirp_spectrum,
    lane_table,
    roots,
    split_tables,
    step_table,
)

PI = Decimal("3.14159265358979323846264338327950288419716939937510582")
LENGTHS = [1, 2, 3, 7, 8, 360, 997, 4096, 65537, 1 << 20]


def exact(k: int, n: int) -> tuple[Fraction, Fraction]:
    """``exp(-2 pi i k / n)`` by its series."""
    getcontext().prec = 50
    angle = -2 * PI * k / n
    term, cosine, sine, order = Decimal(1), Decimal(0), Decimal(0), 0
    while abs(term) > Decimal(10) ** -45 or order < 4:
        sign = -1 if order % 4 in (2, 3) else 1
        if order % 2:
            sine += sign * term
        else:
            cosine += sign * term
        order += 1
        term = term * angle / order
    return Fraction(cosine), Fraction(sine)


@pytest.mark.parametrize("nbytes", [4, 8])
def test_roots_are_rounded_once(nbytes: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for n in LENGTHS:
        exponents = rng.integers(0, n, 6)
        real, imaginary = roots(exponents, n, nbytes)
        for k, x, y in zip(exponents, real, imaginary, strict=True):
            for got, wanted in zip((x, y), exact(int(k), n), strict=True):
                unit = Fraction(float(np.spacing(np.abs(got))))
                near_zero = Fraction(1, 10**40)
                assert abs(Fraction(float(got)) - wanted) <= unit * Fraction(51, 100) + near_zero


def test_quarters_of_a_turn_are_exact() -> None:
    real, imaginary = roots(np.arange(4) * 5, 20, 8)
    np.testing.assert_array_equal(real, [1, 0, -1, 0])
    np.testing.assert_array_equal(imaginary, [0, -1, 0, 1])


def test_tables_hold_the_same_roots() -> None:
    radix, count = 5, 6
    wanted = np.exp(-2j * np.pi * np.outer(np.arange(count), np.arange(radix)) / 30)[:, 1:]
    steps = np.frombuffer(step_table(radix, count, 8)).reshape(count, radix - 1, 2)
    np.testing.assert_allclose(steps[..., 0] + 1j * steps[..., 1], wanted, atol=1e-15)
    lanes = np.frombuffer(lane_table(radix, count, 8)).reshape(radix - 1, 2, count)
    np.testing.assert_allclose((lanes[:, 0] + 1j * lanes[:, 1]).T, wanted, atol=1e-15)


def test_split_roots_multiply_to_those_of_the_whole() -> None:
    n1, n2, block = 35, 24, 16
    outer, inner = (
        np.frombuffer(t).reshape(-1, 2, n2) for t in split_tables(n1, n2, block, block + 3, 8)
    )
    for k in range(n1):
        number = min(k // block, n1 // block - 1)
        first, second = outer[number], inner[k - number * block]
        got = (first[0] + 1j * first[1]) * (second[0] + 1j * second[1])
        wanted = np.exp(-2j * np.pi * k * np.arange(n2) / (n1 * n2))
        np.testing.assert_allclose(got, wanted, atol=1e-14)


@pytest.mark.parametrize("n", [17, 97, 202])
def test_the_spectrum_is_that_of_the_chirp(n: int) -> None:
    m = 2 * n + 6
    parts = np.frombuffer(chirp(n, 8, in_pairs=True)).reshape(-1, 2)
    signal = np.zeros(m, complex)
    signal[:n] = (parts[:, 0] + 1j * parts[:, 1]).conj()
    signal[-n + 1 :] = signal[n - 1 : 0 : -1]
    spectrum = np.frombuffer(chirp_spectrum(n, m, 8, in_pairs=False)).reshape(2, m)
    np.testing.assert_allclose(spectrum[0] + 1j * spectrum[1], np.fft.fft(signal) / m, atol=1e-13)


@pytest.mark.parametrize("nbytes", [4, 8])
@pytest.mark.parametrize("n1, n2", [(64, 1024), (35, 997), (1, 20001), (1, 8), (16, 0)])
def test_progressions_are_as_near_as_single_roots(n1: int, n2: int, nbytes: int) -> None:
    """As products of two roots each, within 0.31 of a unit of the last place of 1."""
    n = max(n1 * n2, 1)
    made = np.empty((n1, 2, n2), f"<f{nbytes}")
    _progressions(np.arange(n1), n, made[:, 0], made[:, 1])
    exact = _wide_roots(np.outer(np.arange(n1), np.arange(n2)), n, 16)
    for part, wanted in enumerate((exact.real, exact.imag)):
        error = np.abs(made[:, part] - wanted).max(initial=0)
        assert error <= 0.31 * np.finfo(made.dtype).eps
        whole = np.abs(wanted) < 1e-19
        assert not made[:, part][whole].any()


@pytest.mark.parametrize("n", [1, 2, 9, 10, 997, 40001])
def test_half_of_a_chirp_mirrors_the_other(n: int) -> None:
    k = np.arange(n)
    wanted = np.stack(roots(k**2, 2 * n, 8))
    np.testing.assert_array_equal(np.frombuffer(chirp(n, 8, in_pairs=False)).reshape(2, n), wanted)
