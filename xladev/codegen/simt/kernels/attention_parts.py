"""What both kernels of attention do alike: where elements are, scores, what sums divide."""

from __future__ import annotations

from xladev.codegen.attention import Attention
from xladev.codegen.elemental.emitter import ElementalEmitter
from xladev.codegen.index import Index, IndexMath, IndexValue
from xladev.codegen.llvm import FunctionBuilder, Value
from xladev.codegen.matrices import Side
from xladev.codegen.scalar.elements import Element, real_of
from xladev.codegen.scalar.storage import round_to
from xladev.hlo.ir import HloInstruction


def operand_offset(
    at: IndexMath, side: Side, batch: Index, free: IndexValue, summed: IndexValue
) -> Value:
    """Elements from the first of an operand to one of a row, in a matrix of the batch."""
    return at.value(at.strided((*batch, free, summed), (*side.batch, side.free, side.step)))


def result_offset(
    at: IndexMath, a: Attention, batch: Index, query: IndexValue, column: IndexValue
) -> Value:
    """Elements from the first of the result to one of a query."""
    along, row, step = a.values.result
    return at.value(at.strided((*batch, query, column), (*along, row, step)))


def score_of(
    e: ElementalEmitter,
    at_hand: dict[HloInstruction, tuple[Element, ...]],
    a: Attention,
    product: Value,
    position: Index,
) -> Value:
    """What the softmax is of, from the product of a query and a key.

    Args:
        e: computes it, with what is at hand.
        at_hand: gets the product.
        a: the attention.
        product: the sum, in f32.
        position: along the batch, queries and keys.
    """
    at_hand[a.product] = (round_to(e.b, product, a.product.shape.element_type),)
    sizes = (*a.batch, a.rows, a.columns)
    index = tuple(
        e.at.linear([position[n] for n in axes], [sizes[n] for n in axes]) for axes in a.score_axes
    )
    with e.scope():
        return real_of(e.element(a.scores, index), "a score")


def divisor(b: FunctionBuilder, a: Attention, total: Value) -> Value:
    """What a row is divided by: 1 instead of 0 where rows that see nothing are to be zeros."""
    if not a.softmax.is_guarded:
        return total
    return b.select(b.fcmp("oeq", total, 0.0), 1.0, total)
