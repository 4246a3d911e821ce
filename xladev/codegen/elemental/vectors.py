"""Vectors of neighbouring elements, by the same rules that compute one element.

One coordinate of an index moves: lane i stands for that coordinate plus i. All index arithmetic is
done for lane 0, and `VectorIndexMath` follows what moves. Where lanes would not be neighbours in
memory, or a condition would differ among them, `NotInVectorsError` is raised, and whoever asked
computes element by element instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import gcd
from types import MappingProxyType
from typing import NamedTuple

from xladev.codegen.arrays import IrArray, element_strides
from xladev.codegen.elemental.emitter import ElementalEmitter, ElementRule
from xladev.codegen.elemental.indexing import INDEXING_RULES, gathered_from
from xladev.codegen.elemental.movement import MOVEMENT_RULES
from xladev.codegen.elemental.pieces import (
    LaneEmitter,
    MovingIndexMath,
    in_order,
    reshaped_groups,
    value_in_order,
)
from xladev.codegen.elemental.reduction import reduce_window_elements
from xladev.codegen.index import Index, IndexMath, IndexValue
from xladev.codegen.llvm import I32, I64, FunctionBuilder, Value
from xladev.codegen.scalar.convert import emit_convert
from xladev.codegen.scalar.elements import ComplexValue, Element, splat
from xladev.codegen.scalar.storage import from_bits, load_element, store_element, to_bits
from xladev.errors import UnsupportedError
from xladev.hlo import dtype as dt
from xladev.hlo.ir import HloInstruction
from xladev.hlo.ops.index_dims import IndexDims
from xladev.hlo.shape import Shape


class NotInVectorsError(UnsupportedError):
    """These elements are not neighbours: they must be computed one by one."""


class _Span(NamedTuple):
    """All that a coordinate may be: ``scale * x + shift`` for x from ``first`` up to ``end``."""

    first: int
    end: int
    shift: int = 0
    scale: int = 1

    @property
    def lowest(self) -> int:
        """Of the first x."""
        return self.scale * self.first + self.shift

    @property
    def highest(self) -> int:
        """Of the last x."""
        return self.scale * (self.end - 1) + self.shift

    def reaching(self, place: int) -> int:
        """The first x of which the coordinate is at a place or beyond."""
        return -((self.shift - place) // self.scale)


class VectorIndexMath(MovingIndexMath):
    """Index arithmetic on the coordinates of lane 0, which knows which of them move.

    Attributes:
        lanes: length of the vectors.
        cuts: where a coordinate that moves should have been cut, for a condition to hold in all
            lanes or in none.
        most_stride: how far apart in memory lanes may be, in elements.
    """

    def __init__(self, b: FunctionBuilder, lanes: int) -> None:
        super().__init__(b)
        self.lanes = lanes
        self.cuts: set[int] = set()
        self.most_stride = 1
        self._moving: dict[Value, int] = {}
        self._strides: dict[Value, int] = {}
        self._multiples: dict[Value, int] = {}
        self._spans: dict[Value, _Span] = {}
        self._runs: dict[Value, tuple[Value, int]] = {}
        self._quotients: dict[tuple[Value, int], IndexValue] = {}

    def start(self, x: Value, multiple_of: int, span: tuple[int, int] | None = None) -> None:
        """Declares a coordinate that moves by one from lane to lane.

        Args:
            x: the coordinate of lane 0.
            multiple_of: divides it.
            span: the lowest that it is, and what is above the highest of the last lane, if known.
        """
        self._moving[x] = multiple_of
        if span is not None:
            self._spans[x] = _Span(*span)

    def is_multiple(self, x: Value, of: int) -> None:
        """Declares what divides a coordinate that does not move."""
        self._multiples[x] = of

    def is_in_run(self, x: Value, start: Value, length: int) -> None:
        """Declares a coordinate in a run that begins at a multiple of its length; it does not move.

        What is the same in the run is computed once, if it was computed for its start before.
        """
        self._runs[start] = self._runs[x] = start, length

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Code that may not run: quotients made inside are forgotten at its end."""
        known = dict(self._quotients)
        try:
            yield
        finally:
            self._quotients = known

    def moves(self, x: IndexValue) -> bool:
        """True if the coordinate differs from lane to lane."""
        return isinstance(x, Value) and x in self._moving

    def divisor(self, x: IndexValue) -> int:
        """A number that divides a coordinate, of lane 0 if it moves."""
        if isinstance(x, int):
            return abs(x)
        return self._moving.get(x) or self._multiples.get(x, 1)

    def stride(self, x: IndexValue) -> int:
        """By how much a coordinate grows from lane to lane."""
        return self._strides.get(x, 1) if isinstance(x, Value) and self.moves(x) else 0

    def _note(self, result: IndexValue, stride: int, divisor: int) -> IndexValue:
        if isinstance(result, Value) and result not in self._moving:
            (self._moving if stride else self._multiples)[result] = divisor
            if stride > 1:
                self._strides[result] = stride
        return result

    def add(self, x: IndexValue, y: IndexValue) -> IndexValue:
        """Sum; at most one of the two moves."""
        if self.moves(x) and self.moves(y):
            raise NotInVectorsError("lanes two elements apart")
        total = super().add(x, y)
        if self.moves(y):
            x, y = y, x
        self._shift(x, y, 1, total)
        return self._note(total, self.stride(x), gcd(self.divisor(x), self.divisor(y)))

    def _shift(self, x: IndexValue, y: IndexValue, sign: int, result: IndexValue) -> None:
        """Notes what a coordinate spans after a number was added to it."""
        span = self._spans.get(x) if isinstance(x, Value) else None
        if span is not None and isinstance(y, int) and isinstance(result, Value) and y:
            self._spans[result] = span._replace(shift=span.shift + sign * y)

    def sub(self, x: IndexValue, y: IndexValue) -> IndexValue:
        """Difference of what may move and what does not."""
        if self.moves(y):
            raise NotInVectorsError("lanes that go backwards")
        difference = super().sub(x, y)
        self._shift(x, y, -1, difference)
        return self._note(difference, self.stride(x), gcd(self.divisor(x), self.divisor(y)))

    def mul(self, x: IndexValue, y: IndexValue) -> IndexValue:
        """Product; what moves may be multiplied by small numbers alone."""
        product = super().mul(x, y)
        if self.moves(y):
            x, y = y, x
        if not self.moves(x):
            return self._note(product, 0, self.divisor(x) * self.divisor(y))
        if not isinstance(product, Value) or self.moves(product):
            return product
        stride = self.stride(x) * y if isinstance(y, int) else 0
        if not 1 < stride <= self.most_stride:
            raise NotInVectorsError("lanes that are apart")
        span = self._spans.get(x) if isinstance(x, Value) else None
        if span is not None and isinstance(y, int):
            shift, scale = span.shift * y, span.scale * y
            self._spans[product] = span._replace(shift=shift, scale=scale)
        return self._note(product, stride, self.divisor(x) * self.divisor(y))

    def _is_aligned(self, x: IndexValue, y: int) -> bool:
        reach = self.lanes * max(1, self.stride(x))
        return y % reach == 0 and self.divisor(x) % reach == 0

    def div(self, x: IndexValue, y: int) -> IndexValue:
        """Quotient; of what moves only where all lanes have the same."""
        if self.moves(x) and y != 1 and not self._is_aligned(x, y):
            raise NotInVectorsError("lanes in different rows")
        run = self._runs.get(x) if isinstance(x, Value) else None
        if run is None or y == 1 or y % run[1]:
            return super().div(x, y)
        if (run[0], y) not in self._quotients:
            self._quotients[run[0], y] = super().div(run[0], y)
        return self._quotients[run[0], y]

    def rem(self, x: IndexValue, y: int) -> IndexValue:
        """Remainder; of what moves only where lanes stay neighbours."""
        if self.moves(x) and y != 1 and not self._is_aligned(x, y):
            raise NotInVectorsError("lanes in different rows")
        return self._note(super().rem(x, y), self.stride(x), gcd(self.divisor(x), y))

    def within(self, x: IndexValue, low: int, high: int) -> Value | bool:
        """As for one element; of what moves only where it holds for all lanes or for none."""
        if isinstance(x, Value) and x in self._spans:
            span = self._spans[x]
            if low <= span.lowest and span.highest < high:
                return True
            if span.highest < low or high <= span.lowest:
                return False
            self.cuts |= {c for c in map(span.reaching, (low, high)) if span.first < c < span.end}
        if self.moves(x) and not (self._is_aligned(x, low) and self._is_aligned(x, high)):
            raise NotInVectorsError("a condition that differs from lane to lane")
        return super().within(x, low, high)

    def uniform(self, x: IndexValue) -> IndexValue:
        """The same; not of what moves."""
        if self.moves(x):
            raise NotInVectorsError("a condition that differs from lane to lane")
        return x

    def clamp(self, x: IndexValue, low: int, high: int) -> IndexValue:
        """As for one element; not of what moves."""
        if self.moves(x) and low != high:
            raise NotInVectorsError("a limit to what moves")
        return super().clamp(x, low, high)


def position(at: IndexMath, shape: Shape, index: Index) -> IndexValue:
    """Where an element, or lane 0, is in a dense array, in elements from its base."""
    kept = tuple(0 if size == 1 else i for i, size in zip(index, shape.dims, strict=True))
    return at.strided(kept, element_strides(shape))


_ROWS_AHEAD = 4
"""How far ahead gathered rows are asked for."""
_FAR_NBYTES = 2 << 20
"""Arrays from this size on, of which rows are gathered, are not expected near the core."""
_UNCACHED_NBYTES = 32 << 20
"""Arrays from this size on are expected in no cache; in one that is, asking ahead costs time."""


class VectorEmitter(LaneEmitter):
    """Emits vectors of elements whose indices differ in one coordinate that moves.

    Attributes:
        single: emits what is the same in all lanes.
        lanes: length of the vectors.
        pieces: lanes are in the order of their numbers modulo this; see `pieces.py`.
        ahead: bytes beyond what is read that are asked for too, in large arrays.
        least_asked_nbytes: bytes of these, at least; by default those that are in no cache.
    """

    at: VectorIndexMath

    def __init__(
        self, single: ElementalEmitter, lanes: int, rules: Mapping[str, ElementRule] | None = None
    ) -> None:
        super().__init__(single.b, VECTOR_RULES if rules is None else rules, single.arrays)
        self.single_emitter = single
        self.lanes, self.pieces = lanes, 1
        self.at = VectorIndexMath(single.b, lanes)
        self.ahead, self.least_asked_nbytes = 0, _UNCACHED_NBYTES

    def shorter(self, factor: int) -> VectorEmitter:
        """One for vectors shorter by a factor."""
        made = VectorEmitter(self.single_emitter, self.lanes // factor)
        made.ahead, made.least_asked_nbytes = self.ahead, self.least_asked_nbytes
        made.at.most_stride = self.at.most_stride
        return made

    @contextmanager
    def scope(self) -> Iterator[None]:
        """See `ElementalEmitter.scope`."""
        with self.single_emitter.scope(), super().scope(), self.at.scope():
            yield

    def single(self, instruction: HloInstruction, index: Index) -> Element:
        """An element that is the same in all lanes, once."""
        if any(self.at.moves(x) for x in index):
            raise NotInVectorsError(f"{instruction.opcode} gives each lane its own index")
        return self.single_emitter.element(instruction, index)

    def same_in_all(self, scalar: HloInstruction) -> Element:
        """A value without dimensions, in every lane."""
        return splat(self.b, self.single_emitter.element(scalar, ()), self.lanes)

    def _emit(self, instruction: HloInstruction, index: Index) -> Element:
        if not any(self.at.moves(x) for x in index):
            return splat(self.b, self.single_emitter.element(instruction, index), self.lanes)
        arrays = self.arrays.get(instruction)
        if arrays is not None:
            return self.load(arrays[0], index)
        rule = self.rules.get(instruction.opcode)
        if rule is not None:
            return splat(self.b, rule(self, instruction, index), self.lanes)
        if instruction.op.elementwise:
            return self._elementwise(instruction, index)
        raise NotInVectorsError(f"{instruction.opcode} is computed element by element")

    def offset(self, array: IrArray, index: Index) -> IndexValue:
        """Position of lane 0 in an array."""
        return position(self.at, array.shape, index)

    def load(self, array: IrArray, index: Index) -> Element:
        """Reads neighbours."""
        offset = self.offset(array, index)
        if not self.at.moves(offset):
            return splat(self.b, array.load_linear(self.b, offset), self.lanes)
        if self.ahead and array.shape.nbytes >= self.least_asked_nbytes:
            self.ask(array, offset, self.ahead)
        if self.at.stride(offset) > 1:
            return in_order(self.b, self._load_apart(array, offset), self.pieces)
        loaded = load_element(
            self.b,
            array.base,
            offset,
            array.shape.element_type,
            lanes=self.lanes,
            align=self._alignment(array, offset),
            metadata=array.metadata,
        )
        return in_order(self.b, loaded, self.pieces)

    def _load_apart(self, array: IrArray, offset: IndexValue) -> Element:
        """Reads what is some elements apart: all that is between, and leaves out the rest."""
        stride, lanes, b = self.at.stride(offset), self.lanes, self.b
        end = (lanes - 1) * stride + 1
        starts = [min(n * lanes, end - lanes) for n in range(stride)]
        places = [divmod(lane * stride, lanes) for lane in range(lanes)]
        parts: list[tuple[Value, ...]] = []
        for start in starts:
            read = load_element(
                b, array.base, b.add(self.at.value(offset), start), array.shape.element_type,
                lanes=lanes, metadata=array.metadata,
            )  # fmt: skip
            parts.append((read.real, read.imag) if isinstance(read, ComplexValue) else (read,))
        made = list(parts[0])
        for number in range(1, stride):
            order = tuple(
                lanes + number * lanes + within - starts[number] if part == number
                else lane if part < number and number > 1
                else within if part < number
                else 0
                for lane, (part, within) in enumerate(places)
            )  # fmt: skip
            made = [b.shuffle(x, y, order) for x, y in zip(made, parts[number], strict=True)]
        return ComplexValue(made[0], made[1]) if len(made) > 1 else made[0]

    def ask(self, array: IrArray, offset: IndexValue, ahead: int = 0) -> None:
        """Asks for what is some bytes beyond the position of lane 0, before it is read."""
        place = self.b.mul(self.at.value(offset), array.shape.element_type.host_nbytes)
        self.b.prefetch(self.b.byte_address(array.base, self.b.add(place, ahead)), is_near=False)

    def store(self, array: IrArray, offset: IndexValue, element: Element) -> None:
        """Writes neighbours at the position of lane 0."""
        if self.pieces > 1 or self.at.stride(offset) > 1:
            raise NotInVectorsError("lanes in another order")
        align, dtype = self._alignment(array, offset), array.shape.element_type
        place = self.at.value(offset)
        store_element(
            self.b, array.base, place, dtype, element, align=align, metadata=array.metadata
        )

    def _alignment(self, array: IrArray, offset: IndexValue) -> int | None:
        """What LLVM cannot see through divisions and remainders; None where nobody asks."""
        most = self.b.module.target.array_alignment
        if not most or self.at.divisor(offset) % self.lanes:
            return None
        return min(most, self.lanes * max(1, array.shape.element_type.host_nbytes))


def is_row_major(shape: Shape) -> bool:
    """True if elements are in memory in the order of their indices."""
    return shape.minor_to_major == tuple(range(shape.rank - 1, -1, -1))


class FlatEmitter(VectorEmitter):
    """Emits vectors of elements at one row-major position that all arrays have in common.

    Its indices have one coordinate, the position, whatever the rank.
    """

    def __init__(self, single: ElementalEmitter, lanes: int) -> None:
        super().__init__(single, lanes, FLAT_RULES)

    def offset(self, array: IrArray, index: Index) -> IndexValue:
        """The position itself."""
        if not is_row_major(array.shape):
            raise NotInVectorsError("an array in another order")
        return index[0]

    def _elementwise(self, instruction: HloInstruction, index: Index) -> Element:
        dims = instruction.shape.dims
        if any(o.shape.rank and o.shape.dims != dims for o in instruction.operands):
            raise NotInVectorsError("operands of other dimensions")
        return super()._elementwise(instruction, index)

    def operand_index(self, operand: HloInstruction, index: Index) -> Index:
        """The position, or none for a scalar."""
        return index if operand.shape.rank else ()


def _vector_iota(e: ElementalEmitter, i: HloInstruction, index: Index) -> Element:
    x, dtype = index[i["iota_dimension"]], i.shape.element_type
    if not isinstance(e, VectorEmitter):
        raise NotInVectorsError("a vector of one element")
    if not e.at.moves(x):
        return e.single_emitter.element(i, index)
    if e.at.stride(x) > 1:
        raise NotInVectorsError("numbers that are apart")
    start = e.at.value(x)
    if i.shape.dims[i["iota_dimension"]] < 2**31 and dtype.bits != 64:
        first = e.b.splat(e.b.resize(start, I32, signed=True), e.lanes)
        lanes = e.b.add(first, value_in_order(e.b, e.b.lane_numbers(e.lanes, I32), e.pieces))
        return lanes if dtype is dt.S32 else emit_convert(e.b, lanes, dt.S32, dtype)
    numbers = value_in_order(e.b, e.b.lane_numbers(e.lanes, I64), e.pieces)
    lanes = e.b.add(e.b.splat(start, e.lanes), numbers)
    return (
        lanes if dtype.is_integral and dtype.bits == 64 else emit_convert(e.b, lanes, dt.S64, dtype)
    )


def _reshape(e: ElementalEmitter, i: HloInstruction, index: Index) -> Element:
    """Groups of a few elements beside one another, or an index mapping."""
    found = reshaped_groups(e, i, index) if isinstance(e, VectorEmitter) else None
    return MOVEMENT_RULES["reshape"](e, i, index) if found is None else found


def _bitcast_convert(e: ElementalEmitter, i: HloInstruction, index: Index) -> Element:
    """Bits of elements as wide, or the piece of each that a number tells which does not move."""
    source, target = i.operands[0].shape.element_type, i.shape.element_type
    is_piece = source.bits > target.bits and isinstance(index[-1], int)
    if source.bits != target.bits and not is_piece:
        raise NotInVectorsError("elements of another width")
    return MOVEMENT_RULES["bitcast-convert"](e, i, index)


def _same_width(e: ElementalEmitter, i: HloInstruction, index: Index) -> Element:
    source, target = i.operands[0].shape.element_type, i.shape.element_type
    if source.bits != target.bits:
        raise NotInVectorsError("elements of another width")
    return from_bits(e.b, to_bits(e.b, e.operand(i, 0, index), source), target)


def _same_position(e: ElementalEmitter, i: HloInstruction, index: Index) -> Element:
    shapes = (i.shape, i.operands[0].shape)
    if any(not is_row_major(s) for s in shapes):
        raise NotInVectorsError("elements in another order")
    return e.operand(i, 0, index if shapes[1].rank else ())


def _flat_broadcast(e: ElementalEmitter, i: HloInstruction, index: Index) -> Element:
    """Of one element, or of as many as there are."""
    source = i.operands[0].shape
    if source.size == 1:
        return e.operand(i, 0, (0,) * source.rank)
    if source.size != i.shape.size or tuple(sorted(i["dimensions"])) != i["dimensions"]:
        raise NotInVectorsError("a broadcast of rows or columns")
    return e.operand(i, 0, index)


def _gather(e: ElementalEmitter, i: HloInstruction, index: Index) -> Element:
    """Asks for a row some rows ahead: the processor foresees none whose number is not read yet."""
    source = i.operands[0]
    batch = IndexDims.of_gather(i).batch_axes(i.shape.rank)
    is_far = source in e.arrays and source.shape.nbytes >= _FAR_NBYTES
    is_far = is_far and e.b.module.target.has_prefetch
    if isinstance(e, VectorEmitter) and is_far and batch:
        array, last = e.arrays[source][0], batch[-1]
        moved = e.at.value(e.at.add(index[last], _ROWS_AHEAD))
        later = (*index[:last], e.at.clamp(moved, 0, i.shape.dims[last] - 1), *index[last + 1 :])
        e.ask(array, e.offset(array, gathered_from(e, i, later)))
    return INDEXING_RULES["gather"](e, i, index)


def _reduce_window(e: ElementalEmitter, i: HloInstruction, index: Index) -> Element:
    """Windows that are side by side, combined by one opcode."""
    if len(i.operands) != 2 or len(i["to_apply"].instructions) != 3:
        raise NotInVectorsError("a reducer that is more than an opcode")
    return reduce_window_elements(e, i, index)[0]


VECTOR_RULES: Mapping[str, ElementRule] = MappingProxyType(
    {
        **{
            name: MOVEMENT_RULES[name]
            for name in (
                "broadcast", "transpose", "copy", "opt-barrier", "reverse", "slice",
                "pad", "concatenate", "bitcast",
            )
        },
        **INDEXING_RULES,
        "reshape": _reshape,
        "gather": _gather,
        "iota": _vector_iota,
        "bitcast-convert": _bitcast_convert,
        "reduce-window": _reduce_window,
    }
)  # fmt: skip
"""The rules that hold for vectors too, by opcode."""

FLAT_RULES: Mapping[str, ElementRule] = MappingProxyType(
    {
        **dict.fromkeys(("reshape", "copy", "opt-barrier", "bitcast"), _same_position),
        "broadcast": _flat_broadcast,
        "bitcast-convert": _same_width,
    }
)
"""The rules that hold where all arrays are in the same order, by opcode."""
