"""Attention in HLO: products, a softmax of scores, products; and the passes that keep it together.

What counts is ``dot(softmax(f(dot(q, k))), v)``, where f is whatever elementwise instructions,
masks and biases are between. The first pass keeps both products from becoming library calls, the
second makes one kernel of it all (`codegen.attention_kernel`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod

from xladev import instrument
from xladev.codegen.kernels.folds import Fold, fold_of
from xladev.compiler.fusion import controlled, fused_group, kernel_programs, without_dead
from xladev.hlo import dtype as dt
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.ops.contraction_rules import DotDims
from xladev.hlo.rebuild import Users, map_computations, rebuild, users_of
from xladev.passes.pass_ import HloModulePass

MARK = "xladev.cuda.kernel"
"""Frontend attribute of products that are part of a larger kernel."""
KEYS = 32
"""Keys that a block looks at together: one for each thread of a warp."""
WARPS = 8
SHARED_NBYTES = 48 << 10
"""Static shared memory of a block."""
_TYPES = (dt.F32, dt.BF16, dt.F16)


@dataclass(frozen=True, slots=True)
class Attention:
    """The parts of an attention, by its last product.

    Attributes:
        root: product of weights and values.
        scores: what the softmax is of, of dimensions (batch..., queries, keys).
        product: of queries and keys, of the same dimensions.
        greatest, total: how the softmax folds scores, and their exponentials.
        within: instructions that must be in the kernel.
    """

    root: HloInstruction
    scores: HloInstruction
    product: HloInstruction
    greatest: Fold
    total: Fold
    within: frozenset[HloInstruction]

    @property
    def batch(self) -> tuple[int, ...]:
        """Leading dimensions."""
        return self.scores.shape.dims[:-2]

    @property
    def queries(self) -> int:
        """Rows of scores."""
        return self.scores.shape.dims[-2]

    @property
    def keys(self) -> int:
        """Columns of scores."""
        return self.scores.shape.dims[-1]

    @property
    def depth(self) -> int:
        """Elements of a query, and of a key."""
        (axis,) = DotDims.of(self.product).lhs_contracting
        return self.product.operands[0].shape.dims[axis]

    @property
    def width(self) -> int:
        """Elements of a value."""
        return self.root.shape.dims[-1]

    @property
    def rows(self) -> int:
        """Queries of one warp: as many as fit; 0 if not even one does."""
        return next((n for n in (4, 2, 1) if self.shared_nbytes(n) <= SHARED_NBYTES), 0)

    def shared_nbytes(self, rows: int) -> int:
        """For keys, values, queries and weights of a block, in f32."""
        tiles = KEYS * (self.depth + 1) + KEYS * self.width
        return 4 * (tiles + WARPS * rows * (self.depth + KEYS))


def attention_of(root: HloInstruction) -> Attention | None:
    """The attention whose last product this is; None if it is none that has a kernel."""
    if not _is_product(root):
        return None
    weights = root.operands[0]
    around = {root}
    while weights.opcode == "convert":
        around.add(weights)
        weights = weights.operands[0]
    if weights.opcode != "divide":
        return None
    exponentials, spread = weights.operands
    total = _folded(spread, exponentials, "add", 0.0)
    if total is None or exponentials.opcode != "exponential":
        return None
    difference = exponentials.operands[0]
    if difference.opcode != "subtract":
        return None
    scores, low = difference.operands
    greatest = _folded(low, scores, "maximum", float("-inf"))
    product = _product_of(scores)
    if greatest is None or product is None:
        return None
    around |= {weights, exponentials, spread, total.reduce, difference, low, greatest.reduce}
    around |= {scores, product}
    found = Attention(root, scores, product, greatest, total, frozenset(around))
    return found if found.rows else None


def _is_product(root: HloInstruction) -> bool:
    """Weights of (batch..., queries, keys) by values, in types that are computed in f32."""
    if root.opcode != "dot" or root.shape.rank < 2 or not root.shape.size:
        return False
    dims, weights, values = DotDims.of(root), *root.operands
    rank = weights.shape.rank
    return (
        dims.lhs_batch == tuple(range(rank - 2))
        and dims.lhs_contracting == (rank - 1,)
        and len(dims.rhs_free(values.shape.rank)) == 1
        and all(s.element_type in _TYPES for s in (root.shape, weights.shape, values.shape))
    )


def _folded(spread: HloInstruction, full: HloInstruction, opcode: str, start: float) -> Fold | None:
    """The fold of a full value's rows that a broadcast spreads over the rows again."""
    rank = full.shape.rank
    if spread.opcode != "broadcast" or spread["dimensions"] != tuple(range(rank - 1)):
        return None
    reduce = spread.operands[0]
    fold = fold_of(reduce) if reduce.opcode == "reduce" else None
    if fold is None or fold.opcode != opcode or reduce["dimensions"] != (rank - 1,):
        return None
    initial = reduce.operands[1]
    is_start = initial.opcode == "constant" and float(initial["literal"].array) == start
    return fold if reduce.operands[0] is full and is_start else None


def _product_of(scores: HloInstruction) -> HloInstruction | None:
    """The one product that scores are computed from, element by element."""
    found: set[HloInstruction] = set()
    seen, pending = {scores}, [scores]
    while pending:
        i = pending.pop()
        if i.opcode == "dot":
            found.add(i)
        elif _is_cheap(i):
            fresh = [o for o in i.operands if o not in seen]
            seen.update(fresh)
            pending += fresh
    product = next(iter(found)) if len(found) == 1 else None
    return product if product is not None and _gives_scores(product, scores) else None


def _is_cheap(i: HloInstruction) -> bool:
    """What may be computed anew for each score."""
    return i.op.elementwise or i.opcode in ("broadcast", "iota", "constant", "reshape")


def _gives_scores(product: HloInstruction, scores: HloInstruction) -> bool:
    dims, (q, k) = DotDims.of(product), product.operands
    single = len(dims.lhs_contracting) == 1
    free = len(dims.lhs_free(q.shape.rank)) == len(dims.rhs_free(k.shape.rank)) == 1
    types = (product.shape, q.shape, k.shape, scores.shape)
    same = product.shape.dims == scores.shape.dims
    return single and free and same and all(s.element_type in _TYPES for s in types)


def attention_group(
    found: Attention, computation: HloComputation, users: Users
) -> set[HloInstruction] | None:
    """What becomes one kernel; None if a part of it is wanted elsewhere too."""
    group = {found.root}
    for i in reversed(computation.instructions):
        mine = i in found.within or (_is_cheap(i) and not _is_operand(found, users[i]))
        if mine and users[i] and all(user in group for user in users[i]):
            group.add(i)
    return group if found.within <= group else None


def _is_operand(found: Attention, users: Sequence[HloInstruction]) -> bool:
    """Whether queries, keys or values are computed from it: once, not for each score."""
    return found.product in users or found.root in users


@dataclass(frozen=True, slots=True)
class MarkAttention(HloModulePass):
    """Marks both products of each attention, so that no library is asked for them."""

    name = "cuda-mark-attention"

    def run(self, module: HloModule) -> HloModule:
        """See the class."""
        return map_computations(module, _marked)


def _marked(computation: HloComputation) -> HloComputation:
    replacements: dict[HloInstruction, HloInstruction] = {}
    for found in _all_of(computation):
        for product in (found.product, found.root):
            pairs = (*product.note.frontend_attributes, (MARK, "attention"))
            note = replace(product.note, frontend_attributes=tuple(sorted(pairs)))
            replacements[product] = replace(product, note=note)
    return rebuild(computation, replacements) if replacements else computation


def is_marked(i: HloInstruction) -> bool:
    """Whether an instruction is part of a larger kernel."""
    return any(key == MARK for key, _ in i.note.frontend_attributes)


@dataclass(frozen=True, slots=True)
class AttentionFusion:
    """The pass that makes a `fusion` instruction of each attention."""

    name: str = field(default="cuda-attention-fusion")

    def run(self, module: HloModule) -> HloModule:
        """See the class."""
        programs = kernel_programs(module)
        return map_computations(module, lambda c: self._fuse(c) if c.name in programs else c)

    def _fuse(self, computation: HloComputation) -> HloComputation:
        users = users_of(computation)
        replacements: dict[HloInstruction, HloInstruction] = {}
        for found in _all_of(computation):
            group = attention_group(found, computation, users)
            if group is None:
                continue
            scores = prod(found.scores.shape.dims)
            why = f"{scores} scores are used while they are in registers"
            instrument.decision(self.name, found.root.name, why)
            replacements[found.root] = fused_group(found.root, group, computation.name)
        return without_dead(rebuild(computation, replacements)) if replacements else computation


def _all_of(computation: HloComputation) -> list[Attention]:
    """All attentions whose parts nothing else needs."""
    users, alone = users_of(computation), controlled(computation)
    found = (attention_of(i) for i in computation.instructions if i.opcode == "dot")
    return [
        a
        for a in found
        if a is not None
        and attention_group(a, computation, users) is not None
        and not a.within & alone
    ]
