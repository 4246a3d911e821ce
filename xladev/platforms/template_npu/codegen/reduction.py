"""Reduce: each tile is reduced as a tree, tiles one after the other, and the epilogue is fused.

A reducer that the vector unit knows takes one instruction for up to 1,024 lanes; any other is
applied to halves of the tile until one element is left. A tile is in the scratchpad as it does in
DRAM, reduced dimensions innermost or outermost, for DMA is slow at transposing.

What a vendor replaces: how a tile is reduced, if their unit does it otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from xladev.hlo.ir import HloComputation, HloInstruction
from xladev.platforms.template_npu.codegen.access_map import AccessMap, element_strides
from xladev.platforms.template_npu.codegen.contraction import unit_row
from xladev.platforms.template_npu.codegen.expression import (
    F32,
    Expression,
    name_input,
    number_of,
)
from xladev.platforms.template_npu.codegen.loops import (
    LoopStage,
    StoredValue,
    emit_store,
    planned_slots,
    store_of,
    whole,
)
from xladev.platforms.template_npu.codegen.nodes import (
    Array,
    Input,
    Load,
    Node,
    OperationNode,
    reachable,
)
from xladev.platforms.template_npu.codegen.opcodes import REDUCERS
from xladev.platforms.template_npu.codegen.reducers import accumulates_in_f32, combine
from xladev.platforms.template_npu.codegen.tiles import (
    Box,
    TileEmitter,
    TileValue,
    box_sizes,
    boxes,
)
from xladev.platforms.template_npu.device import isa

_DRY_EXTENT = 3
"""Elements along a reduced dimension of a dry run: an odd number of more than one step."""


def emit_reduce(
    stage: LoopStage, core: HloInstruction, results: Sequence[Array], root: HloInstruction
) -> None:
    """A reduce of one or more arrays, and elementwise instructions on its one result."""
    count = len(core.operands) // 2
    dims = core.operands[0].shape.dims
    reduced = core["dimensions"]
    kept = tuple(d for d in range(len(dims)) if d not in reduced)
    order = (*kept, *reduced)
    extents = tuple(dims[d] for d in kept), tuple(dims[d] for d in reduced)
    if 0 in extents[0]:
        return
    inner = Expression(stage, (*extents[0], *extents[1]))
    at = AccessMap(
        inner.extents, tuple(unit_row(order.index(d), len(dims)) for d in range(len(dims)))
    )
    reducer = core["to_apply"]
    operands = []
    for o in core.operands[:count]:
        wide = accumulates_in_f32(reducer, o.shape.element_type)
        node = inner.node(o, at)
        operands.append(whole(inner, inner.converted(node, F32) if wide else node))
    types = [n.type for n in operands]
    stores = _epilogue(stage, core, results, root, extents[0], types)
    reduction = _Reduction(reducer, operands, stores, extents)
    slots = planned_slots(stage, lambda tiles: reduction.run(tiles, 0))
    reduction.run(TileEmitter(stage.commands, slots), slots.elements)


def _epilogue(
    stage: LoopStage,
    core: HloInstruction,
    results: Sequence[Array],
    root: HloInstruction,
    kept: tuple[int, ...],
    types: Sequence[int],
) -> list[StoredValue]:
    """The initial values reduced in, and what is done with the results."""
    out = Expression(stage, kept)
    rank = len(kept)
    at = AccessMap(kept, tuple(unit_row(j, rank) for j in range(rank)))
    depends = tuple(n > 1 for n in kept)
    totals = [name_input(out, n, t, depends) for n, t in enumerate(types)]
    scalar = AccessMap(kept, ())
    inits = [
        out.converted(out.node(o, scalar), t)
        for o, t in zip(core.operands[len(types) :], types, strict=True)
    ]
    empty = 0 in core.operands[0].shape.dims
    reduced = inits if empty else combine(out, core["to_apply"], inits, totals)
    leaves = [leaf for _, leaf in core.shape.leaves()]
    final = [
        out.converted(n, number_of(s.element_type)) for n, s in zip(reduced, leaves, strict=True)
    ]
    if core.shape.is_array:
        out.inputs[core] = (at, final[0])
        return [store_of(out, root, at, results[0])]
    position, steps = at.position(kept)
    return [StoredValue(n, a, position, steps) for n, a in zip(final, results, strict=True)]


class _Reduction:
    def __init__(
        self,
        reducer: HloComputation,
        operands: list[Node],
        stores: list[StoredValue],
        extents: tuple[tuple[int, ...], tuple[int, ...]],
    ) -> None:
        self.reducer = reducer
        self.operands = operands
        self.order = reachable(operands)
        self.stores = stores
        self.store_roots = [s.node for s in stores]
        self.store_order = reachable(self.store_roots)
        self.kept, self.reduced = extents
        self.kept_inside = _runs_along_kept(self.order, len(self.kept))
        self.function = _known_function(reducer) if len(operands) == 1 else ""
        pair = Expression(None, (2, 2))  # type: ignore[arg-type]
        names = [(side, n) for side in range(2) for n in range(len(operands))]
        sides = [name_input(pair, name, operands[name[1]].type, (True, True)) for name in names]
        half = len(operands)
        roots = combine(pair, reducer, sides[:half], sides[half:])
        self.pair_roots = [_copied(root) for root in roots]
        self.pair_order = reachable(self.pair_roots)

    def run(self, tiles: TileEmitter, limit: int) -> None:
        """All tiles of at most ``limit`` elements; 0 for a dry run on a small one."""
        kept, reduced = self.kept, self.reduced
        lanes = isa.MAX_LANES
        if not limit:
            kept, reduced = tuple(1 for _ in kept), tuple(min(n, _DRY_EXTENT) for n in reduced)
            lanes, limit = 1, prod(reduced)
        if self.kept_inside:
            outer = box_sizes(kept, max(1, min(limit, lanes)))
            inner = box_sizes(reduced, max(1, limit // prod(outer)))
        else:
            inner = box_sizes(reduced, limit)
            outer = box_sizes(kept, max(1, limit // max(prod(inner), 1)))
        inner_boxes = list(boxes(reduced, inner))
        if lanes == 1:
            inner_boxes *= 2
        for box in boxes(kept, outer):
            totals: list[TileValue] = []
            for part in inner_boxes:
                partial = self._tile(tiles, box, part, lanes)
                totals = self._added(tiles, totals, partial, prod(box.sizes))
            self._store(tiles, box, totals)

    def _tile(self, tiles: TileEmitter, box: Box, part: Box, lanes: int) -> list[TileValue]:
        """The operands of one tile, reduced to one element for each kept one."""
        whole_box = Box((*box.origin, *part.origin), (*box.sizes, *part.sizes))
        first, rank = len(box.sizes), len(whole_box.sizes)
        tiles.order = (*range(first, rank), *range(first)) if self.kept_inside else ()
        values = tiles.run(self.order, self.operands, whole_box, {})
        tiles.order = ()
        rows, columns = prod(box.sizes), prod(part.sizes)
        flat = [
            self._flat(v, rows, columns, isa.TYPES[o.type].nbytes)
            for v, o in zip(values, self.operands, strict=True)
        ]
        held = [tiles.taken.pop(o, None) for o in dict.fromkeys(self.operands)]
        owned = [b for b in held if b is not None]
        function = "" if self.kept_inside else self.function  # its lanes are the columns
        while columns > (lanes if function else 1):
            reduced = self._halved(tiles, flat, rows, columns)
            for buffer in owned:
                tiles.slots.give(buffer)
            flat, owned = reduced, [v.buffer for v in reduced]
            columns -= columns // 2
        if function:
            made = self._lanes(tiles, flat[0], rows, columns)
            for buffer in owned:
                tiles.slots.give(buffer)
            return [made]
        if not owned or len(owned) < len(flat):  # values that no slot is theirs alone
            copies = [self._copy(tiles, v, rows, n) for n, v in enumerate(flat)]
            for buffer in owned:
                tiles.slots.give(buffer)
            return copies
        return flat

    def _flat(self, value: TileValue, rows: int, columns: int, nbytes: int) -> TileValue:
        """A tile as rows and columns."""
        if not self.kept_inside:
            return _matrix(value, columns, nbytes)
        return TileValue(value.buffer, value.address, (nbytes, rows * nbytes))

    def _copy(self, tiles: TileEmitter, v: TileValue, rows: int, number: int) -> TileValue:
        type_ = self.operands[number].type
        made = tiles.dense((rows, 1), (True, True), isa.TYPES[type_].nbytes)
        tiles.vector("unary", "copy", (type_, type_), (rows, 1), made, (v,))
        return _matrix(made, 1, isa.TYPES[type_].nbytes)

    def _halved(
        self, tiles: TileEmitter, values: list[TileValue], rows: int, columns: int
    ) -> list[TileValue]:
        """The upper half of the columns reduced onto the lower half; a middle one is copied."""
        half = columns // 2
        left = columns - half
        combined = self._combined(tiles, values, rows, columns, half)
        if half == left:
            return combined
        made: list[TileValue] = []
        for value, low, operand in zip(values, combined, self.operands, strict=True):
            nbytes = isa.TYPES[operand.type].nbytes
            new = tiles.dense((rows * left,), (True,), nbytes)
            out = self._flat(new, rows, left, nbytes)
            self._copied_into(tiles, operand.type, out, low, (rows, half))
            middle = _moved(value, half * value.strides[1])
            at = _moved(out, half * out.strides[1])
            self._copied_into(tiles, operand.type, at, middle, (rows, 1))
            tiles.slots.give(low.buffer)
            made.append(out)
        return made

    def _copied_into(
        self,
        tiles: TileEmitter,
        type_: int,
        out: TileValue,
        source: TileValue,
        sizes: tuple[int, int],
    ) -> None:
        values = self._turned(out), self._turned(source)
        turned = sizes[::-1] if self.kept_inside else sizes
        tiles.vector("unary", "copy", (type_, type_), turned, values[0], (values[1],))

    def _turned(self, value: TileValue) -> TileValue:
        """Rows and columns as the vector unit goes over them, what is contiguous innermost."""
        return replace(value, strides=value.strides[::-1]) if self.kept_inside else value

    def _combined(
        self, tiles: TileEmitter, values: list[TileValue], rows: int, columns: int, half: int
    ) -> list[TileValue]:
        inputs: dict[object, TileValue] = {}
        for n, value in enumerate(values):
            inputs[0, n] = value
            inputs[1, n] = _moved(value, (columns - half) * value.strides[1])
        return self._pair(tiles, inputs, rows, half)

    def _pair(
        self, tiles: TileEmitter, inputs: dict[object, TileValue], rows: int, columns: int
    ) -> list[TileValue]:
        """The reducer on two sets of values; in slots of their own."""
        sizes = (columns, rows) if self.kept_inside else (rows, columns)
        given = {name: self._turned(value) for name, value in inputs.items()}
        made = tiles.run(self.pair_order, self.pair_roots, Box((0, 0), sizes), given)
        for root in self.pair_roots:
            tiles.taken.pop(root)
        return [
            self._flat(v, rows, columns, isa.TYPES[r.type].nbytes)
            for v, r in zip(made, self.pair_roots, strict=True)
        ]

    def _lanes(self, tiles: TileEmitter, value: TileValue, rows: int, columns: int) -> TileValue:
        """All columns reduced by the vector unit."""
        type_ = self.operands[0].type
        nbytes = isa.TYPES[type_].nbytes
        made = tiles.dense((rows, 1), (True, True), nbytes)
        out = TileValue(made.buffer, made.address, (nbytes,))
        tiles.reduce(self.function, type_, (rows, columns), out, value)
        return _matrix(made, 1, nbytes)

    def _added(
        self, tiles: TileEmitter, totals: list[TileValue], partial: list[TileValue], rows: int
    ) -> list[TileValue]:
        if not totals:
            return partial
        inputs: dict[object, TileValue] = {}
        for n, (total, part) in enumerate(zip(totals, partial, strict=True)):
            inputs[0, n], inputs[1, n] = total, part
        made = self._pair(tiles, inputs, rows, 1)
        for value in (*totals, *partial):
            tiles.slots.give(value.buffer)
        return made

    def _store(self, tiles: TileEmitter, box: Box, totals: list[TileValue]) -> None:
        inputs: dict[object, TileValue] = {}
        for n, (total, operand) in enumerate(zip(totals, self.operands, strict=bool(totals))):
            nbytes = isa.TYPES[operand.type].nbytes
            strides = tuple(
                s * nbytes if size > 1 else 0
                for s, size in zip(element_strides(box.sizes), box.sizes, strict=True)
            )
            inputs[n] = TileValue(total.buffer, total.address, strides)
        values = tiles.run(self.store_order, self.store_roots, box, inputs)
        for s, value in zip(self.stores, values, strict=True):
            emit_store(tiles, s, value, None, box.origin, box.sizes)
        for root in self.store_roots:
            tiles.release(root)
        for total in totals:
            tiles.slots.give(total.buffer)


def _runs_along_kept(nodes: Sequence[Node], kept: int) -> bool:
    """True if neighbours in DRAM are neighbours along a kept dimension, in the first array."""
    for node in nodes:
        if isinstance(node, Load) and all(node.depends):
            return any(abs(step) == 1 for step in node.steps[:kept])
    return False


def _matrix(value: TileValue, columns: int, nbytes: int) -> TileValue:
    """A dense value as rows and columns."""
    return TileValue(value.buffer, value.address, (columns * nbytes, nbytes))


def _moved(value: TileValue, by: int) -> TileValue:
    return TileValue(value.buffer, value.address + by, value.strides)


def _copied(node: Node) -> Node:
    if not isinstance(node, Input):
        return node
    return OperationNode(node.type, node.depends, (node,), "unary", "copy")


def _known_function(reducer: HloComputation) -> str:
    """The vector unit's function that is this reducer; empty if there is none."""
    root = reducer.root
    if root.opcode not in REDUCERS or set(root.operands) != set(reducer.parameters):
        return ""
    return REDUCERS[root.opcode] if len(reducer.parameters) == 2 else ""
