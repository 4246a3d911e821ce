"""Vectors of neighbours in a dimension that is made of two: groups, and a few elements of each.

Two numbers of 4 bits in a byte are such elements, and so are those that a program takes out of
bytes by masks and shifts and lays beside one another. A vector is made of shorter ones, which have
one element for each group.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from xladev.codegen.arrays import IrArray
from xladev.codegen.elemental.emitter import ElementalEmitter
from xladev.codegen.elemental.movement import reshaped_index
from xladev.codegen.index import Index, IndexMath, IndexValue
from xladev.codegen.llvm import FunctionBuilder, Value, integer, vector
from xladev.codegen.scalar.elements import ComplexValue, Element
from xladev.codegen.scalar.elementwise import emit_elementwise
from xladev.codegen.scalar.storage import from_bits, load_element, to_bits
from xladev.hlo.ir import HloInstruction

MOST_PIECES = 8
"""Elements of a group."""
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
    def divisor(self, x: IndexValue) -> int:
        """A number that divides a coordinate, of lane 0 if it moves."""


class LaneEmitter(ElementalEmitter, ABC):
    """Emits vectors of elements.

    Attributes:
        at: index arithmetic.
        lanes: length of the vectors.
    """

    at: MovingIndexMath
    lanes: int

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
    is_moving = e.at.moves(index[-1]) and e.at.divisor(index[-1]) % e.lanes == 0
    if not is_moving or i.shape.dims[-1] % e.lanes:
        return None
    return _Groups(e, i, index, count).element(i.operands[0])


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
        if arrays is None and value.opcode == "bitcast-convert":
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
        parts = [x.real if isinstance(x, ComplexValue) else x for x in made]
        real = interleaved(self.e.b, parts)
        imaginary = [x.imag for x in made if isinstance(x, ComplexValue)]
        return ComplexValue(real, interleaved(self.e.b, imaginary)) if imaginary else real

    def _operand(self, value: HloInstruction) -> Element:
        if value.shape.dims == self.dims:
            return self.element(value)
        return self.e.same_in_all(value)

    def _loaded(self, array: IrArray) -> Element:
        dtype, place = array.shape.element_type, self.e.at.value(self.position)
        return load_element(
            self.e.b,
            array.base,
            place,
            dtype,
            lanes=self.e.lanes,
            align=dtype.host_nbytes,
            metadata=array.metadata,
        )

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


def _is_in_order(array: IrArray) -> bool:
    rank = array.shape.rank
    return not array.shape.element_type.is_complex and array.shape.minor_to_major == tuple(
        range(rank - 1, -1, -1)
    )


def interleaved(b: FunctionBuilder, values: Sequence[Value]) -> Value:
    """Lane 0 of each vector, then lane 1 of each, and so on, of a power of two of vectors."""
    if len(values) == 1:
        return values[0]
    even, odd = interleaved(b, values[::2]), interleaved(b, values[1::2])
    lanes = even.lanes
    return b.shuffle(even, odd, tuple(n for lane in range(lanes) for n in (lane, lanes + lane)))
