"""Sums of products on the matrix unit: blocks of tiles, summed in the scratchpad, epilogue fused.

A dot is a sum over one group of loops of products of two arrays read through access maps, and so
is a convolution (`codegen/convolution.py`). Types that the matrix unit has not got are multiplied
and added on the vector unit.

What a vendor replaces: the block sizes and the matrix instruction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isqrt, prod

from xladev.hlo.ir import HloInstruction
from xladev.platforms.template_npu.codegen.access_map import AccessMap, Row
from xladev.platforms.template_npu.codegen.expression import (
    F32,
    PRED,
    S32,
    Expression,
    name_input,
    number_of,
)
from xladev.platforms.template_npu.codegen.loops import (
    Stage,
    Store,
    emit_store,
    planned_slots,
    store_of,
    whole,
)
from xladev.platforms.template_npu.codegen.nodes import Array, Node, reachable
from xladev.platforms.template_npu.codegen.tiles import (
    Box,
    TileEmitter,
    Value,
    box_sizes,
    boxes,
)
from xladev.platforms.template_npu.device import isa

MATRIX_TYPES = frozenset(isa.TYPE_NUMBERS[n] for n in ("s8", "u8", "bf16", "f32"))
_U8, _S8, _BF16 = (isa.TYPE_NUMBERS[n] for n in ("u8", "s8", "bf16"))

Extents = tuple[int, ...]
Operand = Callable[[Expression], Node]
"""Builds the nodes of one side, under its map."""


@dataclass(frozen=True, slots=True)
class Contraction:
    """A sum of products over four groups of loops.

    Attributes:
        batch, rows, columns, depth: extents: in both sides, left only, right only, summed over.
        left: the left side over (batch, rows, depth).
        right: the right side over (batch, depth, columns).
        result: coordinates of the result over (batch, rows, columns).
        type: in which it multiplies; the sum is in f32 or s32.
    """

    batch: Extents
    rows: Extents
    columns: Extents
    depth: Extents
    left: Operand
    right: Operand
    result: tuple[Row, ...]
    type: int

    @property
    def total_type(self) -> int:
        """Number of the type of sums."""
        return F32 if isa.TYPES[self.type].is_float else S32


def emit_dot(
    stage: Stage, core: HloInstruction, results: Sequence[Array], root: HloInstruction
) -> None:
    """A dot of any dimension numbers, and elementwise instructions on it."""
    lhs, rhs = core.operands[:2]
    lhs_used = (core["lhs_batch_dims"], core["lhs_contracting_dims"])
    rhs_used = (core["rhs_batch_dims"], core["rhs_contracting_dims"])
    lhs_free, rhs_free = _free(lhs, *lhs_used), _free(rhs, *rhs_used)
    batch, depth = (tuple(lhs.shape.dims[d] for d in dims) for dims in lhs_used)
    rows, columns = (
        tuple(o.shape.dims[d] for d in free) for o, free in ((lhs, lhs_free), (rhs, rhs_free))
    )
    type_ = product_type(core)
    rank = len(batch) + len(rows) + len(columns)
    emit_contraction(
        stage,
        Contraction(
            batch, rows, columns, depth,
            _operand(lhs, (*lhs_used[0], *lhs_free, *lhs_used[1]), type_),
            _operand(rhs, (*rhs_used[0], *rhs_used[1], *rhs_free), type_),
            tuple(unit_row(j, rank) for j in range(rank)),
            type_,
        ),
        core, results[0], root,
    )  # fmt: skip


def _free(operand: HloInstruction, *used: Sequence[int]) -> tuple[int, ...]:
    taken = {d for dims in used for d in dims}
    return tuple(d for d in range(operand.shape.rank) if d not in taken)


def _operand(operand: HloInstruction, order: Sequence[int], type_: int) -> Operand:
    """An operand whose dimension ``order[j]`` is run over by iteration variable j."""

    def build(e: Expression) -> Node:
        rank = len(e.extents)
        rows = tuple(unit_row(order.index(d), rank) for d in range(rank))
        return e.converted(e.node(operand, AccessMap(e.extents, rows)), type_)

    return build


def unit_row(j: int, rank: int, factor: int = 1) -> Row:
    """A coordinate that is iteration variable j, times a factor."""
    return 0, tuple(factor if n == j else 0 for n in range(rank))


def product_type(core: HloInstruction) -> int:
    """Number of the type in which operands are multiplied."""
    left, right = (number_of(o.shape.element_type) for o in core.operands[:2])
    if core.shape.element_type.is_float:
        return _BF16 if left == right == _BF16 else F32
    return left if left == right and left in (_S8, _U8) else S32


# The stage


def emit_contraction(
    stage: Stage, c: Contraction, core: HloInstruction, result: Array, root: HloInstruction
) -> None:
    """The loops over blocks."""
    if 0 in (*c.batch, *c.rows, *c.columns):
        return
    left = Expression(stage, (*c.batch, *c.rows, *c.depth))
    right = Expression(stage, (*c.batch, *c.depth, *c.columns))
    sides = whole(left, c.left(left)), whole(right, c.right(right))
    block = _Blocks(c, *sides, _epilogue(stage, c, core, result, root))
    dry = planned_slots(stage, lambda tiles: block.run(tiles, 1, dry=True))
    block.run(TileEmitter(stage.commands, dry), dry.elements)


def _epilogue(
    stage: Stage, c: Contraction, core: HloInstruction, result: Array, root: HloInstruction
) -> Store:
    """What is done with a block of sums."""
    out = Expression(stage, (*c.batch, *c.rows, *c.columns))
    at = AccessMap(out.extents, c.result)
    total = name_input(out, "total", c.total_type, tuple(n > 1 for n in out.extents))
    wanted = number_of(core.shape.element_type)
    value = total
    if wanted == PRED:
        zero = out.operation("binary", "xor", S32, total, total)
        value = out.operation("compare", "ne", PRED, total, zero)
    elif wanted != c.total_type:
        value = out.converted(total, wanted)
    out.inputs[core] = (at, value)
    return store_of(out, root, at, result)


class _Blocks:
    def __init__(self, c: Contraction, left: Node, right: Node, store: Store) -> None:
        self.c = c
        self.left, self.right, self.store = left, right, store
        self.left_order, self.right_order = reachable([left]), reachable([right])
        self.store_order = reachable([store.node])

    def run(self, tiles: TileEmitter, limit: int, *, dry: bool = False) -> None:
        c = self.c
        rows, columns, depth = _block_sizes(c, limit)
        extents = (*c.batch, *c.rows, *c.columns)
        sizes = (*(1 for _ in c.batch), *box_sizes(c.rows, rows), *box_sizes(c.columns, columns))
        depths = list(boxes(c.depth, box_sizes(c.depth, depth)))
        if dry:
            extents, depths = sizes, depths[:1]
        for box in boxes(extents, sizes):
            total = tiles.dense(box.sizes, (True,) * len(sizes), 4)
            self._sum(tiles, total, box, depths)
            (value,) = tiles.run(self.store_order, [self.store.node], box, {"total": total})
            emit_store(tiles, self.store, value, None, box.origin, box.sizes)
            tiles.release(self.store.node)
            tiles.slots.give(total.buffer)

    def _sum(self, tiles: TileEmitter, total: Value, box: Box, depths: Sequence[Box]) -> None:
        g, m = len(self.c.batch), len(self.c.rows)
        m_size, n_size = prod(box.sizes[g : g + m]), prod(box.sizes[g + m :])
        if not depths:
            tiles.vector("fill", "", (F32, F32), (m_size * n_size,), _flat(total), ())
        for number, k in enumerate(depths):
            left_box = Box((*box.origin[: g + m], *k.origin), (*box.sizes[: g + m], *k.sizes))
            right_box = Box(
                (*box.origin[:g], *k.origin, *box.origin[g + m :]),
                (*box.sizes[:g], *k.sizes, *box.sizes[g + m :]),
            )
            (a,) = tiles.run(self.left_order, [self.left], left_box, {})
            (b,) = tiles.run(self.right_order, [self.right], right_box, {})
            multiply = _on_matrix if self.c.type in MATRIX_TYPES else _on_vector
            multiply(tiles, self.c, (m_size, n_size, prod(k.sizes)), (total, a, b), number > 0)
            tiles.release(self.left)
            tiles.release(self.right)


def _flat(value: Value) -> Value:
    return Value(value.buffer, value.address, (4,))


def _block_sizes(c: Contraction, limit: int) -> tuple[int, int, int]:
    """Rows, columns and depth of a block: at most ``limit`` elements in each array."""
    side = max(1, isqrt(limit) // isa.TILE * isa.TILE)
    rows = min(prod(c.rows), side)
    columns = min(prod(c.columns), _tiles(limit // rows))
    rows = min(prod(c.rows), _tiles(limit // columns))
    depth = min(prod(c.depth), _tiles(limit // max(rows, columns)), isa.MAX_LANES)
    return rows, columns, max(1, depth)


def _tiles(size: int) -> int:
    """A size rounded down to whole tiles, if there is one."""
    return size // isa.TILE * isa.TILE or max(size, 1)


Sizes = tuple[int, int, int]
Values = tuple[Value, Value, Value]


def _segments(size: int) -> list[tuple[int, int, int]]:
    """(start, number of tiles, size of a tile): whole tiles, then the rest."""
    tiles, rest = divmod(size, isa.TILE)
    found = [(0, tiles, isa.TILE)] if tiles else []
    return [*found, (size - rest, 1, rest)] if rest else found


def _on_matrix(
    tiles: TileEmitter, c: Contraction, sizes: Sizes, values: Values, accumulate: bool
) -> None:
    """Matrix instructions of one block: up to eight, for whole tiles and for the edges."""
    if tiles.commands is None:
        return
    m, n, k = sizes
    total, a, b = values
    nbytes = isa.TYPES[c.type].nbytes
    row = isa.BY_NAME["matmul"]
    writes, reads = (total.buffer,), (total.buffer, a.buffer, b.buffer)
    for m_at, m_tiles, m_size in _segments(m):
        for n_at, n_tiles, n_size in _segments(n):
            for k_at, k_tiles, k_size in _segments(k):
                operands = (
                    (total.address + (m_at * n + n_at) * 4, _tile_strides(n * 4, 4, "mn")),
                    (
                        a.address + (m_at * k + k_at) * nbytes,
                        _tile_strides(k * nbytes, nbytes, "mk"),
                    ),
                    (
                        b.address + (k_at * n + n_at) * nbytes,
                        _tile_strides(n * nbytes, nbytes, "kn"),
                    ),
                )
                tiles.commands.emit(
                    row, 0, (c.type, c.total_type), (m_tiles, n_tiles, k_tiles, 1), operands,
                    (m_size, n_size, k_size, int(accumulate or k_at > 0)), reads, writes,
                )  # fmt: skip


def _tile_strides(row: int, column: int, loops: str) -> tuple[int, ...]:
    """Strides over tiles of m, n and k, then rows and columns, of a matrix over two of them."""
    steps = {loops[0]: row * isa.TILE, loops[1]: column * isa.TILE}
    return (*(steps.get(name, 0) for name in "mnk"), row, column)


def _on_vector(
    tiles: TileEmitter, c: Contraction, sizes: Sizes, values: Values, accumulate: bool
) -> None:
    """All products of some rows of the block at once, then a sum over lanes.

    A row's products fit into a slot, for the right side of the block is as large.
    """
    m, n, k = sizes
    total, a, b = values
    types = (c.type, c.type)
    rows = max(1, min(m, tiles.slots.elements // (n * k)))
    for at in range(0, m, rows):
        part = (min(rows, m - at), n, k)
        left = Value(a.buffer, a.address + at * k * 4, (k * 4, 0, 4))
        right = Value(b.buffer, b.address, (0, 4, n * 4))
        out = Value(total.buffer, total.address + at * n * 4, (n * 4, 4))
        products = tiles.dense(part, (True,) * 3, 4)
        sums = tiles.dense(part[:2], (True,) * 2, 4)
        tiles.vector("binary", "mul", types, part, products, (left, right))
        strides = (n * k * 4, k * 4, 4)
        flat = Value(products.buffer, products.address, strides)
        tiles.reduce("add", c.type, part, sums if accumulate else out, flat)
        if accumulate:
            tiles.vector("binary", "add", types, part[:2], out, (out, sums))
        tiles.slots.give(products.buffer)
        tiles.slots.give(sums.buffer)
