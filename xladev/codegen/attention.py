"""Attention in a computation: ``dot(softmax(f(dot(q, k))), v)``, and where its parts lie.

f is whatever elementwise instructions there are between: scales, biases, masks. Dimensions of 1
may come and go between the two products; the other dimensions stay in their places: batch (heads
among them), queries, keys. The last product may be transposed at once, as JAX writes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xladev.codegen.arrays import element_strides
from xladev.codegen.kernels.folds import fold_of
from xladev.codegen.kernels.products.matrices import Side, matrices_by_shape
from xladev.hlo import dtype as dt
from xladev.hlo.ir import HloInstruction
from xladev.hlo.shape import Shape

LEAST_ROWS = 16
"""Queries below which the kernels of products and softmaxes are faster, as they are below so many
keys: measured, 16 queries and keys take 1.4 times as long in one kernel, 32 take 0.9 times."""
LEAST_KEYS = 32
LEAST_WIDTH = 8
_CHEAP = frozenset(
    {"add", "and", "compare", "convert", "maximum", "minimum", "multiply", "negate", "not", "or",
     "select", "subtract", "xor"}
)  # fmt: skip
"""What may be computed anew for each score though it has fewer elements."""


@dataclass(frozen=True, slots=True)
class Values:
    """The last product, by strides in elements.

    Attributes:
        matrix: the values, of keys (summed over) by columns.
        number: which operand of the product they are.
        result: strides of the result along the batch, queries and columns.
    """

    matrix: Side
    number: int
    result: tuple[tuple[int, ...], int, int]


@dataclass(frozen=True, slots=True)
class Attention:
    """The parts of an attention.

    Attributes:
        root: what the kernel gives: the last product, or its transpose.
        last: the last product.
        product: of queries and keys.
        scores: what the softmax is of.
        factor: what scores are the product times; None if there is more between the two.
        queries, keys: the product's operands; strides in elements.
        values: the other operand of the last product, and its result.
        batch: sizes of the batch dimensions but those of 1.
        within: instructions that must be in the kernel.
    """

    root: HloInstruction
    last: HloInstruction
    product: HloInstruction
    scores: HloInstruction
    factor: float | None
    queries: Side
    keys: Side
    values: Values
    batch: tuple[int, ...]
    within: frozenset[HloInstruction]

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

    def is_score(self, i: HloInstruction) -> bool:
        """True for an array with an element for each score."""
        return kept_dims(i.shape) == (*self.batch, self.rows, self.columns)

    def may_compute(self, i: HloInstruction) -> bool:
        """Whether each score may compute an instruction for itself."""
        if i.opcode == "reshape":
            return _is_same(i, i.operands[0])
        if i.opcode == "broadcast":
            order = i["dimensions"]
            return not self.is_score(i.operands[0]) or tuple(order) == tuple(sorted(order))
        is_cheap = i.op.elementwise and (self.is_score(i) or i.opcode in _CHEAP)
        return i.opcode == "iota" or is_cheap


def kept_dims(shape: Shape) -> tuple[int, ...]:
    """Sizes of an array's dimensions but those of 1."""
    return tuple(d for d in shape.dims if d != 1) if shape.is_array else ()


def attention_of(root: HloInstruction) -> Attention | None:
    """The attention that a kernel of this root computes; None if it computes none."""
    last = root.operands[0] if root.opcode == "transpose" else root
    if last.opcode != "dot" or len(last.operands) != 2 or last.shape.element_type is not dt.F32:
        return None
    for number in (0, 1):
        found = _with_weights(root, last, number)
        if found is not None:
            return found
    return None


def _with_weights(root: HloInstruction, last: HloInstruction, number: int) -> Attention | None:
    """An attention whose last product has the weights as one of its operands."""
    within = {root, last}
    weights = _stripped(last.operands[number], within)
    if weights.opcode != "divide":
        return None
    exponentials = _stripped(weights.operands[0], within)
    if exponentials.opcode != "exponential":
        return None
    if not _is_folded(weights.operands[1], exponentials, "add", 0.0, within):
        return None
    difference = _stripped(exponentials.operands[0], within)
    if difference.opcode != "subtract":
        return None
    scores = _stripped(difference.operands[0], within)
    if not _is_folded(difference.operands[1], scores, "maximum", float("-inf"), within):
        return None
    product = _product_of(scores)
    if product is None or not _is_same(product, weights):
        return None
    within |= {weights, exponentials, difference, scores, product}
    return _with_places(root, last, number, product, scores, within)


def _with_places(
    root: HloInstruction,
    last: HloInstruction,
    number: int,
    product: HloInstruction,
    scores: HloInstruction,
    within: set[HloInstruction],
) -> Attention | None:
    """The attention, if all of it lies in memory as kernels read it."""
    found, values = matrices_by_shape(product), _values_of(root, last, 1 - number)
    types = {o.shape.element_type for o in (*product.operands, *last.operands, product, scores)}
    if found is None or values is None or types != {dt.F32}:
        return None
    queries, keys = found.left, found.right
    count = len(product["lhs_batch_dims"])
    sizes = product.shape.dims[:count]
    kept = [n for n, size in enumerate(sizes) if size != 1]
    batch = tuple(sizes[n] for n in kept)
    spaces = (kept_dims(product.shape), kept_dims(last.operands[number].shape))
    if any(space != (*batch, queries.extent, keys.extent) for space in spaces):
        return None
    if not _is_large(queries, keys, values):
        return None
    return Attention(
        root=root,
        last=last,
        product=product,
        scores=scores,
        factor=_factor_of(scores, product),
        queries=_only(queries, kept),
        keys=_only(keys, kept),
        values=values,
        batch=batch,
        within=frozenset(within),
    )


def _is_large(queries: Side, keys: Side, values: Values) -> bool:
    is_whole = values.matrix.depth == keys.extent and values.result[2] == 1
    few = queries.extent < LEAST_ROWS or keys.extent < LEAST_KEYS
    return is_whole and not few and values.matrix.extent >= LEAST_WIDTH


def _only(side: Side, kept: Sequence[int]) -> Side:
    """The side without batch dimensions of 1."""
    batch = tuple(side.batch[n] for n in kept)
    return Side(batch, side.free, side.extent, side.step, side.depth)


def _stripped(i: HloInstruction, within: set[HloInstruction]) -> HloInstruction:
    """What an array is but for dimensions of 1."""
    while i.opcode == "reshape" and _is_same(i, i.operands[0]):
        within.add(i)
        i = i.operands[0]
    return i


def _is_same(left: HloInstruction, right: HloInstruction) -> bool:
    return kept_dims(left.shape) == kept_dims(right.shape)


def _is_folded(
    spread: HloInstruction,
    full: HloInstruction,
    opcode: str,
    start: float,
    within: set[HloInstruction],
) -> bool:
    """Whether an array holds, for each score, the fold of its row."""
    seen: set[HloInstruction] = set()
    spread = _stripped(spread, seen)
    if spread.opcode != "broadcast" or not _is_same(spread, full):
        return False
    reduce = _stripped(spread.operands[0], seen)
    fold = fold_of(reduce) if reduce.opcode == "reduce" else None
    if fold is None or fold.opcode != opcode or _stripped(reduce.operands[0], seen) is not full:
        return False
    initial = reduce.operands[1]
    if initial.opcode != "constant" or float(initial["literal"].array) != start:
        return False
    kept = [d for d, size in enumerate(spread.shape.dims) if size != 1]
    sizes = reduce.operands[0].shape.dims
    folded = [d for d in reduce["dimensions"] if sizes[d] != 1]
    last = [d for d, size in enumerate(sizes) if size != 1][-1:]
    places = zip(spread["dimensions"], spread.operands[0].shape.dims, strict=True)
    if not folded or folded != last or [d for d, size in places if size != 1] != kept[:-1]:
        return False
    within |= seen | {spread, reduce}
    return True


def _product_of(scores: HloInstruction) -> HloInstruction | None:
    """The one product that scores are computed from, element by element."""
    found = {i for i in computed_from(scores) if i.opcode == "dot"}
    return found.pop() if len(found) == 1 else None


def computed_from(scores: HloInstruction) -> Iterator[HloInstruction]:
    """Instructions of one element for each score that scores are computed from, products last."""
    seen, pending = {scores}, [scores]
    while pending:
        i = pending.pop()
        yield i
        if not i.op.elementwise and i.opcode != "reshape":
            continue
        for operand in i.operands:
            if operand not in seen and _is_same(operand, scores):
                seen.add(operand)
                pending.append(operand)


def _factor_of(scores: HloInstruction, product: HloInstruction) -> float | None:
    """What scores are the product times, if that is a positive constant."""
    aside: set[HloInstruction] = set()
    if scores is product:
        return 1.0
    if scores.opcode != "multiply":
        return None
    for one, other in (scores.operands, scores.operands[::-1]):
        if _stripped(one, aside) is product and other.opcode == "broadcast":
            scalar = other.operands[0]
            if scalar.opcode == "constant" and scalar.shape.is_scalar:
                factor = float(scalar["literal"].array)
                return factor if 0 < factor < float("inf") else None
    return None


def _values_of(root: HloInstruction, last: HloInstruction, number: int) -> Values | None:
    """Where values and results lie; None if they are no matrices."""
    found = matrices_by_shape(last)
    if found is None:
        return None
    name = ("lhs", "rhs")[1 - number]
    count = len(last["lhs_batch_dims"])
    batch = last[f"{name}_batch_dims"]
    weights = last.operands[1 - number]
    sizes = weights.shape.dims
    apart = [d for d, size in enumerate(sizes) if size != 1]
    summed = [d for d in last[f"{name}_contracting_dims"] if sizes[d] != 1]
    if [d for d in batch if sizes[d] != 1] != apart[:-2] or summed != apart[-1:]:
        return None
    kept = [n for n in range(count) if last.shape.dims[n] != 1]
    strides = _result_strides(root)
    left = range(count, count + len(last.operands[0].shape.dims) - count - _summed(last))
    right = range(left.stop, last.shape.rank)
    sides = [[d for d in side if last.shape.dims[d] != 1] for side in (left, right)]
    rows, columns = sides[1 - number], sides[number]
    if len(rows) != 1 or len(columns) != 1:
        return None
    side = (found.left, found.right)[number]
    result = tuple(strides[n] for n in kept), strides[rows[0]], strides[columns[0]]
    return Values(_only(side, kept), number, result)


def _summed(i: HloInstruction) -> int:
    return len(i["lhs_contracting_dims"])


def _result_strides(root: HloInstruction) -> list[int]:
    """Strides in the kernel's result along the dimensions of the last product."""
    strides = element_strides(root.shape)
    if root.opcode != "transpose":
        return list(strides)
    order = root["dimensions"]
    return [strides[order.index(d)] for d in range(len(order))]
