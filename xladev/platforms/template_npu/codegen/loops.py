"""The loop stage: arrays computed element by element; and what all stages share.

What a vendor replaces: nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Protocol

from xladev.hlo.ir import HloInstruction
from xladev.platforms.template_npu.codegen.access_map import AccessMap, identity
from xladev.platforms.template_npu.codegen.command_list import CommandList
from xladev.platforms.template_npu.codegen.expression import ArrayReads, Expression
from xladev.platforms.template_npu.codegen.nodes import Array, Input, Node, OperationNode, reachable
from xladev.platforms.template_npu.codegen.opcodes import instruction_of
from xladev.platforms.template_npu.codegen.tiles import (
    Slots,
    TileEmitter,
    TileValue,
    box_sizes,
    boxes,
)


class LoopStage(ArrayReads, Protocol):
    """The part of the kernel emitter that stages use."""

    commands: CommandList

    @property
    def buffering(self) -> int:
        """Slots for each value of a tile: 2 so that the next tile is loaded meanwhile, or 1."""
        ...

    def padded(
        self,
        key: HloInstruction,
        operand: HloInstruction,
        value: HloInstruction | None,
        padding: Sequence[tuple[int, int, int]],
    ) -> tuple[Array, tuple[int, ...]]:
        """See `KernelEmitter.padded`."""
        ...

    def shares(self, result: int, operand: HloInstruction) -> bool:
        """See `KernelEmitter.shares`."""
        ...


@dataclass(frozen=True, slots=True)
class Destination:
    """A result of a loop stage.

    Attributes:
        root: what to compute.
        array: where to.
    """

    root: HloInstruction
    array: Array


@dataclass(frozen=True, slots=True)
class StoredValue:
    """A value to be stored.

    Attributes:
        node: the value.
        array: where to.
        position, steps: of the elements, in elements.
        index: a further position, in elements; negative for "do not store".
        function: how to combine it with what is there; empty to overwrite.
    """

    node: Node
    array: Array
    position: int
    steps: tuple[int, ...]
    index: Node | None = None
    function: str = ""


def emit_loop(stage: LoopStage, destinations: Sequence[Destination]) -> None:
    """Computes results of equal dimensions, each element on its own."""
    dims = destinations[0].root.shape.dims
    at = identity(dims)
    e = Expression(stage, dims)
    stores = [store_of(e, d.root, at, d.array) for d in destinations]
    emit_stores(stage, dims, stores)


def store_of(e: Expression, root: HloInstruction, at: AccessMap, array: Array) -> StoredValue:
    """An instruction stored in row-major order."""
    position, steps = at.position(root.shape.dims)
    return StoredValue(spread(e, e.node(root, at)), array, position, steps)


def emit_stores(stage: LoopStage, extents: tuple[int, ...], stores: Sequence[StoredValue]) -> None:
    """Runs a loop over tiles: nodes of all stores, then the stores."""
    if 0 in extents:
        return
    roots = [n for s in stores for n in ((s.node,) if s.index is None else (s.node, s.index))]
    order = reachable(roots)

    def run(tiles: TileEmitter, extents: tuple[int, ...], sizes: tuple[int, ...]) -> None:
        for box in boxes(extents, sizes):
            values = tiles.run(order, roots, box, {})
            by_node = dict(zip(roots, values, strict=True))
            for s in stores:
                index = None if s.index is None else by_node[s.index]
                emit_store(tiles, s, by_node[s.node], index, box.origin, box.sizes)
            for root in roots:
                tiles.release(root)

    dry = tuple(1 for _ in extents)
    slots = planned_slots(stage, lambda tiles: run(tiles, dry, dry))
    run(TileEmitter(stage.commands, slots), extents, box_sizes(extents, slots.elements))


def emit_store(
    tiles: TileEmitter,
    s: StoredValue,
    value: TileValue,
    index: TileValue | None,
    origin: tuple[int, ...],
    sizes: tuple[int, ...],
) -> None:
    """Stores a tile."""
    position = s.position + sum(a * b for a, b in zip(s.steps, origin, strict=True))
    opcode, function = ("store", "") if index is None else ("scatter", s.function or "set")
    tiles.dma(opcode, function, s.node.type, sizes, value, s.array, position, s.steps, index)


def planned_slots(stage: LoopStage, dry_run: Callable[[TileEmitter], None]) -> Slots:
    """As many slots as a stage takes on a tile of a few elements, times its buffering.

    Args:
        stage: where the slots will be used.
        dry_run: runs the stage on such a tile, with an emitter that emits nothing.
    """
    return Slots(stage.commands, slot_count(dry_run) * stage.buffering)


def slot_count(dry_run: Callable[[TileEmitter], None]) -> int:
    """Slots that a run takes at once; at least 1."""
    dry = Slots(None, 1)
    dry_run(TileEmitter(None, dry))
    return max(1, dry.peak)


def whole(e: Expression, node: Node) -> Node:
    """A value that is stored over all iteration variables, whether it depends on them or not."""
    depends = tuple(n > 1 for n in e.extents)
    if node.depends == depends and not isinstance(node, Input):
        return node
    return OperationNode(node.type, depends, (node,), "unary", "copy")


def spread(e: Expression, node: Node) -> Node:
    """A value to be stored: DMA is slow where it reads one element over and over."""
    missing = any(n > 1 and not d for n, d in zip(e.extents, node.depends, strict=True))
    return whole(e, node) if missing else node


def core_of(root: HloInstruction, cores: AbstractSet[str]) -> HloInstruction | None:
    """A core instruction that an elementwise expression of its dimensions goes on from, if any."""
    found: list[HloInstruction] = []
    seen: set[HloInstruction] = set()
    waiting = [root]
    while waiting:
        i = waiting.pop()
        if i in seen or i.shape.dims != root.shape.dims:
            continue
        seen.add(i)
        if i.opcode in cores and i.shape.is_array:
            found.append(i)
        elif i.op.elementwise and instruction_of(i):
            waiting += i.operands
    return found[0] if found else None
