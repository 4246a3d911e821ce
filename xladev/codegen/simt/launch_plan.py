"""How the elements of a kernel's results are spread over threads: data, computed from shapes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.launch import LaunchDimensions
from xladev.hlo.shape import Shape

ACCESS_NBYTES = 16
"""Bytes of the widest load or store of one thread."""
MOST_LANES = 8
BLOCK = 256
"""Threads of a block."""


@dataclass(frozen=True, slots=True)
class Spread:
    """A range of threads for the elements of one array.

    Attributes:
        size: elements of the array.
        lanes: neighbouring elements that one thread computes.
    """

    size: int
    lanes: int

    @property
    def vectors(self) -> int:
        """Threads that compute ``lanes`` elements each."""
        return self.size // self.lanes

    @property
    def threads(self) -> int:
        """All threads: those of whole vectors, then one for each element that is left."""
        return self.vectors + self.size % self.lanes


def widest_lanes(spec: KernelSpec, size: int) -> int:
    """Elements that one thread should compute: the narrowest array's fill one access."""
    full = [s for s in (*spec.operands, *spec.results) if s.size == size]
    narrowest = min((_part_nbytes(s) for s in full), default=ACCESS_NBYTES)
    return max(1, min(ACCESS_NBYTES // narrowest, MOST_LANES, size))


def _part_nbytes(shape: Shape) -> int:
    """Bytes of one element in memory, where sub-byte types take a byte."""
    return max(1, shape.element_type.host_nbytes)


def launch_dimensions(spreads: Sequence[Spread]) -> LaunchDimensions:
    """Blocks for the largest of some arrays."""
    threads = max((s.threads for s in spreads), default=1)
    return LaunchDimensions((max(1, -(-threads // BLOCK)), 1, 1), (BLOCK, 1, 1))
