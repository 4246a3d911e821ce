"""Reductions as plans: what is reduced together, over which elements, and how that is spread."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from xladev.codegen.elemental.vectors import is_row_major
from xladev.codegen.index import Index, IndexMath, IndexValue
from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.reductions import Reduction, reduction_of
from xladev.hlo.ir import HloInstruction

BLOCKS_WANTED = 528
"""Four for each of 132 multiprocessors; fewer would leave some without work."""
MOST_IN_TURN = 512
"""Most elements that one thread reduces: rounding grows with their number."""
MOST_SPLITS = 1024
_LANES = (8, 4, 2)
_ACCESS_NBYTES = 16


@dataclass(frozen=True, slots=True)
class ReductionPlan:
    """Reduces of operands of the same dimensions, over the same of them.

    Attributes:
        reductions: how each is combined.
        numbers: which result of the kernel each of them is.
        stores: what else is computed from the same elements, with the number of its result.
        dims: of the operands, which are row-major.
        reduced: dimensions that are reduced.
    """

    reductions: tuple[Reduction, ...]
    numbers: tuple[int, ...]
    stores: tuple[tuple[HloInstruction, int], ...]
    dims: tuple[int, ...]
    reduced: tuple[int, ...]

    @property
    def kept_dims(self) -> tuple[int, ...]:
        """Dimensions of the results."""
        return tuple(n for d, n in enumerate(self.dims) if d not in self.reduced)

    @property
    def reduced_dims(self) -> tuple[int, ...]:
        """Dimensions of what becomes one element."""
        return tuple(self.dims[d] for d in sorted(self.reduced))

    @property
    def kept(self) -> int:
        """Elements of a result."""
        return prod(self.kept_dims)

    @property
    def length(self) -> int:
        """Elements that become one."""
        return prod(self.reduced_dims)

    @property
    def is_along_rows(self) -> bool:
        """True if neighbours in memory are reduced together."""
        inner = [d for d, n in enumerate(self.dims) if n != 1]
        return not inner or inner[-1] in self.reduced

    def index(self, at: IndexMath, kept: IndexValue, position: IndexValue) -> Index:
        """Coordinates of an element from the positions in what is kept and what is reduced."""
        outer = iter(at.delinear(kept, self.kept_dims))
        inner = iter(at.delinear(position, self.reduced_dims))
        return tuple(next(inner if d in self.reduced else outer) for d in range(len(self.dims)))

    def lanes(self) -> Iterator[int]:
        """Lengths of vectors to try, longest first: they fill 16 bytes of the narrowest operand."""
        nbytes = min(_operand_nbytes(reduction.reduce) for reduction in self.reductions)
        dims = self.reduced_dims if self.is_along_rows else self.kept_dims
        inner = next((n for n in reversed(dims) if n != 1), 1)
        for lanes in _LANES:
            if lanes * nbytes <= _ACCESS_NBYTES and inner % lanes == 0:
                yield lanes


def _operand_nbytes(reduce: HloInstruction) -> int:
    return max(1, reduce.operands[0].shape.element_type.host_nbytes)


def reduction_plan(spec: KernelSpec) -> ReductionPlan | None:
    """The plan of a kernel of reduces, or of reduces and elementwise results; None of others."""
    root = spec.computation.root
    roots = root.operands if root.opcode == "tuple" else (root,)
    reduces = [i for i in roots if i.opcode == "reduce"]
    if not reduces or not reduces[0].shape.is_array or not reduces[0].operands[0].shape.size:
        return None
    dims, reduced = reduces[0].operands[0].shape.dims, tuple(sorted(reduces[0]["dimensions"]))
    reductions = [reduction_of(i) for i in reduces]
    if not all(is_reducible(i, dims, reduced) for i in reduces):
        return None
    stores = tuple((i, n) for n, i in enumerate(roots) if i.opcode != "reduce")
    if any(i.shape.dims != dims or not is_row_major(i.shape) for i, _ in stores):
        return None
    numbers = tuple(n for n, i in enumerate(roots) if i.opcode == "reduce")
    return ReductionPlan(
        tuple(f for f in reductions if f is not None), numbers, stores, dims, reduced
    )


def is_reducible(i: HloInstruction, dims: Sequence[int], reduced: Sequence[int]) -> bool:
    """True for a reduce of such an array over such dimensions that may go in any order."""
    if reduction_of(i) is None or not i.shape.is_array:
        return False
    operand = i.operands[0].shape
    same = operand.dims == tuple(dims) and tuple(sorted(i["dimensions"])) == tuple(reduced)
    return same and is_row_major(operand) and is_row_major(i.shape)


def splits_of(length: int, groups: int, threads: int) -> int:
    """Parts into which what becomes one element is cut, so that all of a device has work.

    Args:
        length: elements that become one.
        groups: blocks, or their equivalent, without any cut.
        threads: that reduce one part.
    """
    for_work = min(-(-BLOCKS_WANTED // max(groups, 1)), length // (16 * threads))
    for_digits = -(-length // (MOST_IN_TURN * threads))
    return max(1, min(max(for_work, for_digits), MOST_SPLITS))
