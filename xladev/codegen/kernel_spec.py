"""What a kernel computes, apart from how: the input of every kernel emitter."""

from __future__ import annotations

from dataclasses import dataclass, field

from xladev.hlo.ir import HloComputation
from xladev.hlo.shape import Shape, flattened_shapes


@dataclass(frozen=True, slots=True)
class KernelSpec:
    """One kernel to generate; its buffers are its operands, then its results.

    Attributes:
        name: unique symbol of the kernel.
        computation: what it computes; each parameter is an array in memory, the root an array or
            a tuple of arrays.
        in_place: pairs (result, operand) that are the same memory; every other pair of buffers
            does not overlap.
        alignment: of every buffer, in bytes.
    """

    name: str
    computation: HloComputation
    in_place: frozenset[tuple[int, int]] = field(default_factory=frozenset)
    alignment: int = 16

    @property
    def operands(self) -> tuple[Shape, ...]:
        """Shapes, with layouts, of the arrays read."""
        return tuple(p.shape for p in self.computation.parameters)

    @property
    def results(self) -> tuple[Shape, ...]:
        """Shapes, with layouts, of the arrays written."""
        return flattened_shapes(self.computation.root.shape)
