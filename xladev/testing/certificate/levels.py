"""The levels of a certificate: the contract's tiers, each with a floor of device coverage."""

from __future__ import annotations

from dataclasses import dataclass

from xladev.errors import UsageError
from xladev.runtime.plugins.tiers import TIERS

_FLOORS = {1: (0.0, 0.0), 2: (0.01, 0.01), 3: (0.05, 0.10), 4: (0.10, 0.25), 5: (0.25, 0.50)}
"""Level -> least share of programs and of floating-point work; the last one holds above it."""


@dataclass(frozen=True, slots=True)
class CertificateLevel:
    """One level: every case of its tier and of those below must pass.

    Attributes:
        number: 1 to 6.
        name: as the tier is called.
        least_programs: share of the suite's programs that must run on the device alone.
        least_work: share of their floating-point operations that must run on the device.
    """

    number: int
    name: str
    least_programs: float
    least_work: float


def _level(number: int, name: str) -> CertificateLevel:
    return CertificateLevel(number, name, *_FLOORS[min(number, max(_FLOORS))])


LEVELS: tuple[CertificateLevel, ...] = tuple(_level(t.number, t.name) for t in TIERS)
"""All levels, lowest first."""


def level_of(number: int) -> CertificateLevel:
    """The level of a number.

    Raises:
        UsageError: there is none.
    """
    if not 1 <= number <= len(LEVELS):
        raise UsageError(
            f"there is no level {number}",
            why=", ".join(f"{level.number} is {level.name}" for level in LEVELS),
        )
    return LEVELS[number - 1]
