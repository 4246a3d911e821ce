"""Vectors of neighbours in a dimension that is made of two: groups, and a few elements of each.

Two numbers of 4 bits in a byte are such elements, and so are those that a program takes out of
bytes by masks and shifts and lays beside one another. A vector is made of shorter ones, which have
one element for each group.

Where the order of lanes does not matter as long as all vectors have the same, such as in sums, they
are not laid beside one another: with ``pieces``, lanes are in the order of their numbers modulo
that, the first elements of all groups before the second ones.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from xladev.codegen.arrays import IrArray
from xladev.codegen.elemental.emitter import ElementalEmitter
from xladev.codegen.elemental.movement import reshaped_index
from xladev.codegen.index import Index, IndexMath, IndexValue
from xladev.codegen.llvm import FLOAT, FunctionBuilder, Value, integer, vector
from xladev.codegen.scalar.elements import ComplexValue, Element, compute_type
from xladev.codegen.scalar.elementwise import emit_elementwise
from xladev.codegen.scalar.storage import from_bits, load_element, to_bits
from xladev.hlo.dtype import BF16, F16, F32, F64, PrimitiveType
from xladev.hlo.ir import HloInstruction

MOST_PIECES = 8
"""Elements of a group."""
WORD_NBITS = 32
"""Bits of the words that pieces narrower than a byte are taken out of."""
F32_PLACES, F32_BIAS = 23, 127
"""Places behind the point of f32, and what is added to its exponents."""
TABLE_LANES = 16
"""Numbers of a table in which one instruction looks up as many."""
NUMBERS = frozenset({F32, F64, BF16, F16})
"""Types that words become at once, and that have all numbers of 8 bits."""
MOST_NBITS = 64
"""Bits of what is cut into pieces, once each piece has whole bytes."""


class MovingIndexMath(IndexMath, ABC):
    """Index arithmetic on the coordinates of lane 0."""

    @abstractmethod
    def start(self, x: Value, multiple_of: int) -> None:
        """Declares a coordinate that moves by one from lane to lane."""

    @abstractmethod
    def moves(self, x: IndexValue) -> bool:
        """True if the coordinate differs from lane to lane."""

    @abstractmethod
    def stride(self, x: IndexValue) -> int:
        """By how much a coordinate grows from lane to lane; 0 if it does not."""

    @abstractmethod
    def divisor(self, x: IndexValue) -> int:
        """A number that divides a coordinate, of lane 0 if it moves."""


class LaneEmitter(ElementalEmitter, ABC):
    """Emits vectors of elements.

    Attributes:
        at: index arithmetic.
        lanes: length of the vectors.
        pieces: lanes are in the order of their numbers modulo this.
    """

    at: MovingIndexMath
    lanes: int
    pieces: int

    @abstractmethod
    def shorter(self, factor: int) -> LaneEmitter:
        """One for vectors shorter by a factor."""

    @abstractmethod
    def same_in_all(self, scalar: HloInstruction) -> Element:
        """A value without dimensions, in every lane."""


def reshaped_groups(e: LaneEmitter, i: HloInstruction, index: Index) -> Element | None:
    """Neighbours of a reshape that makes one dimension of groups and their few elements.

    Args:
        e: makes vectors.
        i: the reshape.
        index: of lane 0.

    Returns:
        The vector; None if the reshape is any other.
    """
    source = i.operands[0].shape
    if not source.rank or not i.shape.rank:
        return None
    count = source.dims[-1]
    if not 2 <= count <= MOST_PIECES or count & (count - 1) or e.lanes <= count:
        return None
    if e.pieces not in (1, count) and not _is_all_of_words(e, i.operands[0], count):
        return None
    is_moving = e.at.stride(index[-1]) == 1 and e.at.divisor(index[-1]) % e.lanes == 0
    if not is_moving or i.shape.dims[-1] % e.lanes:
        return None
    return _Groups(e, i, index, count).element(i.operands[0])


def _is_of_words(value: HloInstruction, count: int, pieces: int) -> bool:
    """True if so many pieces narrower than a byte are an element, or a word of some elements."""
    if value.opcode != "bitcast-convert":
        return False
    wide, kept = value.operands[0].shape.element_type, value.shape.element_type
    if wide.is_complex or kept.bits >= 8 or wide.bits != kept.bits * count:
        return False
    return wide.bits <= WORD_NBITS and pieces in (count, WORD_NBITS // kept.bits)


def _is_all_of_words(e: LaneEmitter, value: HloInstruction, count: int) -> bool:
    """True if all that a value is made of is such pieces, or the same in all lanes."""
    if value in e.arrays:
        return False
    if _is_of_words(value, count, e.pieces):
        return True
    if not value.op.elementwise or value.opcode == "bitcast-convert":
        return False
    return all(not o.shape.rank or _is_all_of_words(e, o, count) for o in value.operands)


class _Groups:
    """The vector at one index of a reshape, of any value that has its operand's dimensions."""

    def __init__(self, e: LaneEmitter, i: HloInstruction, index: Index, count: int) -> None:
        self.e, self.count = e, count
        self.position = e.at.linear(index, i.shape.dims)
        self.fewer = e.shorter(count)
        first = self.fewer.at.div(self.fewer.at.value(index[-1]), count)
        first = self.fewer.at.value(first)
        self.fewer.at.start(first, self.fewer.lanes)
        ours = (*i.shape.dims[:-1], i.shape.dims[-1] // count)
        dims = i.operands[0].shape.dims
        self.at = reshaped_index(self.fewer, (*index[:-1], first), ours, dims[:-1])
        self.dims = dims

    def element(self, value: HloInstruction) -> Element:
        """All lanes."""
        arrays = self.e.arrays.get(value)
        if arrays is not None and _is_in_order(arrays[0]):
            return self._loaded(arrays[0])
        if arrays is None and self.e.pieces > 1:
            if _is_of_words(value, self.count, self.e.pieces):
                return self._apart(value)
            if value.opcode == "convert" and value.shape.element_type in NUMBERS:
                narrow = value.operands[0]
                is_whole = narrow.shape.element_type.is_integral and narrow not in self.e.arrays
                if is_whole and _is_of_words(narrow, self.count, self.e.pieces):
                    return self._numbers(narrow, value.shape.element_type)
        elif arrays is None and value.opcode == "bitcast-convert":
            found = self._pieces(value)
            if found is not None:
                return found
        if arrays is None and value.op.elementwise and value.opcode != "bitcast-convert":
            return emit_elementwise(
                self.e.b,
                value.opcode,
                [o.shape.element_type for o in value.operands],
                value.shape.element_type,
                [self._operand(o) for o in value.operands],
                value.attrs,
            )
        made = [self.fewer.element(value, (*self.at, n)) for n in range(self.count)]
        return self._joined(made)

    def _joined(self, made: Sequence[Element]) -> Element:
        """All lanes, of vectors of the first elements of groups, the second ones, and so on."""
        join = interleaved if self.e.pieces == 1 else concatenated
        real = join(self.e.b, [x.real if isinstance(x, ComplexValue) else x for x in made])
        imaginary = [x.imag for x in made if isinstance(x, ComplexValue)]
        return ComplexValue(real, join(self.e.b, imaginary)) if imaginary else real

    def _operand(self, value: HloInstruction) -> Element:
        if value.shape.dims == self.dims:
            return self.element(value)
        return self.e.same_in_all(value)

    def _loaded(self, array: IrArray) -> Element:
        dtype, place = array.shape.element_type, self.e.at.value(self.position)
        loaded = load_element(
            self.e.b,
            array.base,
            place,
            dtype,
            lanes=self.e.lanes,
            align=dtype.host_nbytes,
            metadata=array.metadata,
        )
        return in_order(self.e.b, loaded, self.e.pieces)

    def _words(self, narrow: HloInstruction) -> Value:
        """Words that pieces narrower than a byte are in: an element each, or as many as fill it."""
        b, wide = self.e.b, narrow.operands[0].shape.element_type
        whole = to_bits(b, self.fewer.element(narrow.operands[0], self.at), wide)
        lanes = self.e.lanes // self.e.pieces
        if wide.bits < WORD_NBITS and self.e.pieces == self.count:
            # Not extended but laid between zeros, for LLVM would do arithmetic on the narrow ones.
            zero, times = Value("zeroinitializer", whole.type), WORD_NBITS // wide.bits
            order = (n if not part else lanes for n in range(lanes) for part in range(times))
            whole = b.shuffle(whole, zero, tuple(order))
        words = vector(integer(WORD_NBITS), lanes)
        return b.emit(words, f"bitcast {whole} to {words.text}")

    def _apart(self, narrow: HloInstruction) -> Element:
        """Pieces narrower than a byte, in order."""
        b, kept = self.e.b, narrow.shape.element_type
        words = self._words(narrow)
        pieces = [b.lshr(words, n * kept.bits) if n else words for n in range(self.e.pieces)]
        bits = [b.resize(piece, integer(kept.bits), signed=False) for piece in pieces]
        return self._joined([from_bits(b, each, kept) for each in bits])

    def _numbers(self, narrow: HloInstruction, target: PrimitiveType) -> Element:
        """The same as floats: looked up, or places of a power of two in f32, which is subtracted.

        What a piece of some bits has above it in its word is a lower power of two then, so few
        pieces are moved. Signs become an amount to add.
        """
        b, kept = self.e.b, narrow.shape.element_type
        words, bits = self._words(narrow), kept.bits
        if b.module.target.has_lookups and words.lanes == TABLE_LANES >= 1 << bits:
            table = _table(kept)
            shifted = [b.lshr(words, n * bits) if n else words for n in range(self.e.pieces)]
            found = concatenated(b, [b.look_up(table, each) for each in shifted])
            return b.refloat(found, compute_type(target))
        offset = 1 << (bits - 1) if kept.is_signed else 0
        made: list[Value] = []
        moved = 0
        for n in range(self.e.pieces):
            if (n + 1) * bits - moved > F32_PLACES:
                moved = n * bits
            place = n * bits - moved
            word = b.lshr(words, moved) if moved else words
            exponent = (F32_BIAS + F32_PLACES - place) << F32_PLACES
            found = b.xor(b.and_(word, ((1 << bits) - 1) << place), exponent | offset << place)
            first = 2.0 ** (F32_PLACES - place) + offset
            made.append(b.fsub(b.bitcast(found, FLOAT), first))
        return b.refloat(concatenated(b, made), compute_type(target))

    def _pieces(self, narrow: HloInstruction) -> Element | None:
        """Pieces of wider elements, the first one of the lowest bits; None if there are others."""
        b, count = self.e.b, self.count
        wide = narrow.operands[0].shape.element_type
        bits = narrow.shape.element_type.bits
        place = max(bits, 8)
        if wide.bits != bits * count or count * place > MOST_NBITS or wide.is_complex:
            return None
        whole = to_bits(b, self.fewer.element(narrow.operands[0], self.at), wide)
        if bits < place:
            spread = b.resize(whole, integer(count * place), signed=False)
            mask = (1 << bits) - 1
            parts = [
                b.and_(b.shl(spread, n * (place - bits)), mask << (n * place)) for n in range(count)
            ]
            whole = parts[0]
            for part in parts[1:]:
                whole = b.or_(whole, part)
        pieces = vector(integer(place), self.e.lanes)
        found = b.emit(pieces, f"bitcast {whole} to {pieces.text}")
        return from_bits(b, b.resize(found, integer(bits), signed=False), narrow.shape.element_type)


def _table(kept: PrimitiveType) -> Value:
    """The numbers of few bits as f32, in the lane of each pattern, whatever is above it."""
    count = 1 << kept.bits
    first = count >> 1 if kept.is_signed else count
    numbers = [n - count if n >= first else n for n in range(count)] * (TABLE_LANES // count)
    items = ", ".join(f"float {n}.0" for n in numbers)
    return Value(f"<{items}>", vector(FLOAT, TABLE_LANES))


def _is_in_order(array: IrArray) -> bool:
    rank = array.shape.rank
    return not array.shape.element_type.is_complex and array.shape.minor_to_major == tuple(
        range(rank - 1, -1, -1)
    )


def in_order(b: FunctionBuilder, element: Element, pieces: int) -> Element:
    """Lanes of neighbours in the order of their numbers modulo ``pieces``."""
    if isinstance(element, ComplexValue):
        parts = [value_in_order(b, x, pieces) for x in (element.real, element.imag)]
        return ComplexValue(parts[0], parts[1])
    return value_in_order(b, element, pieces)


def value_in_order(b: FunctionBuilder, value: Value, pieces: int) -> Value:
    """The same for what is one value."""
    return concatenated(b, _every(b, value, pieces)) if pieces > 1 < value.lanes else value


def value_side_by_side(b: FunctionBuilder, value: Value, pieces: int) -> Value:
    """Lanes that are in such an order as neighbours again."""
    if pieces == 1 or value.lanes == 1:
        return value
    count = value.lanes // pieces
    starts = range(0, value.lanes, count)
    return interleaved(b, [b.shuffle(value, value, tuple(range(n, n + count))) for n in starts])


def _every(b: FunctionBuilder, value: Value, pieces: int) -> list[Value]:
    """Lanes of each remainder, by steps that take lanes of two registers."""
    if pieces == 1:
        return [value]
    halves = [b.shuffle(value, value, tuple(range(n, value.lanes, 2))) for n in (0, 1)]
    even, odd = (_every(b, half, pieces // 2) for half in halves)
    return [part for pair in zip(even, odd, strict=True) for part in pair]


def concatenated(b: FunctionBuilder, values: Sequence[Value]) -> Value:
    """All lanes of the first vector, then all of the second, of a power of two of vectors."""
    if len(values) == 1:
        return values[0]
    half = len(values) // 2
    left, right = concatenated(b, values[:half]), concatenated(b, values[half:])
    return b.shuffle(left, right, tuple(range(2 * left.lanes)))


def interleaved(b: FunctionBuilder, values: Sequence[Value]) -> Value:
    """Lane 0 of each vector, then lane 1 of each, and so on, of a power of two of vectors."""
    if len(values) == 1:
        return values[0]
    even, odd = interleaved(b, values[::2]), interleaved(b, values[1::2])
    lanes = even.lanes
    return b.shuffle(even, odd, tuple(n for lane in range(lanes) for n in (lane, lanes + lane)))
