"""Attention, some queries at a time: their scores stay in the cache, and never are in memory.

A block's scores are a product into the kernel's own memory; there they are scaled, masked and made
exponentials, which are multiplied by the values into the result. All of it is done by microkernels
that programs share, but for what programs do to scores besides scaling them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from math import prod

from xladev.codegen.attention import Attention
from xladev.codegen.attention_search import attention_in_kernel
from xladev.codegen.elemental.emitter import ElementalEmitter
from xladev.codegen.elemental.rules import ELEMENT_RULES
from xladev.codegen.elemental.vectors import VectorEmitter
from xladev.codegen.index import Index, IndexValue
from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.llvm import FLOAT, I64, PTR, Value, vector
from xladev.codegen.matrices import Side
from xladev.codegen.scalar.elements import Element, real_of
from xladev.hlo import dtype as dt
from xladev.hlo.ir import HloInstruction
from xladev.platforms.cpu.codegen.build import KernelBuild
from xladev.platforms.cpu.codegen.products.all_panels import AllPanelsArguments, call_pack_all
from xladev.platforms.cpu.codegen.products.dot import cut
from xladev.platforms.cpu.codegen.products.driver import (
    NEAR_NBYTES,
    BlockArguments,
    call_block,
    call_stream,
)
from xladev.platforms.cpu.codegen.products.kinds import PANEL_NBYTES, ProductKind
from xladev.platforms.cpu.codegen.products.orders import Order
from xladev.platforms.cpu.codegen.products.tables import LinesArguments, call_lines
from xladev.platforms.cpu.codegen.products.weights import (
    LANES,
    DivisionArguments,
    WeightsArguments,
    call_division,
    call_weights,
)
from xladev.platforms.cpu.codegen.vectors import in_vectors_and_rest, lanes_for

LEAST_ROWS = 16
"""Queries below which the kernels of products and softmaxes are faster, as they are below so many
keys: measured, 16 queries and keys take 1.4 times as long in one kernel, 32 take 0.9 times."""
LEAST_KEYS = 32
LEAST_WIDTH = 8
ROWS_STEP = 24
"""What tiles of 8 rows and of 6 divide."""
MOST_ROWS = 48
"""Queries of a block: enough to use what was packed while it is in the L1 cache."""
NEAR_SCORES_NBYTES = 256 << 10
"""Bytes of the scores of a block of more than `ROWS_STEP` queries: they share the second cache with
keys and values."""
MOST_SCORES_NBYTES = 2 << 20
"""Bytes of the scores of any block. Measured: 16,384 keys, whose scores take more than the second
cache, take 0.80 of the time of three kernels, which write and read all scores."""
MOST_PACKED_NBYTES = 8 << 20
"""Bytes of keys, or of values, that are packed once for all blocks. Measured: packing 384 KB for
each block in place of once takes 1.12 times as long, 4 MB 1.11 times; they are read in order."""
LEAST_CHUNKS = 8
"""Chunks of queries to share among threads, if there are as many."""
_WIDEST = 32
"""Columns of the widest tile, which those of others divide."""
_SIZE = 4
_TAIL = 16
"""Scores between two rows, so that rows do not share the same sets of the cache."""


class OperandReading(Enum):
    """How the right operand of a product is read."""

    STREAMED = 0
    """As it is in memory."""
    PACKED = 1
    """From panels that are packed once."""
    BY_BLOCK = 2
    """From one panel after the other, packed for each block."""


@dataclass(frozen=True, slots=True)
class AttentionSizes:
    """The kernel's own memory.

    Attributes:
        rows: queries of a block.
        row: bytes from one row of scores to the next.
        keys_nbytes, values_nbytes: of what is packed once.
        panel_nbytes: of one panel, where some are packed for each block.
    """

    rows: int
    row: int
    keys_nbytes: int
    values_nbytes: int
    panel_nbytes: int

    @property
    def table_nbytes(self) -> int:
        """Addresses of a block's rows."""
        return 8 * self.rows

    @property
    def sums_nbytes(self) -> int:
        """Sums of weights, one for each row."""
        return -(-self.rows * _SIZE // 64) * 64

    @property
    def workspace_nbytes(self) -> int:
        """Panel, keys, values, the table of rows, sums, scores."""
        panels = self.panel_nbytes + self.keys_nbytes + self.values_nbytes
        return panels + self.table_nbytes + self.sums_nbytes + self.rows * self.row


def attention_refusal(found: Attention) -> str:
    """Why this kernel is none for an attention, or slower than its parts' own; empty if it is."""
    others = found.types() - {dt.F32}
    if others:
        return f"it has {' and '.join(sorted(t.name for t in others))}, the kernel f32 alone"
    if found.values.result[2] != 1:
        return "neighbouring columns of its result are not contiguous in memory"
    if found.rows < LEAST_ROWS or found.columns < LEAST_KEYS or found.width < LEAST_WIDTH:
        sizes = f"{found.rows} queries, {found.columns} keys and values of {found.width}"
        return f"{sizes} are too few to be faster in one kernel"
    if not _block_rows(found):
        return f"a row of {found.columns} scores is too long for the cache"
    return ""


def _row_nbytes(found: Attention) -> int:
    return (-(-found.columns // LANES) * LANES + _TAIL) * _SIZE


def _block_rows(found: Attention) -> int:
    """Most queries of a block; 0 if rows are too long for the cache."""
    row = _row_nbytes(found)
    near = min(NEAR_SCORES_NBYTES // row // ROWS_STEP * ROWS_STEP, MOST_ROWS)
    return near or (ROWS_STEP if ROWS_STEP * row <= MOST_SCORES_NBYTES else 0)


def attention_sizes(found: Attention) -> AttentionSizes:
    """How queries are cut into blocks, where this kernel takes an attention."""
    row, most = _row_nbytes(found), _block_rows(found)
    rights = found.keys, found.values.matrix
    keys, values = (_packed_nbytes(r) if _way(r) is OperandReading.PACKED else 0 for r in rights)
    has_panel = any(_way(r) is OperandReading.BY_BLOCK for r in rights)
    rows = cut(found.rows, 1, ROWS_STEP, ROWS_STEP, most)
    return AttentionSizes(rows, row, keys, values, PANEL_NBYTES if has_panel else 0)


def attention_workspace_nbytes(spec: KernelSpec) -> int:
    """What `AttentionSizes` says; 0 for another kernel."""
    found = attention_kernel_of(spec)
    return 0 if found is None else attention_sizes(found).workspace_nbytes


def attention_kernel_of(spec: KernelSpec) -> Attention | None:
    """The attention that a kernel computes in this way; None if it is another kernel."""
    found = attention_in_kernel(spec.computation.root)
    return found if found is not None and not attention_refusal(found) else None


def emit_attention(k: KernelBuild, found: Attention) -> None:
    """Writes the kernel: chunks of queries for each batch index, all of them apart."""
    _Blocks(k, found, attention_sizes(found)).emit()


def _order(right: Side) -> Order:
    if right.free == 1:
        return Order.ROWS
    return Order.COLUMNS if right.step == 1 else Order.APART


def _packed_nbytes(right: Side) -> int:
    return -(-right.extent // _WIDEST) * _WIDEST * right.depth * _SIZE


def _way(right: Side) -> OperandReading:
    is_near = right.depth * right.step * _SIZE <= NEAR_NBYTES
    if _order(right) is Order.ROWS and is_near and right.extent % _WIDEST == 0:
        return OperandReading.STREAMED
    return (
        OperandReading.PACKED
        if _packed_nbytes(right) <= MOST_PACKED_NBYTES
        else OperandReading.BY_BLOCK
    )


@dataclass(frozen=True, slots=True)
class _Block:
    """Queries that are looked at together: where they begin, and how many."""

    batch: Index
    row: Value
    rows: Value


@dataclass(frozen=True, slots=True)
class _Right:
    """The right operand of a product: its first element, and where it is packed."""

    side: Side
    first: Value
    packed: Value


class _Blocks:
    def __init__(self, k: KernelBuild, found: Attention, sizes: AttentionSizes) -> None:
        self.k, self.b, self.found, self.sizes = k, k.b, found, sizes
        self.kind = ProductKind.of(k.b.module.target, dt.F32, dt.F32, dt.F32)

    def emit(self) -> None:
        """One loop over all chunks, in parts; keys and values are packed for each."""
        b, at, rows = self.b, self.k.e.at, self.found.rows
        batch = prod(self.found.batch)
        parts = -(-LEAST_CHUNKS // batch) if self.k.is_shared else 1
        step = self.sizes.rows
        chunk = cut(rows, parts, step, step, -(-rows // step) * step)
        extents = (*self.found.batch, -(-rows // chunk))

        def part(begin: IndexValue, end: IndexValue) -> None:
            with b.loop(at.value(begin), at.value(end)) as number, self.k.e.scope():
                *outer, place = at.delinear(number, extents)
                first = at.value(at.mul(place, chunk))
                last = b.intrinsic("smin", b.add(first, chunk), rows)
                self._chunk(tuple(outer), first, last)

        self.k.split(prod(extents), part, private_nbytes=self.sizes.workspace_nbytes)

    # The kernel's own memory

    @property
    def _keys(self) -> Value:
        return self.b.byte_address(self.k.scratch, self.sizes.panel_nbytes)

    @property
    def _values(self) -> Value:
        return self.b.byte_address(self._keys, self.sizes.keys_nbytes)

    @property
    def _table(self) -> Value:
        return self.b.byte_address(self._values, self.sizes.values_nbytes)

    @property
    def _sums(self) -> Value:
        return self.b.byte_address(self._table, self.sizes.table_nbytes)

    @property
    def _scores(self) -> Value:
        return self.b.byte_address(self._sums, self.sizes.sums_nbytes)

    # A chunk

    def _chunk(self, batch: Index, first: Value, last: Value) -> None:
        b, found = self.b, self.found
        _, *operands = found.operands
        sides = found.keys, found.values.matrix
        places = self._keys, self._values
        rights = [
            _Right(side, self._address(self._operand(o), batch, side.batch), place)
            for o, side, place in zip(operands, sides, places, strict=True)
        ]
        for right in rights:
            if _way(right.side) is OperandReading.PACKED:
                self._pack(right)
        with b.loop(first, last, self.sizes.rows) as row, self.k.e.scope():
            rows = b.intrinsic("smin", b.sub(last, row), self.sizes.rows)
            self._block(_Block(batch, row, rows), *rights)

    def _pack(self, right: _Right) -> None:
        b, side = self.b, right.side
        step, column = (b.const(I64, n * _SIZE) for n in (side.step, side.free))
        depth, extent = b.const(I64, side.depth), b.const(I64, side.extent)
        arguments = AllPanelsArguments(right.packed, right.first, depth, step, column, extent)
        call_pack_all(b, self.kind, _order(side), arguments)

    def _block(self, block: _Block, keys: _Right, values: _Right) -> None:
        b, sizes, found = self.b, self.sizes, self.found
        self._multiply_queries(block, keys)
        factor = found.factor
        if factor is None:
            _Scores(self.k, found, block, self._scores, sizes.row).emit()
        call_weights(b, WeightsArguments(
            scores=self._scores,
            row=b.const(I64, sizes.row),
            rows=block.rows,
            keys=b.const(I64, found.columns),
            factor=b.const(FLOAT, 1.0 if factor is None else factor),
            sums=self._sums,
            is_guarded=b.const(I64, found.softmax.is_guarded),
        ))  # fmt: skip
        self._multiply_values(block, values)

    def _multiply_queries(self, block: _Block, keys: _Right) -> None:
        """Scores of a block."""
        b, queries = self.b, self.found.queries
        row = b.const(I64, queries.free * _SIZE)
        first = self._address(self._operand(self.found.operands[0]), block.batch, queries.batch)
        first = b.byte_address(first, b.mul(block.row, row))
        call_lines(b, self.kind.rows, LinesArguments(self._table, first, row, block.rows))
        self._multiply(block, queries.step, keys, self._scores, b.const(I64, self.sizes.row))

    def _multiply_values(self, block: _Block, values: _Right) -> None:
        """The result of a block, divided by the sums of its weights."""
        b, places = self.b, self.found.values.result
        row = b.const(I64, self.sizes.row)
        call_lines(b, self.kind.rows, LinesArguments(self._table, self._scores, row, block.rows))
        line = b.const(I64, places[1] * _SIZE)
        result = self._address(self.k.results[0].base, block.batch, places[0])
        result = b.byte_address(result, b.mul(block.row, line))
        self._multiply(block, 1, values, result, line)
        columns = b.const(I64, self.found.width)
        call_division(b, DivisionArguments(result, line, block.rows, columns, self._sums))

    def _multiply(self, block: _Block, step: int, right: _Right, result: Value, row: Value) -> None:
        """Rows of the table by a matrix."""
        b, side, way = self.b, right.side, _way(right.side)
        arguments = BlockArguments(
            table=self._table,
            rows=block.rows,
            positions=b.const(I64, 1),
            left_step=b.const(I64, step * _SIZE),
            steps=b.const(I64, side.depth),
            right=right.first,
            right_position=b.const(I64, 0),
            right_step=b.const(I64, side.step * _SIZE),
            right_column=b.const(I64, side.free * _SIZE),
            result=result,
            result_row=row,
            columns=b.const(I64, side.extent),
            goes_on=b.const(I64, 0),
            runs=Value("null", PTR),
            panel=self.k.scratch,
            most_lines=b.const(I64, self.kind.depth),
        )
        if way is OperandReading.STREAMED:
            call_stream(b, self.kind, arguments)
        elif way is OperandReading.BY_BLOCK:
            call_block(b, self.kind, _order(side), arguments)
        else:
            packed = arguments._replace(
                right=right.packed,
                right_step=b.const(I64, self.kind.width * _SIZE),
                right_column=b.const(I64, side.depth * _SIZE),
                panel=Value("null", PTR),
            )
            call_block(b, self.kind, Order.PANELS, packed)

    def _operand(self, operand: HloInstruction) -> Value:
        return self.k.e.arrays[operand][0].base

    def _address(self, base: Value, batch: Index, strides: tuple[int, ...]) -> Value:
        at = self.k.e.at
        return self.b.byte_address(base, at.value(at.mul(at.strided(batch, strides), _SIZE)))


class _ScoreVectors(VectorEmitter):
    """Vectors of scores, whose products are at hand."""

    def __init__(
        self,
        single: ElementalEmitter,
        lanes: int,
        product: HloInstruction,
        at_hand: Mapping[HloInstruction, tuple[Element, ...]],
    ) -> None:
        super().__init__(single, lanes)
        self._product, self._at_hand = product, at_hand

    def _emit(self, instruction: HloInstruction, index: Index) -> Element:
        if instruction is self._product:
            return self._at_hand[instruction][0]
        return super()._emit(instruction, index)


class _Scores:
    """Scales, biases and masks, as programs spell them, on a block's products."""

    def __init__(
        self, k: KernelBuild, found: Attention, block: _Block, scores: Value, row: int
    ) -> None:
        self.found, self.block, self.scores, self.row, self.b = found, block, scores, row, k.b
        self.at_hand: dict[HloInstruction, tuple[Element, ...]] = {}
        single = ElementalEmitter(k.b, ELEMENT_RULES, k.e.arrays, self.at_hand)
        self.k = replace(k, e=single)

    def emit(self) -> None:
        """In place: in vectors, or element by element."""
        if not self.k.attempt(lambda: self._rows(lanes_for(self.k, self.found.columns))):
            self._rows(1)

    def _rows(self, lanes: int) -> None:
        b, k = self.b, self.k
        e = _ScoreVectors(k.e, lanes, self.found.product, self.at_hand)
        with b.loop(0, self.block.rows) as number, e.scope():
            query = b.add(self.block.row, number)
            line = b.byte_address(self.scores, b.mul(number, self.row))

            def whole(key: Value) -> None:
                self._store(e, line, query, key, lanes)

            def rest(key: IndexValue) -> None:
                self._store(k.e, line, query, k.e.at.value(key), 1)

            if lanes == 1:
                with b.loop(0, self.found.columns) as key, k.e.scope():
                    rest(key)
            else:
                in_vectors_and_rest(e, 0, self.found.columns, whole, rest)

    def _store(self, e: ElementalEmitter, line: Value, query: Value, key: Value, n: int) -> None:
        place = self.b.element_address(line, key, FLOAT)
        held = self.b.load(vector(FLOAT, n) if n > 1 else FLOAT, place, align=_SIZE)
        self.at_hand[self.found.product] = (held,)
        found, at = self.found, e.at
        scores, along = found.scores, (*self.block.batch, query, key)
        sizes = (*found.batch, found.rows, found.columns)
        index = tuple(
            at.linear([along[n] for n in axes], [sizes[n] for n in axes])
            for axes in found.score_axes
        )
        self.b.store(real_of(e.element(scores, index), "a score"), place, align=_SIZE)
