"""What decides how kernels are spread over the threads of a device."""

from __future__ import annotations

from dataclasses import dataclass

from xladev.errors import ArgumentError

SUBGROUPS = (16, 32, 64)
"""Numbers of threads that kernels are written for: a block's sub-groups reduce once more in one."""


@dataclass(frozen=True, slots=True)
class SimtMachine:
    """A device whose threads run in blocks.

    Attributes:
        subgroup: threads that exchange values without shared memory, and wait for each other
            without barriers to do so: a warp, a wave, a SIMD group; one of `SUBGROUPS`.
        shared_nbytes: static shared memory that a block may have.
        atomic_bits: widths of integers in memory that are combined in one step.

    Raises:
        ArgumentError: sub-groups of another size.
    """

    subgroup: int = 32
    shared_nbytes: int = 48 << 10
    atomic_bits: tuple[int, ...] = (32, 64)

    def __post_init__(self) -> None:
        if self.subgroup not in SUBGROUPS:
            raise ArgumentError(
                f"sub-groups of {self.subgroup} threads",
                why=f"kernels are written for {', '.join(map(str, SUBGROUPS))}",
                hint="many devices run several sizes: choose one of these where kernels are made",
            )
