"""Writes the Chebyshev coefficients of special functions that torch has and HLO has not.

    python -m tests.tools.special_tables > xladev/frontends/torch/lower/special_tables.py

Each function is smooth on its interval; mpmath evaluates it at the Chebyshev nodes with 40 digits.
"""

from collections.abc import Callable
from typing import Any

import mpmath as mp

mp.mp.dps = 40
NODES = 48
SMALLEST = 1e-18


def series(function: Callable[[Any], Any], low: float, high: float) -> list[float]:
    """Coefficients of T0, T1, ... on an interval; the first is halved already."""
    half, middle = mp.mpf(high - low) / 2, mp.mpf(high + low) / 2
    angles = [mp.pi * (k + mp.mpf(1) / 2) / NODES for k in range(NODES)]
    values = [function(middle + half * mp.cos(a)) for a in angles]
    found = [
        2 * sum(v * mp.cos(j * a) for v, a in zip(values, angles, strict=True)) / NODES
        for j in range(NODES)
    ]
    found[0] /= 2
    scale = max(abs(c) for c in found)
    while abs(found[-1]) < SMALLEST * scale:
        found.pop()
    return [float(c) for c in found]


def erfcx(u: Any) -> Any:
    """exp(x^2) erfc(x) * (1 + 2 x), by u = (x - 3.75) / (x + 3.75)."""
    if u == 1:
        return 2 / mp.sqrt(mp.pi)
    x = mp.mpf("3.75") * (1 + u) / (1 - u)
    return mp.exp(x * x) * mp.erfc(x) * (1 + 2 * x)


def hankel(order: int, part: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """P or Q of the asymptotic form of Bessel functions, by (8 / x)^2; Q times x / 8."""

    def function(u: Any) -> Any:
        t = mp.sqrt(max(u, mp.mpf(10) ** -12))
        x = 8 / t
        turned = mp.exp(-1j * (x - mp.pi * (2 * order + 1) / 4))
        whole = mp.hankel1(order, x) * mp.sqrt(mp.pi * x / 2) * turned
        return part(whole) / (t if part is mp.im else 1)

    return function


def y_rest(order: int) -> Callable[[Any], Any]:
    """What is smooth in Y, by x^2."""

    def function(u: Any) -> Any:
        x = mp.sqrt(max(u, mp.mpf(10) ** -16))
        if order == 0:
            return mp.bessely(0, x) - 2 / mp.pi * mp.log(x / 2) * mp.besselj(0, x)
        inner = mp.log(x / 2) * mp.besselj(1, x) - 1 / x
        return (mp.bessely(1, x) - 2 / mp.pi * inner) / x

    return function


def k_rest(order: int) -> Callable[[Any], Any]:
    """What is smooth in K, by x^2."""

    def function(u: Any) -> Any:
        x = mp.sqrt(max(u, mp.mpf(10) ** -16))
        if order == 0:
            return mp.besselk(0, x) + mp.log(x / 2) * mp.besseli(0, x)
        return (mp.besselk(1, x) - mp.log(x / 2) * mp.besseli(1, x)) * x

    return function


def at_infinity(function: Callable[[Any], Any], scale: float) -> Callable[[Any], Any]:
    """A function of x by ``scale / x``."""
    return lambda u: function(scale / max(u, mp.mpf(10) ** -5))


def airy_large(u: Any) -> Any:
    """2 sqrt(pi) x^(1/4) exp(z) Ai(x), z = 2/3 x^(3/2), by 2 / z."""
    z = 2 / max(u, mp.mpf(10) ** -4)
    x = (z * 3 / 2) ** (mp.mpf(2) / 3)
    return 2 * mp.sqrt(mp.pi) * x ** mp.mpf("0.25") * mp.exp(z) * mp.airyai(x)


def airy_wave(part: str) -> Callable[[Any], Any]:
    """F or G of Ai(-x) = (sin(z + pi/4) F - cos(z + pi/4) G) / (sqrt(pi) x^(1/4)), by (2 / z)^2."""

    def function(u: Any) -> Any:
        t = mp.sqrt(max(u, mp.mpf(10) ** -8))
        z = 2 / t
        x = (z * 3 / 2) ** (mp.mpf(2) / 3)
        ai, bi = mp.airyai(-x), mp.airybi(-x)
        sine, cosine = mp.sin(z + mp.pi / 4), mp.cos(z + mp.pi / 4)
        factor = mp.sqrt(mp.pi) * x ** mp.mpf("0.25")
        if part == "F":
            return factor * (ai * sine + bi * cosine)
        return factor * (bi * sine - ai * cosine) / t

    return function


TABLES: dict[str, tuple[str, Callable[[Any], Any], float, float]] = {
    "ERFCX": ("exp(x^2) erfc(x) (1 + 2x), by (x - 3.75) / (x + 3.75)", erfcx, -1, 1),
    "I0E_SMALL": ("exp(-x) I0(x) on [0, 8]", lambda x: mp.exp(-x) * mp.besseli(0, x), 0, 8),
    "I0E_LARGE": (
        "exp(-x) sqrt(x) I0(x) by 8 / x",
        at_infinity(lambda x: mp.exp(-x) * mp.sqrt(x) * mp.besseli(0, x), 8),
        0,
        1,
    ),
    "I1E_SMALL": (
        "exp(-x) I1(x) / x on [0, 8]",
        lambda x: mp.exp(-x) * (mp.besseli(1, x) / x if x else mp.mpf("0.5")),
        0,
        8,
    ),
    "I1E_LARGE": (
        "exp(-x) sqrt(x) I1(x) by 8 / x",
        at_infinity(lambda x: mp.exp(-x) * mp.sqrt(x) * mp.besseli(1, x), 8),
        0,
        1,
    ),
    "K0_SMALL": ("K0(x) + log(x/2) I0(x) by x^2 on [0, 2]", k_rest(0), 0, 4),
    "K0E_LARGE": (
        "exp(x) sqrt(x) K0(x) by 2 / x",
        at_infinity(lambda x: mp.exp(x) * mp.sqrt(x) * mp.besselk(0, x), 2),
        0,
        1,
    ),
    "K1_SMALL": ("x (K1(x) - log(x/2) I1(x)) by x^2 on [0, 2]", k_rest(1), 0, 4),
    "K1E_LARGE": (
        "exp(x) sqrt(x) K1(x) by 2 / x",
        at_infinity(lambda x: mp.exp(x) * mp.sqrt(x) * mp.besselk(1, x), 2),
        0,
        1,
    ),
    "J0_SMALL": ("J0(x) by x^2 on [0, 8]", lambda u: mp.besselj(0, mp.sqrt(u)), 0, 64),
    "J1_SMALL": (
        "J1(x) / x by x^2 on [0, 8]",
        lambda u: mp.besselj(1, mp.sqrt(u)) / mp.sqrt(u),
        0,
        64,
    ),
    "Y0_SMALL": ("Y0(x) - 2/pi log(x/2) J0(x) by x^2 on [0, 8]", y_rest(0), 0, 64),
    "Y1_SMALL": ("(Y1(x) - 2/pi (log(x/2) J1(x) - 1/x)) / x by x^2 on [0, 8]", y_rest(1), 0, 64),
    "P0": ("P of J0 and Y0 by (8 / x)^2", hankel(0, mp.re), 0, 1),
    "Q0": ("Q of J0 and Y0 times x / 8 by (8 / x)^2", hankel(0, mp.im), 0, 1),
    "P1": ("P of J1 and Y1 by (8 / x)^2", hankel(1, mp.re), 0, 1),
    "Q1": ("Q of J1 and Y1 times x / 8 by (8 / x)^2", hankel(1, mp.im), 0, 1),
    "AIRY_MIDDLE": ("Ai(x) on [-3, 3]", mp.airyai, -3, 3),
    "AIRY_LARGE": ("2 sqrt(pi) x^(1/4) exp(z) Ai(x) by 2 / z, z = 2/3 x^(3/2)", airy_large, 0, 1),
    "AIRY_F": ("F of Ai(-x) by (2 / z)^2", airy_wave("F"), 0, 1),
    "AIRY_G": ("G of Ai(-x) times z / 2 by (2 / z)^2", airy_wave("G"), 0, 1),
}


def main() -> None:
    """Prints the module."""
    print('"""Chebyshev coefficients of special functions.')
    print("\nWritten by tests/tools/special_tables.py with mpmath. Do not edit.")
    print('"""\n\nfrom __future__ import annotations\n')
    print("Series = tuple[float, float, tuple[float, ...]]")
    print('"""The interval, and coefficients of T0, T1, ... on it."""')
    for name, (what, function, low, high) in TABLES.items():
        numbers = [repr(c) for c in series(function, low, high)]
        print(f"\n{name}: Series = ({float(low)}, {float(high)}, (")
        for first in range(0, len(numbers), 3):
            print(f"    {', '.join(numbers[first : first + 3])},")
        print(f'))  # fmt: skip\n"""{what}."""')


if __name__ == "__main__":
    main()
