"""Right operands of products that a kernel computes itself, from weights of fewer bits.

The kernel has the weights as they are in memory, and what makes numbers of them: conversions,
scales, zero points, pieces of bytes. Such a right operand never is in memory as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass

from xladev.codegen.elemental.pieces import MOST_PIECES, WORD_NBITS
from xladev.codegen.elemental.vectors import VectorEmitter
from xladev.codegen.index import Index, IndexMath, IndexValue
from xladev.codegen.llvm import Value
from xladev.codegen.matrices import Matrices, matrices_by_shape
from xladev.codegen.scalar.convert import emit_convert
from xladev.codegen.scalar.elements import Element, real_of
from xladev.hlo import dtype as dt
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.ir import HloInstruction
from xladev.hlo.ops.contraction_rules import DotDims
from xladev.platforms.cpu.codegen.build import KernelBuild
from xladev.platforms.cpu.codegen.products.dot import LEAST_COLUMNS, LEAST_PRODUCTS
from xladev.platforms.cpu.codegen.products.kinds import ProductKind
from xladev.platforms.cpu.codegen.products.panels import panels_of

TYPES = frozenset({dt.F32, dt.F64, dt.BF16, dt.F16})
"""Types of the numbers."""
MOST_ROWS_OF_HALVES = 6
"""Rows up to which columns of 16 bits are read as they are; more are faster in panels."""


@dataclass(frozen=True, slots=True)
class NarrowWeights:
    """A dot whose right operand its kernel computes.

    Attributes:
        dot: the instruction.
        matrices: its operands and its result as matrices; the right one as it would be in memory.
        batch: sizes of the batch dimensions.
        kept: type of the result.
    """

    dot: HloInstruction
    matrices: Matrices
    batch: tuple[int, ...]
    kept: PrimitiveType

    @property
    def is_along_depth(self) -> bool:
        """True if neighbours in memory belong to one column, and are summed."""
        return self.matrices.right.free != 1

    def kind(self, k: KernelBuild) -> ProductKind:
        """Types and vectors."""
        left, right = (o.shape.element_type for o in self.dot.operands[:2])
        return ProductKind.of(k.b.module.target, left, right, self.matrices.total)


def narrow_weights_of(i: HloInstruction) -> NarrowWeights | None:
    """How a kernel computes the right operand of its dot; None if that is in memory.

    Few rows times columns of 16 bits that are neighbours in memory are the same: each number is
    made wider as it is read, and no panel is packed.
    """
    if i.opcode != "dot" or len(i.operands) != 2 or i.operands[0].opcode != "parameter":
        return None
    if panels_of(i) is not None:  # in memory, as blocks read it
        return None
    found = narrow_weights_by_shape(i)
    if i.operands[1].opcode != "parameter" or found is None:
        return found
    is_half = i.operands[1].shape.element_type in (dt.BF16, dt.F16)
    is_wider = is_half and found.matrices.total is dt.F32 and not found.is_along_depth
    return found if is_wider and found.matrices.left.extent <= MOST_ROWS_OF_HALVES else None


def narrow_weights_by_shape(i: HloInstruction) -> NarrowWeights | None:
    """The same, for a dot that is part of no kernel yet."""
    found = matrices_by_shape(i)
    if found is None or any(o.shape.element_type not in TYPES for o in (i, *i.operands)):
        return None
    total, left, right, result = found
    if result.column != 1 or 1 not in (right.free, right.step) or not total.is_float:
        return None
    size = left.extent * right.extent * left.depth
    if right.extent < LEAST_COLUMNS or size < LEAST_PRODUCTS:
        return None
    batch = i.shape.dims[: len(i["lhs_batch_dims"])]
    return NarrowWeights(i, found, batch, i.shape.element_type)


def pieces_of(plan: NarrowWeights) -> list[int]:
    """Modulo what lanes may be in order so that pieces of elements need not be laid side by side.

    Pieces, such as numbers of 4 bits, that fill a word, or one element; then 1.
    """
    found, seen, waiting = {1}, set[HloInstruction](), [plan.dot.operands[1]]
    while waiting:
        value = waiting.pop()
        if value in seen or value.opcode == "parameter":
            continue
        seen.add(value)
        waiting += value.operands
        if value.opcode == "reshape" and value.shape.rank and value.operands[0].shape.rank:
            ours, theirs = value.shape.dims[-1], value.operands[0].shape.dims[-1]
            if ours > theirs and 2 <= theirs <= MOST_PIECES and not theirs & (theirs - 1):
                found.add(theirs)
        bits = value.shape.element_type.bits if value.opcode == "bitcast-convert" else 0
        if 0 < bits < 8 and WORD_NBITS // bits <= MOST_PIECES and not plan.is_along_depth:
            found.add(WORD_NBITS // bits)
    return sorted(found, reverse=True)


class Weights:
    """Elements of the right operand, by batch index, depth and column.

    Args:
        k: the kernel.
        plan: of its dot.
        lanes: length of vectors.
        pieces: lanes are in the order of their numbers modulo this.
        emitter: of the vectors, if it is a special one.
    """

    def __init__(
        self,
        k: KernelBuild,
        plan: NarrowWeights,
        lanes: int,
        pieces: int = 1,
        emitter: VectorEmitter | None = None,
    ) -> None:
        self.e, self._single, self._plan = emitter or VectorEmitter(k.e, lanes), k.e, plan
        self.e.pieces = pieces

    def one(self, batch: Index, depth: IndexValue, column: IndexValue) -> Element:
        """One element, in the operand's own type."""
        index = self.index(self._single.at, batch, depth, column)
        return self._single.element(self._plan.dot.operands[1], index)

    def vector(self, batch: Index, depth: IndexValue, column: IndexValue) -> Element:
        """Neighbours along the coordinate that was declared to move.

        Raises:
            NotInVectorsError: they are no neighbours where they come from.
        """
        index = self.index(self.e.at, batch, depth, column)
        return self.e.element(self._plan.dot.operands[1], index)

    def summed(self, element: Element, kind: ProductKind) -> Value:
        """An element in the type of the sums."""
        if kind.right is not kind.total:
            element = emit_convert(self.e.b, element, kind.right, kind.total)
        return real_of(element, "a product")

    def index(self, at: IndexMath, batch: Index, depth: IndexValue, column: IndexValue) -> Index:
        """Where an element of the operand is."""
        dot = self._plan.dot
        shape, dims = dot.operands[1].shape, DotDims.of(dot)
        found: list[IndexValue] = [0] * shape.rank
        free = dims.rhs_free(shape.rank)
        for axes, index in (
            (dims.rhs_batch, batch),
            (dims.rhs_contracting, self._spread(at, depth, dims.rhs_contracting)),
            (free, self._spread(at, column, free)),
        ):
            for axis, x in zip(axes, index, strict=True):
                found[axis] = x
        return tuple(found)

    def _spread(self, at: IndexMath, x: IndexValue, axes: tuple[int, ...]) -> Index:
        return at.delinear(x, [self._plan.dot.operands[1].shape.dims[d] for d in axes])
