"""Runs a sum of products in blocks: summed up in the scratchpad, epilogue fused, stored once.

What a vendor replaces: the order of blocks, if their hardware keeps other things than sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from operator import add

from xladev.hlo.ir import HloInstruction
from xladev.platforms.template_npu.codegen.access_map import AccessMap, element_strides
from xladev.platforms.template_npu.codegen.blocking import Blocks, best_blocks
from xladev.platforms.template_npu.codegen.command_list import TrackedBytes
from xladev.platforms.template_npu.codegen.contraction import MATRIX_TYPES, Contraction
from xladev.platforms.template_npu.codegen.expression import (
    F32,
    PRED,
    S32,
    Expression,
    name_input,
    number_of,
)
from xladev.platforms.template_npu.codegen.loops import (
    LoopStage,
    StoredValue,
    emit_store,
    slot_count,
    store_of,
    whole,
)
from xladev.platforms.template_npu.codegen.nodes import Array, Node, reachable
from xladev.platforms.template_npu.codegen.products import (
    BlockProduct,
    emit_on_matrix,
    emit_on_vector,
)
from xladev.platforms.template_npu.codegen.tiles import (
    Box,
    Slots,
    TileEmitter,
    TileValue,
    box_sizes,
    boxes,
)


def emit_contraction(
    stage: LoopStage, c: Contraction, core: HloInstruction, result: Array, root: HloInstruction
) -> None:
    """The loops over blocks."""
    if 0 in (*c.batch, *c.rows, *c.columns):
        return
    left = Expression(stage, (*c.batch, *c.left_extents(c.rows, c.depth)))
    right = Expression(stage, (*c.batch, *c.depth, *c.columns))
    sides = whole(left, c.left(left)), whole(right, c.right(right))
    run = _Blocks(c, *sides, _epilogue(stage, c, core, result, root))
    count = slot_count(run.dry) * stage.buffering
    blocks = best_blocks(c, count, stage.buffering, len(run.store_order))
    slots = Slots(stage.commands, count, blocks.total_nbytes * blocks.totals)
    run.emit(TileEmitter(stage.commands, slots), blocks)


def _epilogue(
    stage: LoopStage, c: Contraction, core: HloInstruction, result: Array, root: HloInstruction
) -> StoredValue:
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
    """Runs over blocks of results; each is summed up in place, then stored in strips."""

    def __init__(self, c: Contraction, left: Node, right: Node, store: StoredValue) -> None:
        self.c = c
        self.left, self.right, self.store = left, right, store
        self.left_order, self.right_order = reachable([left]), reachable([right])
        self.store_order = reachable([store.node])

    def dry(self, tiles: TileEmitter) -> None:
        """One block of one element."""
        ones = tuple(tuple(1 for _ in part) for part in (self.c.rows, self.c.columns, self.c.depth))
        block = Box((0,) * self._rank, (1,) * self._rank)
        total = TileValue(TrackedBytes(0), 0, (0,) * self._rank)
        self._sum(tiles, total, block, list(boxes(ones[2], ones[2])))
        self._store(tiles, total, block)

    @property
    def _rank(self) -> int:
        return len(self.c.batch) + len(self.c.rows) + len(self.c.columns)

    def emit(self, tiles: TileEmitter, blocks: Blocks) -> None:
        """All blocks."""
        c = self.c
        sizes = (*(1 for _ in c.batch), *blocks.rows, *blocks.columns)
        depths = list(boxes(c.depth, blocks.depth))
        places = [
            tiles.slots.reserved(n * blocks.total_nbytes) for n in range(1, blocks.totals + 1)
        ]
        for number, box in enumerate(boxes((*c.batch, *c.rows, *c.columns), sizes)):
            total = _dense(places[number % blocks.totals], box.sizes)
            self._sum(tiles, total, box, depths)
            self._store(tiles, total, box)

    def _store(self, tiles: TileEmitter, total: TileValue, box: Box) -> None:
        """The epilogue, on as much at a time as a slot holds."""
        for strip in boxes(box.sizes, box_sizes(box.sizes, tiles.slots.elements)):
            origin = tuple(map(add, box.origin, strip.origin))
            part = TileValue(
                total.buffer, total.address + _dot(total.strides, strip.origin), total.strides
            )
            at = Box(origin, strip.sizes)
            (value,) = tiles.run(self.store_order, [self.store.node], at, {"total": part})
            emit_store(tiles, self.store, value, None, at.origin, at.sizes)
            tiles.release(self.store.node)

    def _sum(self, tiles: TileEmitter, total: TileValue, box: Box, depths: Sequence[Box]) -> None:
        c = self.c
        g, m = len(c.batch), len(c.rows)
        batch = box.origin[:g]
        rows = Box(box.origin[g : g + m], box.sizes[g : g + m])
        columns = Box(box.origin[g + m :], box.sizes[g + m :])
        if not depths:
            flat = TileValue(total.buffer, total.address, (4,))
            size = (prod(rows.sizes) * prod(columns.sizes),)
            tiles.vector("fill", "", (F32, F32), size, flat, ())
        for number, k in enumerate(depths):
            held = c.left_box(rows, k)
            left = Box((*batch, *held.origin), (*(1 for _ in batch), *held.sizes))
            right = Box(
                (*batch, *k.origin, *columns.origin),
                (*(1 for _ in batch), *k.sizes, *columns.sizes),
            )
            (a,) = tiles.run(self.left_order, [self.left], left, {})
            (b,) = tiles.run(self.right_order, [self.right], right, {})
            product = BlockProduct(
                c.type, c.total_type, rows.sizes, columns.sizes, k.sizes,
                replace(total, strides=total.strides[g:]),
                replace(a, strides=c.left_strides(a.strides[g:])),
                replace(b, strides=b.strides[g:]),
                number > 0,
            )  # fmt: skip
            multiply = emit_on_matrix if c.type in MATRIX_TYPES else emit_on_vector
            multiply(tiles, product)
            tiles.release(self.left)
            tiles.release(self.right)


def _dense(buffer: TrackedBytes, sizes: Sequence[int]) -> TileValue:
    """A row-major array of four-byte elements."""
    strides = zip(element_strides(sizes), sizes, strict=True)
    return TileValue(buffer, buffer.address, tuple(4 * s if n > 1 else 0 for s, n in strides))


def _dot(a: Sequence[int], b: Sequence[int]) -> int:
    return sum(x * y for x, y in zip(a, b, strict=True))
