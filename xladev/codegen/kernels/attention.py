"""Attention, some queries at a time: their scores stay in the cache, and never lie in memory.

A block's scores are a product into the kernel's own memory; there they are scaled, masked and made
exponentials, which are multiplied by the values into the result. All of it is done by procedures
that programs share, but for what programs do to scores besides scaling them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod

from xladev.codegen.attention import Attention, attention_of
from xladev.codegen.elemental.emitter import ElementalEmitter
from xladev.codegen.elemental.rules import ELEMENT_RULES
from xladev.codegen.elemental.vectors import VectorEmitter
from xladev.codegen.index import Index, IndexValue
from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.kernels.build import KernelBuild
from xladev.codegen.kernels.products.dot import cut
from xladev.codegen.kernels.products.driver import (
    NEAR_NBYTES,
    BlockArguments,
    call_block,
    call_stream,
)
from xladev.codegen.kernels.products.kinds import PANEL_NBYTES, ProductKind
from xladev.codegen.kernels.products.matrices import Side
from xladev.codegen.kernels.products.orders import Order
from xladev.codegen.kernels.products.tables import LinesArguments, call_lines
from xladev.codegen.kernels.products.weights import (
    LANES,
    DivisionArguments,
    WeightsArguments,
    call_division,
    call_weights,
)
from xladev.codegen.kernels.vectors import in_vectors_and_rest, lanes_for
from xladev.codegen.llvm import FLOAT, I64, PTR, Value, vector
from xladev.codegen.scalar.elements import Element, real_of
from xladev.hlo import dtype as dt
from xladev.hlo.ir import HloInstruction

ROWS_STEP = 24
"""What tiles of 8 rows and of 6 divide."""
MOST_ROWS = 120
MOST_NBYTES = 256 << 10
"""Bytes of the scores of a block: they share the second cache with keys and values."""
_SIZE = 4
_TAIL = 16
"""Scores between two rows, so that rows do not share the same sets of the cache."""


@dataclass(frozen=True, slots=True)
class AttentionSizes:
    """The kernel's own memory.

    Attributes:
        rows: queries of a block.
        row: bytes from one row of scores to the next.
    """

    rows: int
    row: int

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
        """One packed panel, the table of rows, sums, scores."""
        return PANEL_NBYTES + self.table_nbytes + self.sums_nbytes + self.rows * self.row


def attention_sizes(found: Attention) -> AttentionSizes | None:
    """How queries are cut into blocks; None if rows are too long for the cache."""
    row = (-(-found.columns // LANES) * LANES + _TAIL) * _SIZE
    most = min(MOST_NBYTES // row // ROWS_STEP * ROWS_STEP, MOST_ROWS)
    if not most:
        return None
    return AttentionSizes(cut(found.rows, 1, ROWS_STEP, ROWS_STEP, most), row)


def attention_workspace_nbytes(spec: KernelSpec) -> int:
    """What `AttentionSizes` says; 0 for another kernel."""
    found = attention_of(spec.computation.root)
    sizes = None if found is None else attention_sizes(found)
    return 0 if sizes is None else sizes.workspace_nbytes


def emit_attention(k: KernelBuild, found: Attention, sizes: AttentionSizes) -> None:
    """Writes the kernel: blocks of queries for each batch index, all of them apart."""
    _Blocks(k, found, sizes).emit()


def _order(right: Side) -> Order:
    if right.free == 1:
        return Order.ROWS
    return Order.COLUMNS if right.step == 1 else Order.APART


@dataclass(frozen=True, slots=True)
class _Block:
    """Queries that are looked at together: where they begin, how many, and their scores."""

    batch: Index
    row: Value
    rows: Value
    table: Value
    sums: Value
    scores: Value


class _Blocks:
    def __init__(self, k: KernelBuild, found: Attention, sizes: AttentionSizes) -> None:
        self.k, self.b, self.found, self.sizes = k, k.b, found, sizes
        self.kind = ProductKind.of(k.b.module.target, dt.F32, dt.F32, dt.F32)

    def emit(self) -> None:
        """One loop over all blocks, in parts."""
        b, at, sizes = self.b, self.k.e.at, self.sizes
        extents = (*self.found.batch, -(-self.found.rows // sizes.rows))

        def part(begin: IndexValue, end: IndexValue) -> None:
            with b.loop(at.value(begin), at.value(end)) as number, self.k.e.scope():
                *batch, block = at.delinear(number, extents)
                self._block(tuple(batch), at.value(at.mul(block, sizes.rows)))

        self.k.split(prod(extents), part, private_nbytes=sizes.workspace_nbytes)

    def _block(self, batch: Index, row: Value) -> None:
        b, sizes = self.b, self.sizes
        rows = b.intrinsic("smin", b.sub(b.const(I64, self.found.rows), row), sizes.rows)
        table = b.byte_address(self.k.scratch, PANEL_NBYTES)
        sums = b.byte_address(table, sizes.table_nbytes)
        scores = b.byte_address(sums, sizes.sums_nbytes)
        block = _Block(batch, row, rows, table, sums, scores)
        self._multiply_queries(block)
        factor = self.found.factor
        if factor is None:
            _Scores(self.k, self.found, block, sizes.row).emit()
        call_weights(b, WeightsArguments(
            scores=scores,
            row=b.const(I64, sizes.row),
            rows=rows,
            keys=b.const(I64, self.found.columns),
            factor=b.const(FLOAT, 1.0 if factor is None else factor),
            sums=sums,
        ))  # fmt: skip
        self._multiply_values(block)

    def _multiply_queries(self, block: _Block) -> None:
        """Scores of a block."""
        b, found = self.b, self.found
        queries, keys = (self._operand(o) for o in found.product.operands)
        first = self._address(queries, block.batch, found.queries.batch)
        row = b.const(I64, found.queries.free * _SIZE)
        first = b.byte_address(first, b.mul(block.row, row))
        call_lines(b, self.kind.rows, LinesArguments(block.table, first, row, block.rows))
        right = self._address(keys, block.batch, found.keys.batch)
        place = block.scores, b.const(I64, self.sizes.row)
        self._multiply(block, found.queries.step, found.keys, right, *place)

    def _multiply_values(self, block: _Block) -> None:
        """The result of a block, divided by the sums of its weights."""
        b, values = self.b, self.found.values
        row = b.const(I64, self.sizes.row)
        call_lines(b, self.kind.rows, LinesArguments(block.table, block.scores, row, block.rows))
        operand = self._operand(self.found.last.operands[values.number])
        right = self._address(operand, block.batch, values.matrix.batch)
        result = self._address(self.k.results[0].base, block.batch, values.result[0])
        line = b.const(I64, values.result[1] * _SIZE)
        result = b.byte_address(result, b.mul(block.row, line))
        self._multiply(block, 1, values.matrix, right, result, line)
        columns = b.const(I64, self.found.width)
        call_division(b, DivisionArguments(result, line, block.rows, columns, block.sums))

    def _multiply(
        self, block: _Block, step: int, right: Side, first: Value, result: Value, row: Value
    ) -> None:
        """Rows of the table by a matrix."""
        b = self.b
        arguments = BlockArguments(
            table=block.table,
            rows=block.rows,
            positions=b.const(I64, 1),
            left_step=b.const(I64, step * _SIZE),
            steps=b.const(I64, right.depth),
            right=first,
            right_position=b.const(I64, 0),
            right_step=b.const(I64, right.step * _SIZE),
            right_column=b.const(I64, right.free * _SIZE),
            result=result,
            result_row=row,
            columns=b.const(I64, right.extent),
            goes_on=b.const(I64, 0),
            runs=Value("null", PTR),
            panel=self.k.scratch,
        )
        order = _order(right)
        is_near = right.depth * right.step * _SIZE <= NEAR_NBYTES
        if order is Order.ROWS and is_near and right.extent % self.kind.width == 0:
            call_stream(b, self.kind, arguments)
        else:
            call_block(b, self.kind, order, arguments)

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

    def __init__(self, k: KernelBuild, found: Attention, block: _Block, row: int) -> None:
        self.found, self.block, self.row, self.b = found, block, row, k.b
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
            line = b.byte_address(self.block.scores, b.mul(number, self.row))

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
        kept = iter((*self.block.batch, query, key))
        scores = self.found.scores
        index = tuple(0 if size == 1 else next(kept) for size in scores.shape.dims)
        self.b.store(real_of(e.element(scores, index), "a score"), place, align=_SIZE)
