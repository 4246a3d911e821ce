"""The microkernel that finds the k first elements of one row of any size, with their positions.

Elements become unsigned integers, the greatest first. A row is read once: what is greater than the
k-th of all so far is appended to a buffer, in vectors. When the buffer is full its k-th number is
found bit by bit, and what is behind it is dropped; of equal numbers those read first stay. In the
end each of the k is put at its rank, which is how many come before it. No order of the elements is
slow: the buffer is searched at most once in three times k of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xladev.codegen.llvm import I1, I32, I64, FunctionBuilder, Value, integer, vector
from xladev.hlo.dtype import PrimitiveType

MOST_LANES = 16
GROUP = 4
"""Vectors that are looked at together: most groups have nothing to append."""
LEAST_CAPACITY = 256
_SLACK = 2 * GROUP * MOST_LANES
"""What is appended before the buffer is looked at, and the last vector's lanes behind that."""


@dataclass(frozen=True, slots=True)
class TopK:
    """What finds the first elements of a row.

    Attributes:
        dtype: of the elements: integers, or floats in total order, of at most 32 bits.
        largest: whether the greatest come first.
    """

    dtype: PrimitiveType
    largest: bool

    @property
    def name(self) -> str:
        """Of the microkernel."""
        return f"top_k.{'largest' if self.largest else 'smallest'}.{self.dtype}"

    def call(
        self, b: FunctionBuilder, row: Value, results: tuple[Value, Value], sizes: tuple[int, int],
        memory: Value,
    ) -> None:  # fmt: skip
        """Calls the microkernel.

        Args:
            b: writes the caller.
            row: address of the first element.
            results: where the values go, and their positions as s32.
            sizes: elements of the row, and how many are wanted: one at least, and no more.
            memory: `top_k_nbytes` of it.
        """

        def emit(inner: FunctionBuilder, values: tuple[Value, ...]) -> None:
            _Search(inner, self, *values).emit()

        counts = (b.const(I64, n) for n in sizes)
        b.call_microkernel(self.name, (row, *results, *counts, memory), emit)

    def keys(self, b: FunctionBuilder, row: Value, at: Value, lanes: int) -> Value:
        """The numbers that are compared, of neighbouring elements."""
        stored = integer(self.dtype.bits)
        bits = b.load(vector(stored, lanes), b.element_address(row, at, stored))
        is_signed = self.dtype.is_float or self.dtype.is_signed
        number = b.resize(bits, I32, signed=is_signed)
        if self.dtype.is_float:
            number = b.xor(number, b.lshr(b.ashr(number, 31), 1))
        if is_signed:
            number = b.xor(number, -(1 << 31))
        return number if self.largest else b.not_(number)


def top_k_nbytes(k: int) -> int:
    """Workspace of a row: numbers, their positions, and positions of equal numbers."""
    return 3 * 4 * (max(LEAST_CAPACITY, 4 * -(-k // MOST_LANES) * MOST_LANES) + _SLACK)


def _lanes(b: FunctionBuilder) -> int:
    """Of the target's vectors; 1 where it has none."""
    return max(1, min(MOST_LANES, b.module.target.vector_nbytes // 4))


class _Buffer:
    """Numbers and their positions.

    Args:
        b: writes the code.
        memory: `top_k_nbytes` of it.
        k: how many are wanted.
    """

    def __init__(self, b: FunctionBuilder, memory: Value, k: Value) -> None:
        self.b, self.memory, self.k, self.lanes = b, memory, k, _lanes(b)
        self.zeros = b.const(vector(I32, self.lanes), 0)
        whole = b.and_(b.add(k, MOST_LANES - 1), -MOST_LANES)
        self.capacity = b.intrinsic("smax", b.shl(whole, 2), LEAST_CAPACITY)
        stride = b.add(self.capacity, _SLACK)
        self.numbers = memory
        self.positions = b.element_address(memory, stride, I32)
        self.equals = b.element_address(self.positions, stride, I32)

    def load(self, part: Value, at: Value) -> Value:
        """A vector of one of the parts."""
        return self.b.load(vector(I32, self.lanes), self.b.element_address(part, at, I32))

    def load_one(self, part: Value, at: Value) -> Value:
        """One number of one of the parts."""
        return self.b.load(I32, self.b.element_address(part, at, I32))

    def store(self, part: Value, at: Value, value: Value) -> None:
        """To one of the parts."""
        self.b.store(value, self.b.element_address(part, at, I32))

    def append(self, part: Value, at: Value, values: Value, mask: Value) -> None:
        """The lanes of a mask, one behind the other; what follows them is arbitrary."""
        self.store(part, at, self.b.compress(values, mask))

    def threshold(self, count: Value, least: Value) -> Value:
        """Drops all but the first k of ``count`` numbers, none less than ``least``.

        Returns:
            A number that all that is kept reaches, and that a number must exceed to count.
        """

        def emit(b: FunctionBuilder, values: tuple[Value, ...]) -> Value:
            memory, k, *of_numbers = values
            return _Selection(_Buffer(b, memory, k), *of_numbers).emit()

        arguments = (self.memory, self.k, count, least)
        return self.b.call_shared("top_k.select", I32, arguments, emit)


def _count(b: FunctionBuilder, mask: Value) -> Value:
    """How many lanes of a mask are set."""
    if mask.lanes == 1:
        return b.resize(mask, I64, signed=False)
    whole = integer(mask.lanes)
    bits = b.emit(whole, f"bitcast {mask} to {whole}")
    return b.resize(b.intrinsic("ctpop", bits), I64, signed=False)


def _wide(b: FunctionBuilder, number: Value) -> Value:
    return b.splat(number, _lanes(b))


class _Selection:
    """Drops all but the first k numbers of a buffer.

    Args:
        buffer: where they are.
        count: how many, k at least.
        least: none is less.
    """

    def __init__(self, buffer: _Buffer, count: Value, least: Value) -> None:
        self.buffer, self.b, self.count, self.least = buffer, buffer.b, count, least

    def emit(self) -> Value:
        """What a number must exceed to be one of the first k from now on."""
        b = self.b
        self._fill_vector()
        least = self._found()
        zeros = [b.const(I64, 0)] * 2
        with b.carried_loop(0, self.count, self.buffer.lanes, initial=zeros) as loop:
            loop.carry(*self._kept(loop.index, loop.values, _wide(b, least)))
        greater, _ = loop.values
        with b.loop(greater, self.buffer.k) as at:
            position = self.buffer.load_one(self.buffer.equals, b.sub(at, greater))
            self.buffer.store(self.buffer.positions, at, position)
            self.buffer.store(self.buffer.numbers, at, least)
        return least

    def _fill_vector(self) -> None:
        """Zeros behind the last number: nothing reaches less, and those equal come behind."""
        self.buffer.store(self.buffer.numbers, self.count, self.buffer.zeros)

    def _found(self) -> Value:
        """The greatest number that k numbers reach, or a lesser one that no more reach."""
        b, k = self.b, self.buffer.k
        # the bits above the first that differ are those of all numbers
        differing = b.xor(self._greatest(), self.least)
        first = b.lshr(
            b.const(I32, 1 << 31), b.intrinsic("smin", b.intrinsic("ctlz", differing), 31)
        )
        common = b.and_(self.least, b.not_(b.sub(b.shl(first, 1), 1)))

        def body(values: Sequence[Value]) -> Sequence[Value]:
            found, bit = values
            tried = b.or_(found, bit)
            count = self._reaching(_wide(b, tried))
            found = b.select(b.icmp("sge", count, k), tried, found)
            is_exact = b.icmp("eq", count, k)
            return found, b.select(is_exact, b.const(I32, 0), b.lshr(bit, 1))

        def condition(values: Sequence[Value]) -> Value:
            return b.icmp("ne", values[1], 0)

        return b.while_loop((common, first), condition, body)[0]

    def _greatest(self) -> Value:
        b = self.b
        first = [self.buffer.zeros]
        with b.carried_loop(0, self.count, self.buffer.lanes, initial=first) as loop:
            numbers = self.buffer.load(self.buffer.numbers, loop.index)
            loop.carry(b.intrinsic("umax", loop.values[0], numbers))
        (greatest,) = loop.values
        return greatest if greatest.lanes == 1 else b.intrinsic("vector.reduce.umax", greatest)

    def _reaching(self, least: Value) -> Value:
        b = self.b
        zero = [b.const(I64, 0)]
        with b.carried_loop(0, self.count, self.buffer.lanes, initial=zero) as loop:
            reached = b.icmp("uge", self.buffer.load(self.buffer.numbers, loop.index), least)
            loop.carry(b.add(loop.values[0], _count(b, reached)))
        return loop.values[0]

    def _kept(self, at: Value, counts: Sequence[Value], least: Value) -> Sequence[Value]:
        """Moves greater numbers to the front, and positions of equal ones aside."""
        b, buffer, (greater, equal) = self.b, self.buffer, counts
        numbers, positions = buffer.load(buffer.numbers, at), buffer.load(buffer.positions, at)
        is_greater, is_equal = b.icmp("ugt", numbers, least), b.icmp("eq", numbers, least)
        buffer.append(buffer.numbers, greater, numbers, is_greater)
        buffer.append(buffer.positions, greater, positions, is_greater)
        buffer.append(buffer.equals, equal, positions, is_equal)
        return b.add(greater, _count(b, is_greater)), b.add(equal, _count(b, is_equal))


class _Search:
    """Writes the microkernel."""

    def __init__(
        self, b: FunctionBuilder, form: TopK, row: Value, values: Value, positions: Value,
        size: Value, k: Value, memory: Value,
    ) -> None:  # fmt: skip
        self.b, self.form, self.row, self.size, self.k = b, form, row, size, k
        self.values, self.positions = values, positions
        self.buffer = _Buffer(b, memory, k)

    def emit(self) -> None:
        """Reads the row, then ranks what is left."""
        b = self.b
        first = b.intrinsic("smin", self.size, self.buffer.capacity)
        self._take_all(first)
        least = self.buffer.threshold(first, b.const(I32, 0))
        step = GROUP * self.buffer.lanes
        end = b.add(first, b.and_(b.sub(self.size, first), -step))
        with b.carried_loop(first, end, step, initial=[self.k, least]) as groups:
            groups.carry(*self._group(groups.index, *groups.values))
        count, least = groups.values
        with b.carried_loop(end, self.size, initial=[count]) as loop:
            number = self.form.keys(b, self.row, loop.index, 1)
            loop.carry(self._appended(loop.values[0], loop.index, number, least))
        self.buffer.threshold(loop.values[0], least)
        self._rank()

    def _places(self, at: Value, lanes: int) -> Value:
        b = self.b
        start = b.splat(b.resize(at, I32, signed=False), lanes)
        return b.add(start, b.lane_numbers(lanes)) if lanes > 1 else start

    def _take_all(self, first: Value) -> None:
        """The first elements of the row."""
        b, most = self.b, self.buffer.lanes
        whole = b.and_(first, -most)
        for begin, end, lanes in ((b.const(I64, 0), whole, most), (whole, first, 1)):
            with b.loop(begin, end, lanes) as at:
                self.buffer.store(self.buffer.numbers, at, self.form.keys(b, self.row, at, lanes))
                self.buffer.store(self.buffer.positions, at, self._places(at, lanes))

    def _group(self, at: Value, count: Value, least: Value) -> Sequence[Value]:
        """Appends what counts of some vectors; how many there are then, and the k-th."""
        b, wide = self.b, _wide(self.b, least)
        lanes = self.buffer.lanes
        starts = [b.add(at, n * lanes) for n in range(GROUP)]
        numbers = [self.form.keys(b, self.row, start, lanes) for start in starts]
        found = b.const(vector(I1, lanes), 0)
        for each in numbers:
            found = b.or_(found, b.icmp("ugt", each, wide))

        def append() -> Sequence[Value]:
            held = count
            for start, each in zip(starts, numbers, strict=True):
                held = self._appended(held, start, each, wide)
            return b.branch(
                b.icmp("sgt", held, self.buffer.capacity),
                lambda: (self.k, self.buffer.threshold(held, least)),
                lambda: (held, least),
            )

        return b.branch(b.any(found), append, lambda: (count, least))

    def _appended(self, count: Value, at: Value, numbers: Value, least: Value) -> Value:
        """Appends numbers greater than the k-th; how many there are then."""
        b, buffer = self.b, self.buffer
        mask = b.icmp("ugt", numbers, least)
        buffer.append(buffer.numbers, count, numbers, mask)
        buffer.append(buffer.positions, count, self._places(at, numbers.lanes), mask)
        return b.add(count, _count(b, mask))

    def _rank(self) -> None:
        """Writes each of the k to where it belongs."""
        b, buffer = self.b, self.buffer
        with b.loop(0, self.k, buffer.lanes) as at:
            numbers, positions = buffer.load(buffer.numbers, at), buffer.load(buffer.positions, at)
            with b.carried_loop(0, self.k, initial=[buffer.zeros]) as others:
                number = _wide(b, buffer.load_one(buffer.numbers, others.index))
                position = _wide(b, buffer.load_one(buffer.positions, others.index))
                is_same = b.icmp("eq", number, numbers)
                is_first = b.and_(is_same, b.icmp("ult", position, positions))
                before = b.or_(b.icmp("ugt", number, numbers), is_first)
                others.carry(b.sub(others.values[0], b.resize(before, I32, signed=True)))
            buffer.store(buffer.equals, at, others.values[0])
        with b.loop(0, self.k) as at:
            rank = b.resize(buffer.load_one(buffer.equals, at), I64, signed=False)
            position = buffer.load_one(buffer.positions, at)
            b.store(position, b.element_address(self.positions, rank, I32))
            stored = integer(self.form.dtype.bits)
            source = b.element_address(self.row, b.resize(position, I64, signed=False), stored)
            b.store(b.load(stored, source), b.element_address(self.values, rank, stored))
