"""Runs the nodes of a stage on one tile: slots of the scratchpad, loads, vector instructions.

Slots are all of one size, and the one that was freed longest ago is taken first: with twice the
slots that a tile needs, the next tile is loaded into others than those still computed with. That
is all there is to double-buffering here.

What a vendor replaces: how an instruction is chosen, if theirs need more than strides.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

from xladev.errors import CompileError
from xladev.platforms.template_npu.codegen.access_map import element_strides, merged
from xladev.platforms.template_npu.codegen.command_list import NOWHERE, CommandList, TrackedBytes
from xladev.platforms.template_npu.codegen.nodes import (
    Array,
    ConstantNode,
    Input,
    Iota,
    Load,
    Node,
    OperationNode,
)
from xladev.platforms.template_npu.device import isa

CELL_NBYTES = 64
CELL_COUNT = 256
ALIGNMENT = 64
SLOT_ROOM = isa.SCRATCHPAD_NBYTES - CELL_COUNT * CELL_NBYTES
"""Bytes of the scratchpad that slots may take."""
MAX_TILE = 16384
SINGLE, DOUBLE = 1, 2
"""Slots of the scratchpad for each value of a tile."""


@dataclass(frozen=True, slots=True)
class TileValue:
    """A value in the scratchpad.

    Attributes:
        buffer: whose bytes it is in.
        address: of its first element.
        strides: bytes, one per iteration variable.
    """

    buffer: TrackedBytes
    address: int
    strides: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Box:
    """A part of an iteration space.

    Attributes:
        origin: first value of each iteration variable.
        sizes: how many values each has.
    """

    origin: tuple[int, ...]
    sizes: tuple[int, ...]


def boxes(extents: Sequence[int], sizes: Sequence[int]) -> Iterator[Box]:
    """An iteration space cut into boxes of at most these sizes, in row-major order."""
    starts = [range(0, extent, max(size, 1)) for extent, size in zip(extents, sizes, strict=True)]
    for origin in product(*starts):
        ends = zip(origin, extents, sizes, strict=True)
        yield Box(origin, tuple(min(size, extent - at) for at, extent, size in ends))


def box_sizes(extents: Sequence[int], limit: int) -> tuple[int, ...]:
    """The largest box of at most ``limit`` elements that is whole in the inner dimensions."""
    sizes: list[int] = []
    for extent in reversed(extents):
        sizes.append(max(1, min(extent, limit)))
        limit //= sizes[-1]
    return tuple(reversed(sizes))


class Slots:
    """Equal pieces of the scratchpad, and small cells for values that a whole stage shares.

    Args:
        commands: where they will be used; None to count only.
        count: of slots.
        reserved_nbytes: bytes that the stage keeps for itself, at the end of the scratchpad.

    Attributes:
        elements: how many elements of any type one slot holds.
        peak: most slots that were taken at once.
    """

    def __init__(self, commands: CommandList | None, count: int, reserved_nbytes: int = 0) -> None:
        self.peak = self._taken = 0
        self._cells = 0
        self._commands = commands
        room = SLOT_ROOM - reserved_nbytes
        nbytes = min(room // count // ALIGNMENT * ALIGNMENT, 4 * MAX_TILE)
        self.elements = nbytes // 4
        first = CELL_COUNT * CELL_NBYTES
        self._free = deque(self._buffer(first + n * nbytes) for n in range(count))

    def _buffer(self, address: int) -> TrackedBytes:
        return (
            TrackedBytes(address)
            if self._commands is None
            else self._commands.scratchpad_buffer(address)
        )

    def take(self) -> TrackedBytes:
        """A free slot, the one freed longest ago."""
        self._taken += 1
        self.peak = max(self.peak, self._taken)
        if self._free:
            return self._free.popleft()
        if self._commands is None:
            return TrackedBytes(0)
        raise CompileError("a tile needs more scratchpad than was planned")

    def reserved(self, offset: int) -> TrackedBytes:
        """The reserved bytes from ``offset`` on, counted from the end of the scratchpad."""
        return self._buffer(isa.SCRATCHPAD_NBYTES - offset)

    def give(self, buffer: TrackedBytes) -> None:
        """Frees a slot."""
        self._taken -= 1
        self._free.append(buffer)

    def cell(self) -> TrackedBytes:
        """64 bytes for the rest of the stage."""
        if self._cells == CELL_COUNT:
            raise CompileError(f"a kernel has more than {CELL_COUNT} scalars")
        self._cells += 1
        return self._buffer((self._cells - 1) * CELL_NBYTES)


Piece = tuple[tuple[int, ...], tuple[tuple[int, tuple[int, ...]], ...]]
"""Loop counts, and for each operand the address it adds and its strides."""


@lru_cache(maxsize=16384)
def pieces(
    counts: tuple[int, ...], strides: tuple[tuple[int, ...], ...], max_lanes: int
) -> tuple[Piece, ...]:
    """The instructions of four loops each that make up a loop nest.

    Args:
        counts: of the loops, outermost first.
        strides: for each operand, one per loop.
        max_lanes: most iterations of the innermost loop; 0 for no limit.
    """
    loops, columns = merged(counts, strides)
    if max_lanes and loops and loops[-1] > max_lanes:
        return _split_lanes(loops, columns, max_lanes)
    if len(loops) <= isa.LOOP_COUNT:
        pad = (0,) * (isa.LOOP_COUNT - len(loops))
        padded = tuple((0, (*pad, *column)) for column in columns)
        return (((*(1 for _ in pad), *loops), padded),)
    outer = len(loops) - isa.LOOP_COUNT
    made: list[Piece] = []
    for at in product(*(range(n) for n in loops[:outer])):
        placed = tuple(
            (sum(i * s for i, s in zip(at, column, strict=False)), column[outer:])
            for column in columns
        )
        made.append((loops[outer:], placed))
    return tuple(made)


def _split_lanes(
    loops: tuple[int, ...], columns: tuple[tuple[int, ...], ...], max_lanes: int
) -> tuple[Piece, ...]:
    """The innermost loop as repeats of full width, and what is left."""
    whole, rest = divmod(loops[-1], max_lanes)
    made: list[Piece] = []
    wide = tuple((*c[:-1], c[-1] * max_lanes, c[-1]) for c in columns)
    made += pieces_of_loops((*loops[:-1], whole, max_lanes), wide)
    if rest:
        starts = [c[-1] * whole * max_lanes for c in columns]
        for counts, placed in pieces((*loops[:-1], rest), columns, 0):
            moved = tuple((d + s, t) for (d, t), s in zip(placed, starts, strict=True))
            made.append((counts, moved))
    return tuple(made)


def pieces_of_loops(
    loops: tuple[int, ...], columns: tuple[tuple[int, ...], ...]
) -> tuple[Piece, ...]:
    """Instructions for loops that stay as they are, the innermost being lanes."""
    loops, columns = _without_ones(loops, columns)
    extra = len(loops) - isa.LOOP_COUNT
    if extra <= 0:
        pad = (0,) * -extra
        return (((*(1 for _ in pad), *loops), tuple((0, (*pad, *c)) for c in columns)),)
    made: list[Piece] = []
    for at in product(*(range(n) for n in loops[:extra])):
        placed = tuple(
            (sum(i * s for i, s in zip(at, c, strict=False)), c[extra:]) for c in columns
        )
        made.append((loops[extra:], placed))
    return tuple(made)


def _without_ones(
    loops: tuple[int, ...], columns: tuple[tuple[int, ...], ...]
) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
    kept = [n for n, count in enumerate(loops[:-1]) if count > 1] + [len(loops) - 1]
    return tuple(loops[n] for n in kept), tuple(tuple(c[n] for n in kept) for c in columns)


class TileEmitter:
    """Emits the instructions of tiles; values that depend on no iteration variable are kept.

    Attributes:
        commands: where to; None for a dry run.
        slots: the scratchpad.
        order: iteration variables from slowest to fastest, as values of nodes are in their slots;
            empty for the order in which they come.
        taken: slots of the nodes whose values are held.
    """

    def __init__(self, commands: CommandList | None, slots: Slots) -> None:
        self.commands = commands
        self.slots = slots
        self.order: tuple[int, ...] = ()
        self._kept: dict[Node, TileValue] = {}
        self.taken: dict[Node, TrackedBytes] = {}

    # Nodes

    def run(
        self,
        order: Sequence[Node],
        roots: Sequence[Node],
        box: Box,
        inputs: Mapping[object, TileValue],
    ) -> list[TileValue]:
        """The values of roots on a box; slots of all others are free again.

        Args:
            order: what to compute, operands first.
            roots: values wanted; `release` gives their slots back.
            box: the part of the iteration space.
            inputs: values of `Input` nodes, by name.
        """
        uses: dict[Node, int] = {}
        for node in (*(o for n in order for o in n.operands), *roots):
            uses[node] = uses.get(node, 0) + 1
        values: dict[Node, TileValue] = {}
        for node in order:
            values[node] = self._value(node, values, box, inputs)
            for operand in node.operands:
                uses[operand] -= 1
                if not uses[operand]:
                    self.release(operand)
        return [values[root] for root in roots]

    def release(self, node: Node) -> None:
        """Frees the slot of a node, if it has one."""
        buffer = self.taken.pop(node, None)
        if buffer is not None:
            self.slots.give(buffer)

    def _value(
        self,
        node: Node,
        values: Mapping[Node, TileValue],
        box: Box,
        inputs: Mapping[object, TileValue],
    ) -> TileValue:
        if isinstance(node, Input):
            return inputs[node.name]
        kept = self._kept.get(node)
        if kept is not None:
            return kept
        if not any(node.depends):
            made = self._kept[node] = TileValue(*self._in_cell(), (0,) * len(box.sizes))
        else:
            made = self.dense(box.sizes, node.depends, isa.TYPES[node.type].nbytes, node)
        self._fill(node, made, [values[o] for o in node.operands], box)
        return made

    def _in_cell(self) -> tuple[TrackedBytes, int]:
        buffer = self.slots.cell()
        return buffer, buffer.address

    def dense(
        self, sizes: Sequence[int], depends: Sequence[bool], nbytes: int, owner: Node | None = None
    ) -> TileValue:
        """A slot for a value over the loops that it depends on; owned by a node if given."""
        buffer = self.slots.take()
        if owner is not None:
            self.taken[owner] = buffer
        own = tuple(n if d else 1 for n, d in zip(sizes, depends, strict=True))
        order = self.order or range(len(own))
        steps = dict(zip(order, element_strides(tuple(own[j] for j in order)), strict=True))
        strides = tuple(steps[j] * nbytes if n > 1 else 0 for j, n in enumerate(own))
        return TileValue(buffer, buffer.address, strides)

    def _fill(self, node: Node, made: TileValue, operands: list[TileValue], box: Box) -> None:
        sizes = tuple(n if d else 1 for n, d in zip(box.sizes, node.depends, strict=True))
        match node:
            case ConstantNode():
                self.vector("fill", "", (node.type, node.type), sizes, made, (), node.bits)
            case Iota():
                start = node.start + _dot(node.steps, box.origin)
                self.iota(node, sizes, made, start)
            case Load():
                self._load(node, made, operands, box.origin, sizes)
            case OperationNode():
                source = node.operands[-1].type
                types = (source, node.type)
                if node.function == "copy":  # of bits, whatever they mean
                    types = (node.type, node.type)
                self.vector(node.opcode, node.function, types, sizes, made, operands, node.imm)
            case _:
                raise CompileError(f"no code for {type(node).__name__}")

    # Instructions

    def vector(
        self,
        opcode: str,
        function: str,
        types: tuple[int, int],
        sizes: tuple[int, ...],
        made: TileValue,
        operands: Sequence[TileValue],
        imm: int = 0,
    ) -> None:
        """A vector instruction over a box."""
        if self.commands is None:
            return
        row = isa.BY_NAME[opcode]
        number = row.functions.index(function) if row.functions else 0
        used = (made, *operands)
        columns = tuple(v.strides for v in used)
        if self.order:
            sizes = tuple(sizes[j] for j in self.order)
            columns = tuple(tuple(c[j] for j in self.order) for c in columns)
        reads, writes = [v.buffer for v in operands], (made.buffer,)
        for counts, placed in pieces(sizes, columns, isa.MAX_LANES):
            references = [
                (v.address + moved, strides)
                for v, (moved, strides) in zip(used, placed, strict=True)
            ]
            references += [NOWHERE] * (4 - len(references))
            self.commands.emit(row, number, types, counts, references, (imm,), reads, writes)

    def reduce(
        self, function: str, type_: int, sizes: tuple[int, ...], made: TileValue, value: TileValue
    ) -> None:
        """The innermost loop of a value, of at most `isa.MAX_LANES`, reduced by the vector unit."""
        if self.commands is None:
            return
        row = isa.BY_NAME["reduce"]
        number = row.functions.index(function)
        for counts, placed in pieces_of_loops(sizes, ((*made.strides, 0), value.strides)):
            (to, out), (moved, source) = placed
            operands = [(made.address + to, out), (value.address + moved, source), NOWHERE, NOWHERE]
            self.commands.emit(
                row, number, (type_, type_), counts, operands, (0,), (value.buffer,), (made.buffer,)
            )

    def iota(self, node: Iota, sizes: tuple[int, ...], made: TileValue, start: int) -> None:
        """Numbers that grow along each loop."""
        if self.commands is None:
            return
        row = isa.BY_NAME["iota"]
        for counts, placed in pieces(sizes, (made.strides, node.steps), isa.MAX_LANES):
            (moved, strides), (value, steps) = placed
            references = [(made.address + moved, strides), (0, steps), NOWHERE, NOWHERE]
            imm = (start + value) & 0xFFFFFFFF
            self.commands.emit(
                row, 0, (node.type, node.type), counts, references, (imm,), (), (made.buffer,)
            )

    def _load(
        self, node: Load, made: TileValue, operands: list[TileValue], origin: tuple[int, ...],
        sizes: tuple[int, ...],
    ) -> None:  # fmt: skip
        index = operands[0] if operands else None
        position = node.position + _dot(node.steps, origin)
        self.dma(
            "load" if index is None else "gather", "", node.type, sizes, made, node.array,
            position, node.steps, index,
        )  # fmt: skip

    def dma(
        self,
        opcode: str,
        function: str,
        type_: int,
        sizes: tuple[int, ...],
        value: TileValue,
        array: Array,
        position: int,
        steps: Sequence[int],
        index: TileValue | None = None,
    ) -> None:
        """A transfer between the scratchpad and an array.

        Args:
            opcode, function: which transfer.
            type_: number of the element type.
            sizes: of the loops.
            value: the scratchpad's side.
            array: the DRAM side.
            position, steps: of the elements of the array, in elements.
            index: for gather and scatter.
        """
        if self.commands is None:
            return
        row = isa.BY_NAME[opcode]
        number = row.functions.index(function) if row.functions else 0
        nbytes = isa.TYPES[type_].nbytes
        index_strides = index.strides if index else (0,) * len(sizes)
        columns: tuple[tuple[int, ...], ...] = (
            value.strides, index_strides, tuple(s * nbytes for s in steps)
        )  # fmt: skip
        if index is None:
            sizes, columns = _fastest_inside(sizes, columns)
        start = array.offset + position * nbytes
        is_load = row.engine == isa.LOAD
        reads = [array.window if is_load else value.buffer]
        reads += [index.buffer] if index else []
        writes = [value.buffer if is_load else array.window]
        for counts, placed in pieces(sizes, columns, 0):
            (held, held_strides), (at, at_strides), (moved, strides) = placed
            references = [
                (value.address + held, held_strides),
                (index.address + at if index else 0, at_strides),
                (start + moved, strides),
            ]
            scalars = (nbytes if index else 0, array.window.address)
            self.commands.emit(
                row, number, (type_, type_), counts, references, scalars, reads, writes
            )


def _fastest_inside(
    sizes: tuple[int, ...], columns: tuple[tuple[int, ...], ...]
) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
    """The loops of a copy in the order of DRAM: what is contiguous there is the innermost."""
    steps = columns[-1]
    order = sorted(range(len(sizes)), key=lambda j: (steps[j] != 0, -abs(steps[j])))
    return tuple(sizes[j] for j in order), tuple(tuple(c[j] for j in order) for c in columns)


def _dot(a: Sequence[int], b: Sequence[int]) -> int:
    return sum(x * y for x, y in zip(a, b, strict=True))
