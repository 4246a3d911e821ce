"""Attention of bf16 and f16 on tensor cores: 64 queries a block, key by key, no scores in memory.

Each warp has 16 queries. Their scores with a tile of keys are the sums of one product, which stay
in registers (`mma_fragments`), are made weights there, and are the left operand of the second one,
as in FlashAttention-2 (Dao, 2023). A running maximum and sum make the softmax, as in
`attention_kernel`, which computes what has no position here. Weights are rounded to the type of the
values before they are divided by their sum, HLO rounds them after it.

Keys are in shared memory row by row, values with two rows interleaved, so that two neighbours along
the inner dimension of either product are one word.
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
from xladev.codegen.llvm import FLOAT, I16, I32, FunctionBuilder, Value, vector
from xladev.codegen.matrices import Side
from xladev.codegen.scalar.elements import Element
from xladev.codegen.scalar.storage import encode_stored, round_to, store_element
from xladev.codegen.simt.exchanges import over_subgroup
from xladev.codegen.simt.kernel_kind import KernelKind, ThreadBuild, single
from xladev.codegen.simt.kernels.attention_parts import (
    divisor,
    operand_offset,
    result_offset,
    score_of,
)
from xladev.codegen.simt.kernels.attention_shapes import attention_refusal
from xladev.codegen.simt.machine import SimtMachine
from xladev.codegen.simt.math.functions import narrow_exp
from xladev.codegen.simt.primitives import (
    barrier,
    block_number,
    shared_memory,
    thread_in_block,
)
from xladev.hlo.ir import HloInstruction
from xladev.platforms.cuda.codegen.mma_fragments import (
    COLUMNS,
    DEPTH,
    ROWS,
    SUMS,
    TYPES,
    WARP,
    multiply_fragments,
)

WARPS = 4
QUERIES = WARPS * ROWS
THREADS = WARPS * WARP
MOST_WIDTH = 128
"""Of keys and of values: their sums and queries stay in registers."""
_RESIDENT = 3
"""Blocks of a multiprocessor: while some wait for a tile, others compute."""
_LOWEST = float("-inf")
_WORD_NBYTES, _VECTOR_NBYTES = 4, 16
_EACH = _VECTOR_NBYTES // 2
"""Elements of one access."""
_QUAD = 4
"""Threads that have parts of the same rows."""


def tensor_attention_kind(spec: KernelSpec, machine: SimtMachine) -> KernelKind | None:
    """The kind of a kernel that computes an attention of narrow floats."""
    found = attention_in_kernel(spec.computation.root)
    if found is None or not _fits(found, machine):
        return None
    blocks = prod(found.batch) * -(-found.rows // QUERIES)
    dimensions = LaunchDimensions((blocks, 1, 1), (THREADS, 1, 1))
    nbytes = key_pitch(found) * keys_of(found) + value_pitch(found) * keys_of(found) // 2
    return single(
        "tensor attention", lambda t: _Thread(t, found).emit(), dimensions, nbytes, _RESIDENT
    )


def keys_of(a: Attention) -> int:
    """Keys that a block looks at together: fewer where more of a thread is taken by values."""
    return 64 if a.depth + a.width <= MOST_WIDTH else 32


def key_pitch(a: Attention) -> int:
    """Bytes from one key to the next: 16 more than it has, for other banks."""
    return 2 * a.depth + _VECTOR_NBYTES


def value_pitch(a: Attention) -> int:
    """Bytes from two values to the next two: 32 more than they have, for other banks."""
    return _WORD_NBYTES * a.width + 2 * _VECTOR_NBYTES


def _fits(a: Attention, machine: SimtMachine) -> bool:
    """Operands whose rows are at multiples of an access, in sizes of fragments."""
    types = {i.shape.element_type for i in (*a.operands, a.weights)}
    if len(types) != 1 or not types <= set(TYPES) or attention_refusal(a, machine):
        return False
    rows = (
        (a.queries.step, a.queries.free, a.queries.batch),
        (a.keys.step, a.keys.free, a.keys.batch),
        (a.values.matrix.free, a.values.matrix.step, a.values.matrix.batch),
        (a.values.result[2], a.values.result[1], a.values.result[0]),
    )
    lies_well = all(
        inner == 1 and all(stride % _EACH == 0 for stride in (row, *batch))
        for inner, row, batch in rows
    )
    sizes = all(n % DEPTH == 0 and n <= MOST_WIDTH for n in (a.depth, a.width))
    return sizes and lies_well and min(a.rows, a.columns) >= ROWS


class _Thread:
    """Writes the code of one thread."""

    def __init__(self, t: ThreadBuild, a: Attention) -> None:
        self.a, self.result, self.arrays = a, t.results[0], t.e.arrays
        b: FunctionBuilder = t.b
        self.b = b
        self.scalars: dict[HloInstruction, tuple[Element, ...]] = {}
        self.scored = ElementalEmitter(b, ELEMENT_RULES, t.e.arrays, self.scalars)
        self.dtype = a.weights.shape.element_type
        self.keys = keys_of(a)
        self.tid = thread_in_block(b)
        lane = b.urem(self.tid, WARP)
        self.group, self.within = b.udiv(lane, _QUAD), b.urem(lane, _QUAD)
        groups, block = -(-a.rows // QUERIES), block_number(b)
        self.outer: Index = self.scored.at.delinear(b.udiv(block, groups), a.batch)
        first = b.mul(b.urem(block, groups), QUERIES)
        first = b.add(first, b.mul(b.udiv(self.tid, WARP), ROWS))
        self.queries = [b.add(b.add(first, self.group), n) for n in (0, ROWS // 2)]
        self.own = [b.intrinsic("umin", q, a.rows - 1) for q in self.queries]
        self.key_tile = shared_memory(b)
        self.value_tile = b.byte_address(self.key_tile, key_pitch(a) * self.keys)

    def emit(self) -> None:
        """All keys for the queries of this warp."""
        a, b = self.a, self.b
        queries = self._query_fragments()
        lows = [b.const(FLOAT, _LOWEST)] * 2
        zeros = [b.const(FLOAT, 0.0)] * (2 + SUMS * a.width // COLUMNS)
        with b.carried_loop(0, a.columns, self.keys, initial=[*lows, *zeros]) as loop:
            loop.carry(*self._tile(loop.index, queries, loop.values))
        sums = (over_subgroup(b, a.softmax.total, x, _QUAD) for x in loop.values[2:4])
        totals = [divisor(b, a, total) for total in sums]
        self._store(totals, loop.values[4:])

    # Memory

    def _address(self, number: int, side: Side, free: Value | int, summed: Value) -> Value:
        """Where an operand has an element."""
        offset = operand_offset(self.scored.at, side, self.outer, free, summed)
        base = self.arrays[self.a.operands[number]][0].base
        return self.b.element_address(base, offset, I16)

    def _query_fragments(self) -> list[list[Value]]:
        """This thread's parts of the queries, 16 elements of each at a time."""
        a, b = self.a, self.b
        start = b.mul(self.within, 2)
        rows = [self._address(0, a.queries, own, start) for own in self.own]
        return [
            [
                b.load(I32, b.byte_address(row, 2 * (first + further)), align=_WORD_NBYTES)
                for further in (0, DEPTH // 2)
                for row in rows
            ]
            for first in range(0, a.depth, DEPTH)
        ]

    def _fill(self, count: int, body: Callable[[Value], None]) -> None:
        """Runs ``body`` on numbers below ``count``, spread over the threads of the block."""
        for start in range(0, count, THREADS):
            number = self.b.add(self.tid, start)
            if start + THREADS <= count:
                body(number)
                continue
            with self.b.when(self.b.icmp("ult", number, count)):
                body(number)

    def _fill_keys(self, first: Value) -> None:
        a, b = self.a, self.b
        parts = a.depth // _EACH

        def move(number: Value) -> None:
            row, part = b.udiv(number, parts), b.urem(number, parts)
            key = b.intrinsic("umin", b.add(first, row), a.columns - 1)
            found = self._load(self._address(1, a.keys, key, b.mul(part, _EACH)))
            position = b.add(b.mul(row, key_pitch(a)), b.mul(part, _VECTOR_NBYTES))
            b.store(found, b.byte_address(self.key_tile, position), align=_VECTOR_NBYTES)

        self._fill(self.keys * parts, move)

    def _fill_values(self, first: Value) -> None:
        a, b = self.a, self.b
        parts = a.width // _EACH

        def move(number: Value) -> None:
            row, part = b.udiv(number, parts), b.urem(number, parts)
            upper = b.add(first, b.mul(row, 2))
            rows = [self._value_row(b.add(upper, n), b.mul(part, _EACH)) for n in range(2)]
            position = b.add(b.mul(row, value_pitch(a)), b.mul(part, 2 * _VECTOR_NBYTES))
            for half, lanes in enumerate(
                ((0, 8, 1, 9, 2, 10, 3, 11), (4, 12, 5, 13, 6, 14, 7, 15))
            ):
                both = b.shuffle(rows[0], rows[1], lanes)
                address = b.byte_address(self.value_tile, b.add(position, half * _VECTOR_NBYTES))
                b.store(both, address, align=_VECTOR_NBYTES)

        self._fill(self.keys // 2 * parts, move)

    def _value_row(self, key: Value, column: Value) -> Value:
        """Neighbours of one value; zeros beyond the last, as their weight is."""
        a, b = self.a, self.b
        inside = b.intrinsic("umin", key, a.columns - 1)
        found = self._load(self._address(2, a.values.matrix, column, inside))
        if a.columns % self.keys == 0:
            return found
        zero = Value("zeroinitializer", found.type)
        return b.select(b.icmp("ult", key, a.columns), found, zero)

    def _load(self, address: Value) -> Value:
        return self.b.load(vector(I16, _EACH), address, align=_VECTOR_NBYTES)

    # One tile of keys

    def _tile(
        self, first: Value, queries: Sequence[Sequence[Value]], held: Sequence[Value]
    ) -> list[Value]:
        """Maxima, sums and weighted values after another tile."""
        b = self.b
        barrier(b)
        self._fill_keys(first)
        self._fill_values(first)
        barrier(b)
        scores = self._scores(first, self._products(queries))
        tops: list[Value] = []
        sums: list[Value] = []
        factors: list[Value] = []
        weights: list[Value] = list(scores)
        for n in range(2):
            own = [i for i in range(len(scores)) if i // 2 % 2 == n]
            top, base = self._greatest(held[n], [scores[i] for i in own])
            factor = narrow_exp(b, b.fsub(held[n], base))
            total = b.fmul(held[2 + n], factor)
            for i in own:
                weights[i] = narrow_exp(b, b.fsub(scores[i], base))
                total = b.fadd(total, weights[i])
            tops.append(top)
            sums.append(total)
            factors.append(factor)
        scaled = [b.fmul(x, factors[i // 2 % 2]) for i, x in enumerate(held[4:])]
        return [*tops, *sums, *self._weighted(weights, scaled)]

    def _products(self, queries: Sequence[Sequence[Value]]) -> list[Value]:
        """Queries by all keys of the tile."""
        a, b = self.a, self.b
        sums = [b.const(FLOAT, 0.0)] * (SUMS * self.keys // COLUMNS)
        own = b.add(b.mul(self.group, key_pitch(a)), b.mul(self.within, _WORD_NBYTES))
        base = b.byte_address(self.key_tile, own)
        for step, fragment in enumerate(queries):
            right = [
                self._word(base, COLUMNS * n * key_pitch(a) + 2 * DEPTH * step + further)
                for n in range(self.keys // COLUMNS)
                for further in (0, DEPTH)
            ]
            sums = multiply_fragments(b, self.dtype, fragment, right, sums)
        return sums

    def _word(self, base: Value, nbytes: int) -> Value:
        return self.b.load(I32, self.b.byte_address(base, nbytes), align=_WORD_NBYTES)

    def _scores(self, first: Value, products: Sequence[Value]) -> list[Value]:
        """What the softmax is of, from the products of queries and keys; -inf beyond the keys."""
        a, b = self.a, self.b
        start = b.add(first, b.mul(self.within, 2))
        found: list[Value] = []
        for i, product in enumerate(products):
            tile, position = divmod(i, SUMS)
            key = b.add(start, COLUMNS * tile + position % 2)
            seen = b.intrinsic("umin", key, a.columns - 1) if a.columns % self.keys else key
            at = (*self.outer, self.own[position // 2], seen)
            score = score_of(self.scored, self.scalars, a, product, at)
            if a.columns % self.keys:
                score = b.select(b.icmp("ult", key, a.columns), score, _LOWEST)
            found.append(score)
        return found

    def _greatest(self, before: Value, scores: Sequence[Value]) -> tuple[Value, Value]:
        """The greatest score of a row by now, and what is subtracted from scores."""
        b = self.b
        most = scores[0]
        for score in scores[1:]:
            most = b.intrinsic("maximum", most, score)
        top = b.intrinsic("maximum", before, over_subgroup(b, self.a.softmax.greatest, most, _QUAD))
        # where nothing but -inf was seen, differences would be NaN
        return top, b.select(b.fcmp("oeq", top, _LOWEST), 0.0, top)

    def _weighted(self, weights: Sequence[Value], sums: Sequence[Value]) -> list[Value]:
        """Adds the tile's values, each weighted for each query."""
        a, b = self.a, self.b
        own = b.add(b.mul(self.within, value_pitch(a)), b.mul(self.group, _WORD_NBYTES))
        base, found = b.byte_address(self.value_tile, own), list(sums)
        for step in range(self.keys // DEPTH):
            pairs = weights[2 * SUMS * step : 2 * SUMS * (step + 1)]
            left = [self._packed(*pairs[n : n + 2]) for n in range(0, 2 * SUMS, 2)]
            right = [
                self._word(base, (DEPTH // 2 * step + further) * value_pitch(a) + offset)
                for offset in range(0, _WORD_NBYTES * a.width, _WORD_NBYTES * COLUMNS)
                for further in (0, DEPTH // 4)
            ]
            found = multiply_fragments(b, self.dtype, left, right, found)
        return found

    def _packed(self, first: Value, second: Value) -> Value:
        """Two weights as neighbours of the values' type."""
        b = self.b
        stored = encode_stored(b, round_to(b, self._pair(first, second), self.dtype), self.dtype)
        return b.emit(I32, f"bitcast {stored} to i32")

    def _pair(self, first: Value, second: Value) -> Value:
        pair = Value("poison", vector(FLOAT, 2))
        return self.b.insert(self.b.insert(pair, first, 0), second, 1)

    # The result

    def _store(self, totals: Sequence[Value], sums: Sequence[Value]) -> None:
        """Two neighbours at once, of the queries that there are."""
        a, b, dtype = self.a, self.b, self.result.shape.element_type
        start = b.mul(self.within, 2)
        for n, total in enumerate(totals):
            with b.when(b.icmp("ult", self.queries[n], a.rows)):
                for tile in range(a.width // COLUMNS):
                    column = b.add(start, COLUMNS * tile)
                    pair = sums[SUMS * tile + 2 * n : SUMS * tile + 2 * n + 2]
                    found = self._pair(*(b.fdiv(x, total) for x in pair))
                    offset = result_offset(self.scored.at, a, self.outer, self.queries[n], column)
                    store_element(b, self.result.base, offset, dtype, round_to(b, found, dtype))
