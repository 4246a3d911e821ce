"""The microkernel that sorts one row of any size: one for each comparator, element types and way.

By a network of comparisons, by the bytes of a key, or merging bottom-up with any comparator. What
sorts like JAX's `sort` and `argsort` of common types comes compiled with xladev.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from xladev.codegen.arrays import IrArray
from xladev.codegen.elemental.choose import choose
from xladev.codegen.elemental.computation import Elements, emit_computation
from xladev.codegen.elemental.emitter import ElementalEmitter
from xladev.codegen.elemental.rules import ELEMENT_RULES
from xladev.codegen.llvm import I1, I64, PTR, FunctionBuilder, Value
from xladev.codegen.scalar.elements import real_of
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.ir import HloComputation
from xladev.hlo.shape import array
from xladev.platforms.cpu.codegen.sorting.radix_sort import MOST_SIZE, is_by_radix, radix_passes
from xladev.platforms.cpu.codegen.sorting.sort_keys import SortKey, Writing, sort_key
from xladev.platforms.cpu.codegen.sorting.sorting_network import (
    is_by_network,
    sort_in_network,
    write_keys,
)
from xladev.platforms.cpu.codegen.spelling import digest
from xladev.platforms.cpu.codegen.tactics import SortWay

Rows = tuple[IrArray, ...]


class SortOrder(Enum):
    """How elements are moved into their order."""

    RADIX = "radix"
    MERGE = "merge"


@dataclass(frozen=True, slots=True)
class SortedRows:
    """What sorts a row.

    Attributes:
        comparator: whether one element comes before another.
        dtypes: of the operands, which move together.
        way: how.
        has_network: whether a network sorts the row, if it can tell all elements from their keys.
    """

    comparator: HloComputation
    dtypes: tuple[PrimitiveType, ...]
    way: SortOrder
    has_network: bool

    @staticmethod
    def of(
        comparator: HloComputation,
        dtypes: Sequence[PrimitiveType],
        size: int,
        wanted: SortWay | None = None,
    ) -> SortedRows:
        """The best one for rows of a size, or the one that is wanted, if it can sort them."""
        key = sort_key(comparator)
        has_network = key is not None and is_by_network(key, dtypes, size)
        is_radix = key is not None and (wanted is SortWay.RADIX or is_by_radix(key, size))
        if wanted in (SortWay.RADIX, SortWay.MERGE):
            has_network = False
        way = SortOrder.RADIX if is_radix and wanted is not SortWay.MERGE else SortOrder.MERGE
        return SortedRows(comparator, tuple(dtypes), way, has_network)

    @property
    def name(self) -> str:
        """Of the microkernel."""
        types = ".".join(dtype.name for dtype in self.dtypes)
        ways = f"{'network.' if self.has_network else ''}{self.way.value}"
        return f"sort.{ways}.{types}.{digest(self.comparator)}"


def call_row_sort(
    b: FunctionBuilder,
    sort: SortedRows,
    rows: Sequence[Value],
    spare: Sequence[Value],
    memory: Value,
    size: Value,
    *,
    is_long: bool,
) -> tuple[Value, ...]:
    """Sorts a row of each operand; where the elements are then, in ``rows`` or in ``spare``.

    Args:
        b: writes the caller.
        sort: how.
        rows: first element of each operand's row.
        spare: memory for as many more.
        memory: of a network, if it has one.
        size: elements of a row.
        is_long: see `FunctionBuilder.call_microkernel`.
    """
    count = len(rows)
    positions = b.alloca(PTR, count)

    def emit(inner: FunctionBuilder, values: tuple[Value, ...]) -> None:
        first, second = values[:count], values[count : 2 * count]
        memory, size, positions = values[2 * count :]
        final = _Sorter(inner, sort, memory, size).sorted(first, second)
        for n, base in enumerate(final):
            inner.store(base, inner.element_address(positions, n, PTR))

    b.call_microkernel(sort.name, (*rows, *spare, memory, size, positions), emit, is_long=is_long)
    return tuple(b.load(PTR, b.element_address(positions, n, PTR)) for n in range(count))


class _Sorter:
    def __init__(self, b: FunctionBuilder, sort: SortedRows, memory: Value, size: Value) -> None:
        self.b, self.sort, self.memory, self.size = b, sort, memory, size
        self.e = ElementalEmitter(b, ELEMENT_RULES)
        self.k = Writing(b, self.e)

    def sorted(self, first: Sequence[Value], second: Sequence[Value]) -> Sequence[Value]:
        """Where the elements of ``first`` are in order."""
        rows, spare = self._rows(first), self._rows(second)
        key = sort_key(self.sort.comparator)
        if key is None or not self.sort.has_network:
            return self._in_order(key, rows, spare)

        def in_network() -> Sequence[Value]:
            sort_in_network(self.b, key, rows[0], self.memory, self.size)
            return [rows[0].base]

        def otherwise() -> Sequence[Value]:
            with self.e.scope():
                return self._in_order(key, rows, spare)

        are_told = write_keys(self.k, key, rows[0], self.memory, self.size)
        return self.b.branch(are_told, in_network, otherwise)

    def _rows(self, bases: Sequence[Value]) -> Rows:
        dtypes = self.sort.dtypes
        return tuple(
            IrArray(base, array(dtype, (MOST_SIZE,)))
            for base, dtype in zip(bases, dtypes, strict=True)
        )

    def _in_order(self, key: SortKey | None, rows: Rows, spare: Rows) -> Sequence[Value]:
        """Moves elements from one set of rows to the other until they are in order."""
        if key is not None and self.sort.way is SortOrder.RADIX:
            return [row.base for row in radix_passes(self.k, key, rows, spare, self.size)]
        return self._merge_passes(rows, spare)

    def _merge_passes(self, rows: Rows, spare: Rows) -> Sequence[Value]:
        """Merges runs of 1, 2, 4... elements from one set of rows to the other."""
        count, b = len(rows), self.b
        initial = (b.const(I64, 1), *(r.base for r in rows), *(r.base for r in spare))

        def condition(values: Sequence[Value]) -> Value:
            return b.icmp("slt", values[0], self.size)

        def body(values: Sequence[Value]) -> Sequence[Value]:
            width, source, target = values[0], values[1 : 1 + count], values[1 + count :]
            self._merge_all(width, self._rows(source), self._rows(target))
            return (b.shl(width, 1), *target, *source)

        return b.while_loop(initial, condition, body)[1 : 1 + count]

    def _merge_all(self, width: Value, source: Rows, target: Rows) -> None:
        b = self.b

        def condition(values: Sequence[Value]) -> Value:
            return b.icmp("slt", values[0], self.size)

        def body(values: Sequence[Value]) -> Sequence[Value]:
            left = values[0]
            middle = b.intrinsic("smin", b.add(left, width), self.size)
            right = b.intrinsic("smin", b.add(middle, width), self.size)
            self._merge(source, target, (left, middle, right))
            return (right,)

        with self.e.scope():
            b.while_loop((b.const(I64, 0),), condition, body)

    def _merge(self, source: Rows, target: Rows, bounds: tuple[Value, Value, Value]) -> None:
        """Merges two sorted runs; equal elements of the left run come first."""
        (left, middle, right), b = bounds, self.b
        with b.carried_loop(left, right, initial=(left, middle)) as loop, self.e.scope():
            i, j = loop.values
            second = choose(
                self.e,
                b.icmp("sge", j, right),
                lambda: b.const(I1, 0),
                lambda: choose(
                    self.e,
                    b.icmp("sge", i, middle),
                    lambda: b.const(I1, 1),
                    lambda: self._precedes(source, j, i),
                ),
            )
            from_second = real_of(second, "a comparison")
            taken = b.select(from_second, j, i)
            for s, t in zip(source, target, strict=True):
                t.store(b, (loop.index,), s.load(b, (taken,)))
            loop.carry(b.select(from_second, i, b.add(i, 1)), b.select(from_second, b.add(j, 1), j))

    def _precedes(self, rows: Rows, first: Value, second: Value) -> Value:
        """Whether the element at ``first`` must come before the one at ``second``."""
        arguments: Elements = tuple(
            row.load(self.b, (at,)) for row in rows for at in (first, second)
        )
        (before,) = emit_computation(self.e, self.sort.comparator, arguments)
        return real_of(before, "a comparison")
