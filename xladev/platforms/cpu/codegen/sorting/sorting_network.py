"""Short rows of numbers, sorted in vectors by a network of comparisons.

The elements become unsigned integers in the order that is wanted. Sixteen at a time are sorted in a
register, then sorted runs are merged (Batcher's bitonic networks): a run and the next one reversed
are compared number by number, and both halves cleaned. A row of which some element cannot be told
from its integer, such as -0 where zeros are equal, is not sorted here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xladev.codegen.arrays import IrArray
from xladev.codegen.llvm import I1, I32, I64, FunctionBuilder, Value, vector
from xladev.codegen.scalar.storage import load_element
from xladev.hlo.dtype import F32, S32, U32, PrimitiveType
from xladev.platforms.cpu.codegen.sorting.sort_keys import SortKey, Writing

LANES = 16
MOST_SIZE = 4096
"""Elements of a row from which dealing by bytes is as fast."""


def network_nbytes(size: int) -> int:
    """Workspace for a row: a power of two of integers."""
    return 4 << max((size - 1).bit_length(), 5)


def is_by_network(key: SortKey, dtypes: Sequence[PrimitiveType], size: int) -> bool:
    """True for short rows of single numbers of 32 bits."""
    return (
        len(dtypes) == 1
        and dtypes[0] in (F32, S32, U32)
        and key.value.shape.element_type is dtypes[0]
        and 2 * LANES <= size <= MOST_SIZE
    )


def sort_in_network(
    b: FunctionBuilder, key: SortKey, row: IrArray, memory: Value, size: Value
) -> None:
    """Sorts the keys that `write_keys` wrote, and writes the elements in their order."""
    _Network(b, memory, _halves(b, size)).sort()
    start = b.and_(size, -LANES)
    for begin, end, lanes in ((b.const(I64, 0), start, LANES), (start, size, 1)):
        with b.loop(begin, end, lanes) as x:
            number = b.load(vector(I32, lanes), _at(b, memory, x))
            bits = _from_key(b, key, number, row.shape.element_type)
            b.store(bits, _at(b, row.base, x))


def _halves(b: FunctionBuilder, size: Value) -> Value:
    """Logarithm of the number of vectors of a row: of one, it would have no halves."""
    zeros = b.intrinsic("ctlz", b.sub(size, 1))
    return b.intrinsic("smax", b.sub(64 - (LANES.bit_length() - 1), zeros), 1)


def _at(b: FunctionBuilder, memory: Value, at: Value) -> Value:
    return b.element_address(memory, at, I32)


def write_keys(k: Writing, key: SortKey, row: IrArray, memory: Value, size: Value) -> Value:
    """Writes the keys of a row and, behind them, the greatest.

    Args:
        k: writes the code.
        key: what decides.
        row: the elements.
        memory: `network_nbytes` of it.
        size: how many elements.

    Returns:
        Whether each element can be told from its key.
    """
    b, dtype = k.b, row.shape.element_type
    greatest = b.const(vector(I32, LANES), -1)
    start = b.and_(size, -LANES)
    with b.loop(start, b.shl(b.const(I64, LANES), _halves(b, size)), LANES) as x:
        b.store(greatest, _at(b, memory, x))
    exact = b.const(I1, 1)
    for begin, end, lanes in ((b.const(I64, 0), start, LANES), (start, size, 1)):
        all_lanes = b.const(vector(I1, lanes), 1)
        with b.carried_loop(begin, end, lanes, initial=[all_lanes]) as loop, k.e.scope():
            element = load_element(b, row.base, loop.index, dtype, lanes=lanes)
            number = key.emit(k.e, element, lanes)
            b.store(number, _at(b, memory, loop.index))
            bits = b.load(vector(I32, lanes), _at(b, row.base, loop.index))
            same = b.icmp("eq", _from_key(b, key, number, dtype), bits)
            loop.carry(b.and_(loop.values[0], same))
        (told,) = loop.values
        exact = b.and_(exact, told if lanes == 1 else b.intrinsic("vector.reduce.and", told))
    return exact


def _from_key(b: FunctionBuilder, key: SortKey, number: Value, dtype: PrimitiveType) -> Value:
    """The bits of the element that is compared as it is."""
    number = b.not_(number) if key.descending else number
    if dtype is U32:
        return number
    signed = b.xor(number, -(1 << 31))
    return signed if dtype is S32 else b.xor(signed, b.lshr(b.ashr(signed, 31), 1))


class _Network:
    """The comparisons of ``1 << halves`` vectors."""

    def __init__(self, b: FunctionBuilder, memory: Value, halves: Value) -> None:
        self.b, self.memory, self.halves = b, memory, halves
        self.count = b.shl(b.const(I64, 1), halves)

    def sort(self) -> None:
        """All numbers."""
        self._each(self._sorted)
        with self.b.loop(0, self.halves) as shift:
            self._pairs(shift, self._merge_ends)
            last = self.b.sub(shift, 1)
            with self.b.loop(0, shift) as number:
                self._pairs(self.b.sub(last, number), self._merge_halves)
            self._each(self._cleaned)

    def _place(self, number: Value) -> Value:
        return _at(self.b, self.memory, self.b.mul(number, LANES))

    def _load(self, position: Value) -> Value:
        return self.b.load(vector(I32, LANES), position)

    def _each(self, change: Callable[[Value], Value]) -> None:
        with self.b.loop(0, self.count) as number:
            position = self._place(number)
            self.b.store(change(self._load(position)), position)

    def _pairs(self, shift: Value, merge: Callable[[Value, Value, Value], None]) -> None:
        """Calls ``merge(first, offset, half)`` for all vectors of first halves of blocks.

        A block is two halves of ``1 << shift`` vectors.
        """
        half = self.b.shl(self.b.const(I64, 1), shift)
        with self.b.loop(0, self.b.lshr(self.count, 1)) as number:
            block = self.b.shl(self.b.lshr(number, shift), self.b.add(shift, 1))
            offset = self.b.and_(number, self.b.sub(half, 1))
            merge(block, offset, half)

    def _merge_ends(self, block: Value, offset: Value, half: Value) -> None:
        """The first vector of a block with the last, reversed, and so on."""
        end = self.b.sub(self.b.add(block, self.b.shl(half, 1)), 1)
        positions = (
            self._place(self.b.add(block, offset)),
            self._place(self.b.sub(end, offset)),
        )
        low, high = self._load(positions[0]), self._reversed(self._load(positions[1]))
        self.b.store(self.b.intrinsic("umin", low, high), positions[0])
        self.b.store(self._reversed(self.b.intrinsic("umax", low, high)), positions[1])

    def _merge_halves(self, block: Value, offset: Value, half: Value) -> None:
        """Each vector of the first half with the one at its position in the second."""
        first = self.b.add(block, offset)
        positions = self._place(first), self._place(self.b.add(first, half))
        low, high = map(self._load, positions)
        self.b.store(self.b.intrinsic("umin", low, high), positions[0])
        self.b.store(self.b.intrinsic("umax", low, high), positions[1])

    def _reversed(self, numbers: Value) -> Value:
        return self.b.shuffle(numbers, numbers, tuple(reversed(range(LANES))))

    def _sorted(self, numbers: Value) -> Value:
        """Sixteen numbers in order."""
        width = 2
        while width <= LANES:
            numbers = self._compared(numbers, width - 1, width // 2)
            numbers = self._cleaned(numbers, width // 4)
            width *= 2
        return numbers

    def _cleaned(self, numbers: Value, distance: int = LANES // 2) -> Value:
        """In order, where numbers first rise and then fall."""
        while distance:
            numbers = self._compared(numbers, distance, distance)
            distance //= 2
        return numbers

    def _compared(self, numbers: Value, other: int, upper: int) -> Value:
        """Each lane with lane ^ ``other``; those with bit ``upper`` keep the greater number."""
        partners = self.b.shuffle(numbers, numbers, tuple(n ^ other for n in range(LANES)))
        least = self.b.intrinsic("umin", numbers, partners)
        most = self.b.intrinsic("umax", numbers, partners)
        lanes = tuple(n + LANES if n & upper else n for n in range(LANES))
        return self.b.shuffle(least, most, lanes)
