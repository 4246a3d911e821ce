"""Sort by an integer key: elements are dealt to 256 positions by one byte of it after the other.

Dealing keeps the order of elements with equal bytes, so from the lowest byte to the highest it is a
stable sort. Bytes that are the same in all elements are left out.
"""

from __future__ import annotations

from collections.abc import Sequence

from xladev.codegen.arrays import IrArray
from xladev.codegen.llvm import I32, I64, Value, vector
from xladev.platforms.cpu.codegen.sorting.sort_keys import SortKey, Writing

Rows = tuple[IrArray, ...]

PLACES = 256
"""Values of a byte."""
LEAST_PER_BYTE = {True: 8, False: 16}
"""Elements for each byte of a float's key, or of an integer's, below which merging is as fast; it
compares, and floats in total order take longer to compare. By `xladev/platforms/cpu/trials.py`."""
LEAST_SIZE = 24
"""Elements below which merging is as fast, whatever their keys."""
MOST_SIZE = 2**31 - 1
"""Elements are counted in 32 bits."""
LANES = 16


def is_by_radix(key: SortKey, size: int) -> bool:
    """True if rows are long enough for the counters to pay."""
    is_float = key.value.shape.element_type.is_float
    least = max(LEAST_SIZE, LEAST_PER_BYTE[is_float] * key.bits // 8)
    return least <= size <= MOST_SIZE


def radix_passes(k: Writing, key: SortKey, rows: Rows, spare: Rows, size: Value) -> Rows:
    """Deals elements from one set of rows to the other and back; where they end."""
    return _Radix(k, key, size).sorted(rows, spare)


class _Radix:
    """The passes over one row."""

    def __init__(self, k: Writing, key: SortKey, size: Value) -> None:
        self.k, self.b, self.key, self.size = k, k.b, key, size
        self.bytes = key.bits // 8
        self.counters = k.b.alloca(I32, self.bytes * PLACES, align=64)

    def sorted(self, rows: Rows, spare: Rows) -> Rows:
        """Where the elements of ``rows`` are in order."""
        self._count(rows)
        count = len(rows)
        initial = [*(r.base for r in rows), *(r.base for r in spare)]
        with self.b.carried_loop(0, self.bytes, initial=initial) as number, self.k.e.scope():
            source = _moved(rows, number.values[:count])
            target = _moved(rows, number.values[count:])
            number.carry(*self._pass(number.index, source, target))
        return _moved(rows, number.values[:count])

    def _key(self, rows: Rows, at: Value) -> Value:
        return self.key.emit(self.k.e, rows[self.key.operand].load(self.b, (at,)))

    def _counter(self, number: Value | int, position: Value | int) -> Value:
        """Address of the counter of a position, for the byte of a number."""
        at = self.k.e.at
        return self.b.element_address(
            self.counters, at.value(at.add(at.mul(number, PLACES), position)), I32
        )

    def _place(self, key: Value, number: Value | int) -> Value:
        """The byte of a number, the lowest first."""
        shift = self.b.resize(self.b.mul(self.k.e.at.value(number), 8), key.type, signed=False)
        return self.b.and_(self.b.resize(self.b.lshr(key, shift), I64, signed=False), PLACES - 1)

    def _count(self, rows: Rows) -> None:
        """How many elements go to each position, for all bytes."""
        b = self.b
        zeros = b.const(vector(I32, LANES), 0)
        with b.loop(0, self.bytes * PLACES, LANES) as x:
            b.store(zeros, b.element_address(self.counters, x, I32))
        with b.loop(0, self.size) as x, self.k.e.scope():
            key = self._key(rows, x)
            for number in range(self.bytes):
                counter = self._counter(number, self._place(key, number))
                b.store(b.add(b.load(I32, counter), 1), counter)

    def _pass(self, number: Value, source: Rows, target: Rows) -> Sequence[Value]:
        """Deals by one byte; the bases of the rows, swapped unless all bytes are the same."""
        b = self.b
        here, there = [r.base for r in source], [r.base for r in target]
        first = self._place(self._key(source, b.const(I64, 0)), number)
        size = b.resize(self.size, I32, signed=False)
        same = b.icmp("eq", b.load(I32, self._counter(number, first)), size)

        def deal() -> Sequence[Value]:
            with self.k.e.scope():
                self._deal(number, source, target)
            return [*there, *here]

        return b.branch(same, lambda: [*here, *there], deal)

    def _deal(self, number: Value, source: Rows, target: Rows) -> None:
        b = self.b
        with b.carried_loop(0, PLACES, initial=[b.const(I32, 0)]) as positions:
            counter = self._counter(number, positions.index)
            held = b.load(I32, counter)
            b.store(positions.values[0], counter)
            positions.carry(b.add(positions.values[0], held))
        with b.loop(0, self.size) as x, self.k.e.scope():
            counter = self._counter(number, self._place(self._key(source, x), number))
            to = b.load(I32, counter)
            b.store(b.add(to, 1), counter)
            position = b.resize(to, I64, signed=False)
            for s, t in zip(source, target, strict=True):
                t.store(b, (position,), s.load(b, (x,)))


def _moved(rows: Rows, bases: Sequence[Value]) -> Rows:
    return tuple(IrArray(base, row.shape) for base, row in zip(bases, rows, strict=True))
