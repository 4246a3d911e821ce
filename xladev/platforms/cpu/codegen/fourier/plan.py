"""How a length is divided into radices: the cheapest order, by what passes cost."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from xladev.platforms.cpu.codegen.fourier.codelets import LONGEST_CODELET, RADICES

_ARITHMETIC: Mapping[int, int] = MappingProxyType({
    2: 4, 3: 16, 4: 16, 5: 36, 7: 72, 8: 56, 9: 92, 11: 170, 13: 236, 16: 190,
})  # fmt: skip
"""Instructions of a codelet, and what it costs to keep values for which there is no register."""
_MOVED = 8
"""What it costs to read and write a number and to turn it."""
_LAID = 6
"""The same of laying it among others, in the first pass along a row."""
_EFFICIENT_LANES = 8
"""Longer vectors are not faster, by number, in loops that are this short."""
_MANY = 64
"""So many neighbours fill vectors."""
_CANDIDATES = 16
"""Lengths of convolutions that are compared, from the shortest on."""

LARGEST_PRIME = 13
"""Lengths with a larger prime factor are made convolutions."""


def prime_factors(n: int) -> tuple[int, ...]:
    """The prime factors of n, the smallest first."""
    found: list[int] = []
    divisor = 2
    while divisor * divisor <= n:
        while n % divisor == 0:
            found.append(divisor)
            n //= divisor
        divisor += 1
    return (*found, n) if n > 1 else tuple(found)


def is_direct(n: int) -> bool:
    """True if n is a product of radices."""
    return n == 1 or prime_factors(n)[-1] <= LARGEST_PRIME


@cache
def convolution_length(n: int) -> int:
    """Of the transforms that make one of n points (Bluestein): the cheapest, 2 n - 1 at least."""
    least = 2 * n - 1
    return min(_smooth_lengths(least)[:_CANDIDATES], key=lambda m: (_best(m, 1)[0], m))


@cache
def _smooth_lengths(least: int) -> tuple[int, ...]:
    """Products of small primes from ``least`` to the next power of two, multiples of 8."""
    most = 1 << (least - 1).bit_length()
    found: list[int] = []
    odds = [3**i * 5**j * 7**k for i in range(8) for j in range(6) for k in range(3)]
    for odd in odds:
        m = odd
        while m < least:
            m *= 2
        if m <= most and m % 8 == 0:
            found.append(m)
    return tuple(sorted(found))


def row_radices(n: int) -> tuple[int, ...]:
    """Of a transform along memory, the first pass first; n is a product of radices."""
    if n <= LONGEST_CODELET:
        return (n,)
    return _best(n, 1)[1]


def column_radices(n: int) -> tuple[int, ...]:
    """Of transforms of many columns at once."""
    return _best(n, _MANY)[1] or (1,)


@cache
def _best(n: int, done: int) -> tuple[float, tuple[int, ...]]:
    """The least cost of what is left, n points for each of ``done`` that are neighbours."""
    if n == 1:
        return 0.0, ()
    costs: list[tuple[float, tuple[int, ...]]] = []
    for radix in RADICES:
        if n % radix == 0:
            following = done * radix
            rest, radices = _best(n // radix, following if following < _MANY else _MANY)
            costs.append((_cost(n, radix, done) + rest, (radix, *radices)))
    return min(costs)


def _cost(n: int, radix: int, done: int) -> float:
    """Of a pass over n points, and ``done`` times as many."""
    return n * _cost_of_one(radix, n // radix if done == 1 else done, done == 1)


@cache
def _cost_of_one(radix: int, extent: int, is_first: bool) -> float:
    """The same of one point, where so many numbers are neighbours."""
    each = _ARITHMETIC[radix] / radix + _MOVED
    if is_first:
        each += _LAID * radix.bit_length() / 4 + (radix / 2 if radix & (radix - 1) else 0)
    lanes = min(_EFFICIENT_LANES, 1 << (extent.bit_length() - 1))
    waste = -(-extent // lanes) * lanes / extent
    return each * waste * _EFFICIENT_LANES / lanes
