"""Short transforms of values in registers.

Lengths without common factors are combined by Good's numbering, which needs no multiplication;
others by that of Cooley and Tukey, with roots of unity between. Odd primes add and subtract what is
symmetric first, which halves the products.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from math import cos, gcd, pi, sin, sqrt
from types import MappingProxyType

from xladev.codegen.llvm import FunctionBuilder
from xladev.platforms.cpu.codegen.fourier.kinds import Complex, times

RADICES = (2, 3, 4, 5, 7, 8, 9, 11, 13, 16)
"""Lengths of the transforms that long ones are made of."""
LONGEST_CODELET = 16
"""All lengths up to this have a codelet."""

Get = Callable[[int], Complex]
"""Element number j, read when it is wanted."""
Outputs = Iterator[tuple[int, Complex]]
"""Numbers of results and results, as soon as they are known."""

_SPLITS: Mapping[int, int] = MappingProxyType(
    {4: 2, 6: 2, 8: 2, 9: 3, 10: 2, 12: 3, 14: 2, 15: 3, 16: 4}
)


def transform(b: FunctionBuilder, n: int, get: Get) -> Outputs:
    """``X[k] = sum x[j] exp(-2 pi i j k / n)``."""
    if n == 1:
        return iter([(0, get(0))])
    if n == 2:
        return _two(b, get)
    if n not in _SPLITS:
        return _prime(b, n, get)
    first = _SPLITS[n]
    if gcd(first, n // first) == 1:
        return _coprime(b, first, n // first, get)
    return _mixed(b, first, n // first, get)


def _two(b: FunctionBuilder, get: Get) -> Outputs:
    x, y = get(0), get(1)
    yield 0, add(b, x, y)
    yield 1, subtract(b, x, y)


def _coprime(b: FunctionBuilder, n1: int, n2: int, get: Get) -> Outputs:
    """Element ``(n2 j1 + n1 j2) mod n``, result by its remainders."""
    n = n1 * n2
    held: dict[tuple[int, int], Complex] = {}
    for j1 in range(n1):
        for k2, value in transform(b, n2, lambda j2, j1=j1: get((n2 * j1 + n1 * j2) % n)):  # type: ignore[misc]
            held[j1, k2] = value
    for k2 in range(n2):
        for k1, value in transform(b, n1, lambda j1, k2=k2: held[j1, k2]):  # type: ignore[misc]
            yield _by_remainders(n1, n2, k1, k2), value


@cache
def _by_remainders(n1: int, n2: int, k1: int, k2: int) -> int:
    return next(k for k in range(n1 * n2) if k % n1 == k1 and k % n2 == k2)


def _mixed(b: FunctionBuilder, n1: int, n2: int, get: Get) -> Outputs:
    """Element ``n1 j2 + j1``, result ``k2 + n2 k1``."""
    held: dict[tuple[int, int], Complex] = {}
    for j1 in range(n1):
        for k2, value in transform(b, n2, lambda j2, j1=j1: get(n1 * j2 + j1)):  # type: ignore[misc]
            held[j1, k2] = turned(b, value, j1 * k2, n1 * n2)
    for k2 in range(n2):
        for k1, value in transform(b, n1, lambda j1, k2=k2: held[j1, k2]):  # type: ignore[misc]
            yield k2 + n2 * k1, value


def _prime(b: FunctionBuilder, n: int, get: Get) -> Outputs:
    first, half = get(0), n // 2
    sums: list[Complex] = []
    differences: list[Complex] = []
    for j in range(1, half + 1):
        x, y = get(j), get(n - j)
        sums.append(add(b, x, y))
        differences.append(subtract(b, x, y))
    total = first
    for s in sums:
        total = add(b, total, s)
    yield 0, total
    for k in range(1, half + 1):
        even, odd = _even(b, n, k, first, sums), _odd(b, n, k, differences)
        yield k, (b.fadd(even[0], odd[1]), b.fsub(even[1], odd[0]))
        yield n - k, (b.fsub(even[0], odd[1]), b.fadd(even[1], odd[0]))


def _even(b: FunctionBuilder, n: int, k: int, first: Complex, sums: list[Complex]) -> Complex:
    """``x[0] + sum s[j] cos(2 pi j k / n)``."""
    real, imaginary = first
    for j, s in enumerate(sums, 1):
        factor = b.const(real.type, root(j * k, n)[0])
        real, imaginary = (
            b.multiply_add(s[0], factor, real),
            b.multiply_add(s[1], factor, imaginary),
        )
    return real, imaginary


def _odd(b: FunctionBuilder, n: int, k: int, differences: list[Complex]) -> Complex:
    """``sum d[j] sin(2 pi j k / n)``."""
    made: Complex | None = None
    for j, d in enumerate(differences, 1):
        factor = b.const(d[0].type, -root(j * k, n)[1])
        if made is None:
            made = b.fmul(d[0], factor), b.fmul(d[1], factor)
        else:
            made = b.multiply_add(d[0], factor, made[0]), b.multiply_add(d[1], factor, made[1])
    assert made is not None
    return made


def add(b: FunctionBuilder, x: Complex, y: Complex) -> Complex:
    """Sum."""
    return b.fadd(x[0], y[0]), b.fadd(x[1], y[1])


def subtract(b: FunctionBuilder, x: Complex, y: Complex) -> Complex:
    """Difference."""
    return b.fsub(x[0], y[0]), b.fsub(x[1], y[1])


def root(k: int, n: int) -> tuple[float, float]:
    """``exp(-2 pi i k / n)``, exact at quarters of a turn; an eighth of a turn at most is taken."""
    k %= n
    quarters = (8 * k + n) // (2 * n)
    angle = pi / 2 * ((4 * k - quarters * n) / n)
    c, s = cos(angle), sin(angle)
    return ((c, -s), (-s, -c), (-c, s), (s, c))[quarters % 4]


def turned(b: FunctionBuilder, x: Complex, k: int, n: int) -> Complex:
    """``x exp(-2 pi i k / n)``, with fewer products for eighths of a turn."""
    eighths, rest = divmod(8 * (k % n), n)
    if rest:
        c, s = root(k, n)
        return times(b, x, (b.const(x[0].type, c), b.const(x[0].type, s)))
    quarters, is_odd = divmod(eighths, 2)
    if is_odd:
        half = b.const(x[0].type, sqrt(0.5))
        x = b.fmul(b.fadd(x[0], x[1]), half), b.fmul(b.fsub(x[1], x[0]), half)
    return quarter_turned(b, x, quarters)


def quarter_turned(b: FunctionBuilder, x: Complex, quarters: int) -> Complex:
    """``x (-i)^quarters``; signs become part of the sums that follow."""
    real, imaginary = x
    if quarters % 4 == 0:
        return x
    if quarters % 4 == 1:
        return imaginary, b.fneg(real)
    if quarters % 4 == 2:
        return b.fneg(real), b.fneg(imaginary)
    return b.fneg(imaginary), real
