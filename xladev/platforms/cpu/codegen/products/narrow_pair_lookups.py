"""The same in bf16, two products at once, where no denormal can come up (`denormals.py`).

Numbers of bf16 are looked up 32 at once by words of 16 bits, and multiplied by the instruction that
takes denormals for zeros. The least exponents of tables are followed meanwhile. Where they and the
rows' say that a denormal might have come up, the sums of the tile are made anew, one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xladev.codegen.elemental.pieces import value_in_order
from xladev.codegen.index import Index, IndexValue
from xladev.codegen.llvm import I16, I32, I64, Value, vector
from xladev.hlo import dtype as dt
from xladev.platforms.cpu.codegen.build import KernelBuild
from xladev.platforms.cpu.codegen.products.bfloat_products import multiply_add_pairs
from xladev.platforms.cpu.codegen.products.denormals import (
    LEAST_FIELDS,
    LeastArguments,
    call_least_exponent,
)
from xladev.platforms.cpu.codegen.products.narrow_lookups import (
    COLUMNS,
    Lookups,
    emit_lookups,
    lookup_workspace_nbytes,
    row_address,
    row_number,
)
from xladev.platforms.cpu.codegen.products.narrow_tables import LANES, WeightTables
from xladev.platforms.cpu.codegen.products.narrow_weights import NarrowWeights

HALVES = vector(I16, 2 * LANES)
"""Numbers that are looked up at once."""
LEAST_CHUNK = 64
"""Neighbours that have one table, at least; with 32, making tables takes longer than pairs save."""
_ALIGNMENT = 64
_EXPONENT_PLACE = 24
"""Of the exponent of an f32 without its sign, moved up by one bit."""


def takes_pairs(k: KernelBuild, plan: NarrowWeights, tables: WeightTables) -> bool:
    """Whether the target has the instruction, and weights are in order in 16 bits."""
    is_in_order = not tables.is_reversed or tables.per_element <= _per_half(tables)
    is_pair = plan.kind(k).in_pairs(k.b.module.target) is not None
    return is_pair and is_in_order and tables.chunk >= LEAST_CHUNK


def pair_lookup_workspace_nbytes(plan: NarrowWeights) -> int:
    """The rows in f32 and in bf16, and the least exponent of each."""
    return _least_place(plan) + 8 * _row_count(plan)


def emit_pair_lookups(k: KernelBuild, plan: NarrowWeights, tables: WeightTables) -> None:
    """Writes the kernel; see `emit_lookups`."""
    b, left, chunk = k.b, plan.matrices.left, tables.chunk
    nbytes = dt.BF16.host_nbytes

    def row(index: Index) -> None:
        *batch, number = index
        source = row_address(k, plan, tuple(batch), number)
        target, least = _places(k, plan, tuple(batch), number)
        with b.loop(0, left.depth - left.depth % chunk, chunk) as x:
            offset = b.mul(x, nbytes)
            value = b.load(vector(I16, chunk), b.byte_address(source, offset))
            laid = value_in_order(b, value, _per_half(tables))
            b.store(laid, b.byte_address(target, offset), align=nbytes)
        one, length = b.const(I64, 1), b.const(I64, left.depth)
        arguments = LeastArguments(source, b.const(I64, left.depth * nbytes), one, length, least)
        call_least_exponent(b, plan.kind(k), arguments)

    k.nest((*plan.batch, left.extent), row)
    emit_lookups(k, plan, tables, PairLookups)


def _per_half(tables: WeightTables) -> int:
    """Weights in 16 bits."""
    return tables.per_word // 2


def _row_count(plan: NarrowWeights) -> int:
    return prod(plan.batch) * plan.matrices.left.extent


def _halves_place(plan: NarrowWeights) -> int:
    return -(-lookup_workspace_nbytes(plan) // _ALIGNMENT) * _ALIGNMENT


def _least_place(plan: NarrowWeights) -> int:
    nbytes = _row_count(plan) * plan.matrices.left.depth * dt.BF16.host_nbytes
    return _halves_place(plan) + -(-nbytes // _ALIGNMENT) * _ALIGNMENT


def _places(
    k: KernelBuild, plan: NarrowWeights, batch: Index, row: IndexValue
) -> tuple[Value, Value]:
    """Where a row in bf16 is, and its least exponent."""
    at, b, number = k.e.at, k.b, row_number(k, plan, batch, row)
    line = at.mul(number, plan.matrices.left.depth * dt.BF16.host_nbytes)
    halves = b.byte_address(k.scratch, at.value(at.add(line, _halves_place(plan))))
    least = b.byte_address(k.scratch, at.value(at.add(at.mul(number, 8), _least_place(plan))))
    return halves, least


class PairLookups(Lookups):
    """A block of columns, two products at once."""

    def sums(self, columns: Sequence[Value], rows: Sequence[int]) -> Sequence[Value]:
        """In pairs; one by one where a denormal might have come up."""
        b, count = self.b, COLUMNS * len(rows)
        zeros = [b.const(self.kind.vector, 0)] * count
        least = b.const(vector(I32, LANES), -1)

        def step(depth: Value, held: list[Value]) -> None:
            self._pairs(columns, rows, depth, held)

        *found, least = self.over_chunks([*zeros, least], step)
        each = b.resize(b.intrinsic("vector.reduce.umin", least, result=I32), I64, signed=False)
        field = b.lshr(b.add(each, 1), _EXPONENT_PLACE)
        is_normal = b.icmp("sgt", field, 0)
        for row in rows:
            other = b.load(I64, _places(self.k, self.plan, self.batch, row)[1])
            is_normal = b.and_(is_normal, b.icmp("sgt", other, 0))
            enough = b.icmp("sge", b.add(field, other), LEAST_FIELDS)
            is_normal = b.and_(is_normal, enough)
        exact = super().sums
        return b.branch(is_normal, lambda: tuple(found), lambda: tuple(exact(columns, rows)))

    def _pairs(
        self, columns: Sequence[Value], rows: Sequence[int], depth: Value, held: list[Value]
    ) -> None:
        """As `_chunk`; the last value is the least of all magnitudes."""
        b, tables, halves = self.b, self.tables, list[tuple[Value, Value]]()
        count = tables.words * 2
        for column in columns:
            place = self.k.e.at.add(self.first, column)
            bits = b.bitcast(self.table(place, depth), I32)
            held[-1] = b.intrinsic("umin", b.sub(b.shl(bits, 1), 1), held[-1])
            numbers = b.resize(b.lshr(bits, 16), I16, signed=False)
            words = self.words_of(place, depth)
            found = b.emit(vector(I16, count), f"bitcast {words} to {vector(I16, count)}")
            halves.append((_repeated(self, numbers, LANES), _repeated(self, found, count)))
        lanes, repeats = range(HALVES.lanes), HALVES.lanes // count
        for v in range(tables.chunk // HALVES.lanes):
            moved = [tables.place(n // count + repeats * v) for n in lanes]
            by = Value(f"<{', '.join(f'i16 {n}' for n in moved)}>", HALVES)
            weights = [
                b.look_up(table, b.lshr(found, by) if any(moved) else found)
                for table, found in halves
            ]
            for r, row in enumerate(rows):
                line, _ = _places(self.k, self.plan, self.batch, row)
                offset = b.mul(b.add(depth, v * HALVES.lanes), dt.BF16.host_nbytes)
                factors = b.load(HALVES, b.byte_address(line, offset), align=2)
                for n, each in enumerate(weights, r * COLUMNS):
                    held[n] = multiply_add_pairs(b, factors, each, held[n])


def _repeated(way: Lookups, value: Value, count: int) -> Value:
    return way.b.shuffle(value, value, tuple(n % count for n in range(HALVES.lanes)))
