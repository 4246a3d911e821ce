"""Attention in one kernel: a block looks at some queries, key by key, and keeps no scores.

Each sub-group has a few queries, each of its threads one key of a tile, which is in shared
memory with its values. A running maximum and sum make the softmax (Milakov and Gimelshein, 2018):
when the maximum rises, what was summed is scaled down. Products are f32 by fused multiply-adds, and
weights stay f32, also where HLO rounds them to the type of the values before the second product.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from xladev.codegen.attention import Attention
from xladev.codegen.attention_search import attention_in_kernel
from xladev.codegen.elemental.emitter import ElementalEmitter
from xladev.codegen.elemental.rules import ELEMENT_RULES
from xladev.codegen.index import Index
from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.launch import LaunchDimensions
from xladev.codegen.llvm import FLOAT, FunctionBuilder, Value
from xladev.codegen.matrices import Side
from xladev.codegen.scalar.elements import Element, real_of
from xladev.codegen.scalar.elementwise import emit_elementwise
from xladev.codegen.scalar.storage import round_to, store_element
from xladev.codegen.simt.exchanges import over_subgroup
from xladev.codegen.simt.kernel_kind import KernelKind, ThreadBuild, single
from xladev.codegen.simt.kernels.attention_parts import (
    divisor,
    operand_offset,
    result_offset,
    score_of,
)
from xladev.codegen.simt.kernels.attention_shapes import (
    SUBGROUPS,
    attention_refusal,
    queries_per_subgroup,
    shared_nbytes,
)
from xladev.codegen.simt.machine import SimtMachine
from xladev.codegen.simt.primitives import (
    barrier,
    block_number,
    shared_memory,
    thread_in_block,
)
from xladev.hlo import dtype as dt
from xladev.hlo.ir import HloInstruction

_LOWEST = float("-inf")
_RESIDENT = 4
"""Blocks of one core: while some wait for a tile, others compute."""
_Element = Callable[[Value, Value], Value]
"""An element of a tile, by its row and column."""


def attention_kind(spec: KernelSpec, machine: SimtMachine) -> KernelKind | None:
    """The kind of a kernel that computes an attention."""
    found = attention_in_kernel(spec.computation.root)
    if found is None or attention_refusal(found, machine):
        return None
    queries = queries_per_subgroup(found, machine)
    per_block = SUBGROUPS * queries
    blocks = prod(found.batch) * -(-found.rows // per_block)
    dimensions = LaunchDimensions((blocks, 1, 1), (SUBGROUPS * machine.subgroup, 1, 1))
    nbytes = shared_nbytes(found, queries, machine)
    return single("attention", lambda t: _Thread(t, found).emit(), dimensions, nbytes, _RESIDENT)


class _Thread:
    """Writes the code of one thread."""

    def __init__(self, t: ThreadBuild, a: Attention) -> None:
        self.a, self.result, self.arrays = a, t.results[0], t.e.arrays
        b: FunctionBuilder = t.b
        self.b, self.rows = b, queries_per_subgroup(a, t.machine)
        self.keys = t.subgroup
        self.threads = SUBGROUPS * t.subgroup
        self.scalars: dict[HloInstruction, tuple[Element, ...]] = {}
        self.e = ElementalEmitter(b, ELEMENT_RULES, t.e.arrays)
        self.scored = ElementalEmitter(b, ELEMENT_RULES, t.e.arrays, self.scalars)
        self.chunks = -(-a.width // self.keys)
        self.tid = thread_in_block(b)
        self.lane, self.group = b.urem(self.tid, self.keys), b.udiv(self.tid, self.keys)
        per_block = SUBGROUPS * self.rows
        groups = -(-a.rows // per_block)
        block = block_number(b)
        self.outer: Index = self.e.at.delinear(b.udiv(block, groups), a.batch)
        self.first_query = b.mul(b.urem(block, groups), per_block)
        self.key_tile = shared_memory(b)
        self.value_tile = self._after(self.key_tile, self.keys * (a.depth + 1))
        self.query_tile = self._after(self.value_tile, self.keys * a.width)
        self.weight_tile = self._after(self.query_tile, per_block * a.depth)

    def _after(self, base: Value, count: int) -> Value:
        return self.b.byte_address(base, 4 * count)

    def emit(self) -> None:
        """All keys for the queries of this block."""
        a, b = self.a, self.b
        self._fill_queries()
        lows = [b.const(FLOAT, _LOWEST)] * self.rows
        zeros = [b.const(FLOAT, 0.0)] * (self.rows * (1 + self.chunks))
        with b.carried_loop(0, a.columns, self.keys, initial=[*lows, *zeros]) as loop:
            loop.carry(*self._tile(loop.index, loop.values))
        total, held = loop.values[self.rows : 2 * self.rows], loop.values[2 * self.rows :]
        for r in range(self.rows):
            weight = divisor(b, a, over_subgroup(b, a.softmax.total, total[r], self.keys))
            self._store(r, [b.fdiv(x, weight) for x in self._row(held, r)])

    def _row(self, held: Sequence[Value], r: int) -> Sequence[Value]:
        return held[r * self.chunks : (r + 1) * self.chunks]

    # Shared memory

    def _fill(self, tile: Value, count: int, width: int, pitch: int, element: _Element) -> None:
        """All threads fill ``count`` rows of ``width`` elements."""
        b = self.b
        with b.loop(self.tid, count * width, self.threads) as n, self.e.scope():
            row, column = b.udiv(n, width), b.urem(n, width)
            position = b.add(b.mul(row, pitch), column)
            b.store(element(row, column), b.element_address(tile, position, FLOAT))

    def _fill_queries(self) -> None:
        a, b = self.a, self.b

        def element(row: Value, column: Value) -> Value:
            query = b.intrinsic("umin", b.add(self.first_query, row), a.rows - 1)
            return self._operand(0, a.queries, query, column)

        self._fill(self.query_tile, SUBGROUPS * self.rows, a.depth, a.depth, element)

    def _fill_keys(self, first: Value) -> None:
        a, b = self.a, self.b

        def key(row: Value, column: Value) -> Value:
            number = b.intrinsic("umin", b.add(first, row), a.columns - 1)
            return self._operand(1, a.keys, number, column)

        def value(row: Value, column: Value) -> Value:
            number = b.add(first, row)
            inside = b.intrinsic("umin", number, a.columns - 1)
            found = self._operand(2, a.values.matrix, column, inside)
            return b.select(b.icmp("ult", number, a.columns), found, 0.0)

        self._fill(self.key_tile, self.keys, a.depth, a.depth + 1, key)
        self._fill(self.value_tile, self.keys, a.width, a.width, value)

    def _operand(self, number: int, side: Side, free: Value, summed: Value) -> Value:
        """An element of a query, key or value."""
        array = self.arrays[self.a.operands[number]][0]
        offset = operand_offset(self.e.at, side, self.outer, free, summed)
        return real_of(array.load_linear(self.b, offset), "attention")

    # One tile of keys

    def _tile(self, first: Value, held: Sequence[Value]) -> list[Value]:
        """Maxima, sums and weighted values after another tile."""
        a, b = self.a, self.b
        greatest, total = held[: self.rows], held[self.rows : 2 * self.rows]
        barrier(b)
        self._fill_keys(first)
        barrier(b)
        key = b.add(first, self.lane)
        highest: list[Value] = []
        sums: list[Value] = []
        scaled: list[Value] = []
        for r, product in enumerate(self._products()):
            score = self._score(r, key, product)
            top = self._maximum(greatest[r], over_subgroup(b, a.softmax.greatest, score, self.keys))
            # where nothing but -inf was seen, differences would be NaN
            base = b.select(b.fcmp("oeq", top, _LOWEST), 0.0, top)
            weight, factor = (self._exp(b.fsub(x, base)) for x in (score, greatest[r]))
            highest.append(top)
            sums.append(b.fma(total[r], factor, weight))
            scaled += [b.fmul(x, factor) for x in self._row(held[2 * self.rows :], r)]
            position = b.add(b.mul(self._own_row(r), self.keys), self.lane)
            b.store(weight, b.element_address(self.weight_tile, position, FLOAT))
        barrier(b)
        return [*highest, *sums, *self._weighted(scaled)]

    def _own_row(self, r: int) -> Value:
        return self.b.add(self.b.mul(self.group, self.rows), r)

    def _products(self) -> Sequence[Value]:
        """Each of the sub-group's queries by this thread's key."""
        a, b = self.a, self.b
        own = b.mul(self.lane, a.depth + 1)
        starts = [b.mul(self._own_row(r), a.depth) for r in range(self.rows)]
        zeros = [b.const(FLOAT, 0.0)] * self.rows
        with b.carried_loop(0, a.depth, 1, initial=zeros) as loop:
            k = self._load(self.key_tile, b.add(own, loop.index))
            queries = [self._load(self.query_tile, b.add(s, loop.index)) for s in starts]
            loop.carry(*(b.fma(q, k, s) for q, s in zip(queries, loop.values, strict=True)))
        return loop.values

    def _score(self, r: int, key: Value, product: Value) -> Value:
        """What the softmax is of, from the product of query and key; -inf beyond the keys."""
        a, b = self.a, self.b
        query = b.add(self.first_query, self._own_row(r))
        own = b.intrinsic("umin", query, a.rows - 1)
        seen = b.intrinsic("umin", key, a.columns - 1)
        score = score_of(self.scored, self.scalars, a, product, (*self.outer, own, seen))
        if a.columns % self.keys == 0:
            return score
        return b.select(b.icmp("ult", key, a.columns), score, _LOWEST)

    def _weighted(self, scaled: Sequence[Value]) -> Sequence[Value]:
        """Adds the tile's values, each weighted for each query."""
        a, b = self.a, self.b
        columns = [self._column(c) for c in range(self.chunks)]
        rows = [b.mul(self._own_row(r), self.keys) for r in range(self.rows)]
        with b.carried_loop(0, self.keys, 1, initial=scaled) as loop:
            start = b.mul(loop.index, a.width)
            values = [self._load(self.value_tile, b.add(start, c)) for c in columns]
            weights = [self._load(self.weight_tile, b.add(r, loop.index)) for r in rows]
            pairs = [(w, v) for w in weights for v in values]
            sums = zip(pairs, loop.values, strict=True)
            loop.carry(*(b.fma(w, v, s) for (w, v), s in sums))
        return loop.values

    def _column(self, chunk: int) -> Value:
        """This thread's column of values in a chunk, or the last if there is none."""
        column = self.b.add(self.lane, chunk * self.keys)
        if (chunk + 1) * self.keys <= self.a.width:
            return column
        return self.b.intrinsic("umin", column, self.a.width - 1)

    def _load(self, tile: Value, position: Value) -> Value:
        return self.b.load(FLOAT, self.b.element_address(tile, position, FLOAT))

    def _exp(self, x: Value) -> Value:
        return real_of(emit_elementwise(self.b, "exponential", (dt.F32,), dt.F32, (x,)), "exp")

    def _maximum(self, x: Value, y: Value) -> Value:
        return self.b.intrinsic("maximum", x, y)

    # The result

    def _store(self, r: int, elements: Sequence[Value]) -> None:
        a, b, dtype = self.a, self.b, self.result.shape.element_type
        query = b.add(self.first_query, self._own_row(r))
        for chunk, element in enumerate(elements):
            column = b.add(self.lane, chunk * self.keys)
            inside = b.and_(b.icmp("ult", query, a.rows), b.icmp("ult", column, a.width))
            rounded = round_to(b, element, dtype)
            with b.when(inside):
                offset = result_offset(self.e.at, a, self.outer, query, column)
                store_element(b, self.result.base, offset, dtype, rounded)
