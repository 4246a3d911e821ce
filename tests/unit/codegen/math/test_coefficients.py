"""Each table of coefficients, derived again from the function that its docstring names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from mpmath import mp, mpf

from xladev.codegen.math import argument_reduction, coefficients

Function = Callable[[Any], Any]


def interpolate(f: Function, low: Any, high: Any, count: int) -> list[float]:
    """Monomial coefficients of the polynomial through f at the Chebyshev nodes of an interval."""
    middle, half = (low + high) / 2, (high - low) / 2
    nodes = [middle + half * mp.cos(mp.pi * (2 * j + 1) / (2 * count)) for j in range(count)]
    differences = [f(x if abs(x) > mpf(10) ** -30 else mpf(10) ** -30) for x in nodes]
    for k in range(1, count):
        for j in range(count - 1, k - 1, -1):
            rise = differences[j] - differences[j - 1]
            differences[j] = rise / (nodes[j] - nodes[j - k])
    monomials = [mpf(0)] * count
    for j in range(count - 1, -1, -1):
        shifted = [mpf(0), *monomials[:-1]]
        monomials = [s - nodes[j] * m for s, m in zip(shifted, monomials, strict=True)]
        monomials[0] += differences[j]
    return [float(c) for c in monomials]


def in_square(f: Function) -> Function:
    """A function of z = r**2."""
    return lambda z: f(mp.sqrt(z), z)


def erfcx(t: Any) -> Any:
    x = mpf("2.5") * (1 + t) / (1 - t)
    return mp.exp(x * x) * mp.erfc(x) * (1 + 2 * x)


SLACK = mpf("1.0001")
with mp.workdps(150):
    _half_log2 = mp.log(2) / 2 * SLACK
    _atanh_square = ((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)) ** 2 * SLACK
    _TABLES: dict[str, tuple[Function, Any, Any]] = {
        "EXP": (lambda r: (mp.exp(r) - 1 - r) / r**2, -_half_log2, _half_log2),
        "EXP_IN": (lambda r: (mp.exp(r) - 1 - r) / r**2, -_half_log2, _half_log2),
        "EXP_SHORT": (lambda r: (mp.exp(r) - 1 - r) / r**2, -_half_log2, _half_log2),
        "EXP2": (lambda r: (mpf(2) ** r - 1) / r, -mpf("0.50001"), mpf("0.50001")),
        "LOG": (
            in_square(lambda s, z: (mp.log((1 + s) / (1 - s)) / s - 2) / z),
            mpf(10) ** -30,
            _atanh_square,
        ),
        "LOG_IN": (
            lambda f: (mp.log(1 + f) - f + f * f / 2) / f**3,
            mp.sqrt(mpf(1) / 2) - 1 - mpf("1e-6"),
            mp.sqrt(2) - 1 + mpf("1e-6"),
        ),
        "ATANH_TAIL": (
            in_square(lambda s, z: (mp.atanh(s) / s - 1 - z / 3 - z * z / 5) / z**3),
            mpf(10) ** -18,
            _atanh_square,
        ),
        "SIN": (
            in_square(lambda r, z: (mp.sin(r) / r - 1) / z),
            mpf(10) ** -30,
            (mp.pi / 4) ** 2 * SLACK,
        ),
        "COS": (
            in_square(lambda r, z: (mp.cos(r) - 1 + z / 2) / z**2),
            mpf(10) ** -20,
            (mp.pi / 4) ** 2 * SLACK,
        ),
        "SIN_IN": (
            in_square(lambda r, z: (mp.sin(r) / r - 1) / z),
            mpf(10) ** -30,
            (mp.pi / 4) ** 2 * SLACK,
        ),
        "COS_IN": (
            in_square(lambda r, z: (mp.cos(r) - 1 + z / 2) / z**2),
            mpf(10) ** -20,
            (mp.pi / 4) ** 2 * SLACK,
        ),
        "TANH_IN": (
            in_square(lambda r, z: (mp.tanh(r) / r - 1) / z),
            mpf(10) ** -30,
            mpf("0.625") ** 2 * SLACK,
        ),
        "ASIN": (
            in_square(lambda r, z: (mp.asin(r) / r - 1) / z),
            mpf(10) ** -30,
            mpf("0.250001"),
        ),
        "ATAN": (
            in_square(lambda r, z: (mp.atan(r) / r - 1) / z),
            mpf(10) ** -30,
            (mp.sqrt(2) - 1) ** 2 * SLACK,
        ),
        "SINH": (in_square(lambda r, z: (mp.sinh(r) / r - 1) / z), mpf(10) ** -30, SLACK),
        "ERF": (in_square(lambda r, z: mp.erf(r) / r), mpf(10) ** -30, SLACK),
        "ERF_IN": (in_square(lambda r, z: mp.erf(r) / r), mpf(10) ** -30, SLACK),
        "LOG_ERFC_IN": (
            lambda u: mp.log(mp.erfc(u + mpf("2.5"))),
            -mpf("1.5") * SLACK,
            mpf("1.5") * SLACK,
        ),
        "ERFCX": (erfcx, -mpf(3) / 7, mpf(7) / 17),
        "CBRT": (mp.cbrt, mpf(1), mpf(8)),
    }

_NAMES = [n for n in vars(coefficients) if n.endswith(("_F32", "_F64"))]


def test_every_table_is_derived_here() -> None:
    assert {name.rpartition("_")[0] for name in _NAMES} == set(_TABLES)


@pytest.mark.parametrize("name", _NAMES)
def test_table_interpolates_its_function(name: str) -> None:
    have = getattr(coefficients, name)
    with mp.workdps(150):
        want = interpolate(*_TABLES[name.rpartition("_")[0]], len(have))
    assert list(have) == pytest.approx(want, rel=1e-12, abs=0)


def test_split_constants_sum_to_the_exact_value() -> None:
    with mp.workdps(60):
        parts = {
            (coefficients.LN2_HIGH, coefficients.LN2_LOW): mp.log(2),
            (coefficients.LN2, coefficients.LN2_REST): mp.log(2),
            coefficients.HALF_PI: mp.pi / 2,
            coefficients.PI: mp.pi,
            coefficients.THIRD: mpf(1) / 3,
        }
        for pieces, value in parts.items():
            left = abs(sum(mpf(p) for p in pieces) - value)
            assert left < abs(mpf(pieces[-1])) * mpf(2) ** -52
        assert int(coefficients.LN2_HIGH * 2.0**42) == coefficients.LN2_HIGH * 2.0**42


def test_bits_of_two_over_pi() -> None:
    words = argument_reduction._TWO_OVER_PI_BITS
    with mp.workprec(64 * 30):
        fraction = int(mp.floor(2 / mp.pi * mpf(2) ** (64 * (len(words) - 1))))
    total = 0
    for word in words:
        total = total << 64 | word
    assert total == fraction
