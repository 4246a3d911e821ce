"""What an attention is: ``dot(softmax(f(dot(q, k))), v)``, and where its parts are.

f is whatever elementwise instructions there are between: scales, biases, masks. How it is found in
a program, `attention_search` says.
"""

from __future__ import annotations

from dataclasses import dataclass

from xladev.codegen.matrices import Side
from xladev.codegen.softmax import Softmax
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.expense import INSTRUCTION
from xladev.hlo.ir import HloInstruction
from xladev.hlo.shape import Shape


@dataclass(frozen=True, slots=True)
class Values:
    """The last product, by strides in elements.

    Attributes:
        matrix: the values, of keys (summed over) by columns.
        number: which operand of the product they are.
        result: strides of the root along the batch, queries and columns.
    """

    matrix: Side
    number: int
    result: tuple[tuple[int, ...], int, int]


@dataclass(frozen=True, slots=True)
class Attention:
    """The parts of an attention.

    Attributes:
        root: what the kernel gives: the last product, or a transpose of it.
        last: the last product.
        product: of queries and keys.
        softmax: between the two.
        factor: what scores are the product times; None if there is more between the two.
        queries, keys: the product's operands; strides in elements, 0 along what they have not.
        number: which operand of the product the queries are.
        values: the other operand of the last product, and its result.
        batch: sizes of what is computed alike: batch, heads, groups of heads.
        score_axes: for each dimension of the scores, the axes that it goes through, the first
            slowest: numbers into (batch..., queries, keys).
        within: instructions that must be in the kernel.
    """

    root: HloInstruction
    last: HloInstruction
    product: HloInstruction
    softmax: Softmax
    factor: float | None
    queries: Side
    keys: Side
    number: int
    values: Values
    batch: tuple[int, ...]
    score_axes: tuple[tuple[int, ...], ...]
    within: frozenset[HloInstruction]

    @property
    def scores(self) -> HloInstruction:
        """What the softmax is of."""
        return self.softmax.scores

    @property
    def rows(self) -> int:
        """Number of queries, for each index of the batch."""
        return self.queries.extent

    @property
    def columns(self) -> int:
        """Number of keys."""
        return self.keys.extent

    @property
    def depth(self) -> int:
        """Elements of a query, and of a key."""
        return self.queries.depth

    @property
    def width(self) -> int:
        """Elements of a value."""
        return self.values.matrix.extent

    @property
    def operands(self) -> tuple[HloInstruction, HloInstruction, HloInstruction]:
        """Queries, keys and values."""
        pair = self.product.operands
        return pair[self.number], pair[1 - self.number], self.last.operands[self.values.number]

    @property
    def weights(self) -> HloInstruction:
        """What values are multiplied by."""
        return self.last.operands[1 - self.values.number]

    def types(self) -> frozenset[PrimitiveType]:
        """Types of floats in it: of operands, products, scores, weights and result."""
        parts = (*self.operands, *self.within)
        return frozenset(t for t in (i.shape.element_type for i in parts) if t.is_float)

    def is_score(self, i: HloInstruction) -> bool:
        """True for an array with an element for each score."""
        return i.shape.is_array and i.shape.size == self.product.shape.size

    def may_compute(self, i: HloInstruction) -> bool:
        """Whether each score may compute an instruction for itself."""
        if i.opcode == "reshape":
            return _kept(i.shape) == _kept(i.operands[0].shape)
        if i.opcode == "broadcast":
            order = i["dimensions"]
            return not self.is_score(i.operands[0]) or tuple(order) == tuple(sorted(order))
        if i.op.elementwise:  # with fewer elements, each score computes what another one does too
            return self.is_score(i) or i.op.expense <= INSTRUCTION
        return i.opcode == "iota"


def _kept(shape: Shape) -> tuple[int, ...]:
    """Sizes of an array's dimensions but those of 1."""
    return tuple(d for d in shape.dims if d != 1) if shape.is_array else ()
