"""fft as products of matrices, against NumPy's through the direct definition."""

import numpy as np
import pytest

from tests.unit.passes.expansions.single import assert_near, expanded
from xladev.hlo.text import parse_module
from xladev.passes.expansions.fft import LONGEST, expand_fft, factors, powers

LENGTHS = [1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 30, 61, 64, 67, 100, 128, 134, 402, 1000, 1024]


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize(("full", "real"), [("c64", "f32"), ("c128", "f64")])
def test_one_dimension(full: str, real: str, n: int, seed: int) -> None:
    h = n // 2 + 1
    tail = f"fft_length={{{n}}}"
    assert_near(f"r = {full}[2,{n}] fft({full}[2,{n}] x), fft_type=FFT, {tail}", seed)
    assert_near(f"r = {full}[2,{n}] fft({full}[2,{n}] x), fft_type=IFFT, {tail}", seed)
    assert_near(f"r = {full}[2,{h}] fft({real}[2,{n}] x), fft_type=RFFT, {tail}", seed)
    assert_near(f"r = {real}[2,{n}] fft({full}[2,{h}] x), fft_type=IRFFT, {tail}", seed)


@pytest.mark.parametrize(
    "text",
    [
        "r = c64[2,6,5,8] fft(c64[2,6,5,8] x), fft_type=FFT, fft_length={6,5,8}",
        "r = c64[2,6,5,8] fft(c64[2,6,5,8] x), fft_type=IFFT, fft_length={5,8}",
        "r = c64[2,6,5,5] fft(f32[2,6,5,8] x), fft_type=RFFT, fft_length={6,5,8}",
        "r = f32[2,6,5,7] fft(c64[2,6,5,4] x), fft_type=IRFFT, fft_length={6,5,7}",
        "r = c64[0,6] fft(c64[0,6] x), fft_type=FFT, fft_length={6}",
    ],
)
def test_more_dimensions(text: str, seed: int) -> None:
    assert_near(text, seed)


def test_large_primes_have_no_factors() -> None:
    assert factors(2 * 67) is None
    assert factors(61 * 64) == (16, 4, 61)


def test_the_number_of_instructions_grows_with_the_logarithm() -> None:
    text = "r = c64[65536] fft(c64[65536] x), fft_type=FFT, fft_length={65536}"
    assert len(expanded(parse_module(text)).instructions) < 150


def test_tables_are_bounded() -> None:
    for length in (LONGEST + 1, 1 << 36):
        text = f"r = c64[{length}] fft(c64[{length}] x), fft_type=FFT, fft_length={{{length}}}"
        assert expand_fft(parse_module(text).entry.root) is None


@pytest.mark.parametrize("n", [1, 2, 3, 8, 17, 61, 97])
def test_roots_of_unity_are_within_an_ulp(n: int) -> None:
    """Against a type with more digits where NumPy has one."""
    exponents = np.arange(3 * n)
    two_pi = np.longdouble("6.28318530717958647692528676655900577")
    angles = two_pi * (exponents % n) / n
    for sign in (1, -1):
        found = powers(exponents, n, sign)
        assert np.abs(found.real - np.cos(angles)).max() < 2e-16
        assert np.abs(found.imag - sign * np.sin(angles)).max() < 2e-16
