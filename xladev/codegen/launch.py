"""How many instances of a kernel run: written by whoever writes the kernel."""

from __future__ import annotations

from dataclasses import dataclass

Dim3 = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class LaunchDimensions:
    """How many instances of a kernel run.

    Attributes:
        grid: blocks (or chunks of work) along x, y, z.
        block: threads within a block along x, y, z; all 1 on devices without threads.
        shared_nbytes: dynamic shared memory of one block, in bytes.
    """

    grid: Dim3 = (1, 1, 1)
    block: Dim3 = (1, 1, 1)
    shared_nbytes: int = 0
