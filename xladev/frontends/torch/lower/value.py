"""One array of the program being built, with arithmetic as HLO instructions.

A number beside a value takes its element type; arrays of different sizes are broadcast as NumPy
and torch do. Element types are never promoted here: `promotion` does that, by torch's rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any

from xladev.hlo import dtype as dt
from xladev.hlo.attributes import PadDim, SliceDim
from xladev.hlo.builder import HloBuilder
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.ir import HloComputation, HloInstruction
from xladev.hlo.shape import array

Number = bool | int | float | complex
Dims = tuple[int, ...]


class TensorBuilder(HloBuilder):
    """A builder that keeps its constants, and makes values."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._scalars: dict[tuple[str, str], HloInstruction] = {}
        self.random_state: Value | None = None
        """What random numbers are drawn from, u64[2]; `random` advances it."""
        self.steps: Value | None = None
        """How many steps of time the call being lowered takes, s32, if that is no constant."""

    def scalar(self, value: Number, to: PrimitiveType) -> Value:
        """A constant of no dimensions."""
        fitting = _fitting(value, to)
        key = (repr(fitting), to.name)
        if key not in self._scalars:
            self._scalars[key] = self.constant(fitting, to)
        return Value(self, self._scalars[key])

    def full(self, value: Number, to: PrimitiveType, dims: Iterable[int]) -> Value:
        """One number everywhere."""
        return self.scalar(value, to).expand(tuple(dims))

    def literal(self, values: Any, to: PrimitiveType) -> Value:
        """A constant array."""
        return Value(self, self.constant(values, to))

    def iota(self, to: PrimitiveType, dims: Dims, dim: int) -> Value:
        """Indices along one dimension."""
        made = self.op("iota", shape=array(to, dims), iota_dimension=dim)
        return Value(self, made)

    def wrap(self, instruction: HloInstruction) -> Value:
        """An instruction as a value."""
        return Value(self, instruction)

    def parts(self, instruction: HloInstruction) -> tuple[Value, ...]:
        """The parts of a tuple."""
        count = len(instruction.shape.tuple_shapes)
        return tuple(
            Value(self, self.op("get-tuple-element", instruction, index=at)) for at in range(count)
        )

    def combiner(self, opcode: str, to: PrimitiveType) -> HloComputation:
        """A computation of two scalars."""
        inner = HloBuilder(opcode)
        left, right = inner.parameter(array(to)), inner.parameter(array(to))
        return inner.build(inner.op(opcode, left, right))

    def assigner(self, to: PrimitiveType) -> HloComputation:
        """A computation of two scalars that is the second."""
        inner = HloBuilder("assign")
        inner.parameter(array(to))
        return inner.build(inner.parameter(array(to)))


def _fitting(value: Number, to: PrimitiveType) -> Number:
    if to is dt.PRED:
        return bool(value)
    if to.is_integral and not isinstance(value, complex):
        whole = int(value)
        low = -(1 << (to.bits - 1)) if to.is_signed else 0
        return (whole - low) % (1 << to.bits) + low
    if to.is_complex:
        return complex(value)
    return float(value.real if isinstance(value, complex) else value)


def broadcast_dims(*shapes: Sequence[int]) -> Dims:
    """The sizes that arrays have together."""
    rank = max(map(len, shapes), default=0)
    padded = [(1,) * (rank - len(s)) + tuple(s) for s in shapes]
    return tuple(next((n for n in at if n != 1), 1) for at in zip(*padded, strict=True))


class Value:
    """An array of the program: an instruction and the builder that it is in."""

    __slots__ = ("builder", "node")

    def __init__(self, builder: TensorBuilder, node: HloInstruction) -> None:
        self.builder = builder
        self.node = node

    def __repr__(self) -> str:
        return f"<{self.node.name} {self.node.shape.to_string(layout=False)}>"

    @property
    def dtype(self) -> PrimitiveType:
        """Its element type."""
        return self.node.shape.element_type

    @property
    def dims(self) -> Dims:
        """Its sizes."""
        return self.node.shape.dims

    @property
    def rank(self) -> int:
        """How many dimensions it has."""
        return len(self.dims)

    @property
    def size(self) -> int:
        """How many elements it has."""
        return prod(self.dims)

    def op(self, opcode: str, *others: Any, **attrs: Any) -> Value:
        """An instruction of this and other values, as they are."""
        operands = (o.node if isinstance(o, Value) else o for o in others)
        return Value(self.builder, self.builder.op(opcode, self.node, *operands, **attrs))

    # Types and sizes

    def cast(self, to: PrimitiveType) -> Value:
        """The same numbers in another type; to pred, whether they are not zero."""
        if self.dtype is to:
            return self
        if to is dt.PRED:
            return self.ne(0)
        source = self.op("real") if self.dtype.is_complex and not to.is_complex else self
        if source.dtype is to:
            return source
        return source.op("convert", shape=array(to, self.dims))

    def like(self, value: Number, to: PrimitiveType | None = None) -> Value:
        """One number in this one's sizes."""
        return self.builder.full(value, to or self.dtype, self.dims)

    def expand(self, dims: Dims) -> Value:
        """Broadcast to these sizes, dimensions being added in front."""
        if self.dims == dims:
            return self
        lead = len(dims) - self.rank
        kept = [d for d in range(self.rank) if self.dims[d] == dims[d + lead]]
        bare = self.reshape([self.dims[d] for d in kept])
        at = tuple(d + lead for d in kept)
        return bare.op("broadcast", shape=array(self.dtype, dims), dimensions=at)

    def place(self, dims: Dims, at: Sequence[int]) -> Value:
        """Broadcast, this one's dimension n being dimension ``at[n]`` of the result."""
        return self.op("broadcast", shape=array(self.dtype, dims), dimensions=tuple(at))

    def reshape(self, dims: Iterable[int]) -> Value:
        """The same elements in other sizes."""
        wanted = tuple(dims)
        if self.dims == wanted:
            return self
        return self.op("reshape", shape=array(self.dtype, wanted))

    def transpose(self, order: Sequence[int]) -> Value:
        """Dimensions in another order."""
        if tuple(order) == tuple(range(self.rank)):
            return self
        return self.op("transpose", dimensions=tuple(order))

    def slice(self, dim: int, start: int, limit: int, stride: int = 1) -> Value:
        """Part of one dimension."""
        if (start, limit, stride) == (0, self.dims[dim], 1):
            return self
        cuts = [SliceDim(0, n) for n in self.dims]
        cuts[dim] = SliceDim(start, limit, stride)
        return self.op("slice", slice=tuple(cuts))

    def slices(self, cuts: Sequence[tuple[int, int, int]]) -> Value:
        """Parts of all dimensions, (start, limit, stride) each."""
        return self.op("slice", slice=tuple(SliceDim(*cut) for cut in cuts))

    def pad(self, edges: Sequence[tuple[int, int, int]], value: Number = 0) -> Value:
        """Elements put before, behind and between: (low, high, interior) of each dimension."""
        if not any(any(edge) for edge in edges):
            return self
        filler = self.builder.scalar(value, self.dtype)
        return self.op("pad", filler, padding=tuple(PadDim(*edge) for edge in edges))

    def reverse(self, dims: Sequence[int]) -> Value:
        """Some dimensions from end to beginning."""
        return self.op("reverse", dimensions=tuple(dims)) if dims else self

    def reduce(self, opcode: str, start: Number, dims: Sequence[int], keep: bool = False) -> Value:
        """All elements along some dimensions combined."""
        made = self
        if dims:
            made = self.op(
                "reduce",
                self.builder.scalar(start, self.dtype),
                dimensions=tuple(sorted(dims)),
                to_apply=self.builder.combiner(opcode, self.dtype),
            )
        return (
            made.reshape(1 if d in dims else n for d, n in enumerate(self.dims)) if keep else made
        )

    def sum(self, dims: Sequence[int], keep: bool = False) -> Value:
        """Sum along some dimensions."""
        return self.reduce("add", 0, dims, keep)

    def dot(self, other: Value, left: Sequence[int], right: Sequence[int], batch: int = 0) -> Value:
        """Products summed along these dimensions; the first ``batch`` ones stay side by side."""
        both = tuple(range(batch))
        return self.op(
            "dot",
            other,
            lhs_batch_dims=both,
            rhs_batch_dims=both,
            lhs_contracting_dims=tuple(left),
            rhs_contracting_dims=tuple(right),
        )

    # Elementwise

    def _with(self, opcode: str, other: Value | Number, *, turned: bool = False) -> Value:
        left, right = self.pair(other)
        if turned:
            left, right = right, left
        return left.op(opcode, right)

    def pair(self, other: Value | Number) -> tuple[Value, Value]:
        """This one and another in common sizes."""
        if not isinstance(other, Value):
            return self, self.like(other)
        dims = broadcast_dims(self.dims, other.dims)
        return self.expand(dims), other.expand(dims)

    def __add__(self, other: Value | Number) -> Value:
        return self._with("add", other)

    def __radd__(self, other: Number) -> Value:
        return self._with("add", other)

    def __sub__(self, other: Value | Number) -> Value:
        return self._with("subtract", other)

    def __rsub__(self, other: Number) -> Value:
        return self._with("subtract", other, turned=True)

    def __mul__(self, other: Value | Number) -> Value:
        return self._with("multiply", other)

    def __rmul__(self, other: Number) -> Value:
        return self._with("multiply", other)

    def __truediv__(self, other: Value | Number) -> Value:
        return self._with("divide", other)

    def __rtruediv__(self, other: Number) -> Value:
        return self._with("divide", other, turned=True)

    def __neg__(self) -> Value:
        return self.op("negate")

    def __and__(self, other: Value | Number) -> Value:
        return self._with("and", other)

    def __or__(self, other: Value | Number) -> Value:
        return self._with("or", other)

    def __xor__(self, other: Value | Number) -> Value:
        return self._with("xor", other)

    def __invert__(self) -> Value:
        return self.op("not")

    def power(self, other: Value | Number) -> Value:
        """This to the power of another."""
        return self._with("power", other)

    def maximum(self, other: Value | Number) -> Value:
        """The larger of two; NaN if one is."""
        return self._with("maximum", other)

    def minimum(self, other: Value | Number) -> Value:
        """The smaller of two; NaN if one is."""
        return self._with("minimum", other)

    def compare(self, other: Value | Number, direction: str) -> Value:
        """Whether the order of two is this, as pred."""
        left, right = self.pair(other)
        return left.op("compare", right, direction=direction)

    def eq(self, other: Value | Number) -> Value:
        """Whether equal."""
        return self.compare(other, "EQ")

    def ne(self, other: Value | Number) -> Value:
        """Whether not equal."""
        return self.compare(other, "NE")

    def lt(self, other: Value | Number) -> Value:
        """Whether less."""
        return self.compare(other, "LT")

    def le(self, other: Value | Number) -> Value:
        """Whether less or equal."""
        return self.compare(other, "LE")

    def gt(self, other: Value | Number) -> Value:
        """Whether greater."""
        return self.compare(other, "GT")

    def ge(self, other: Value | Number) -> Value:
        """Whether greater or equal."""
        return self.compare(other, "GE")

    def is_nan(self) -> Value:
        """Whether not a number; of complex numbers, whether a part is."""
        return self.ne(self)

    def where(self, yes: Value | Number, no: Value | Number) -> Value:
        """One value where this is true and another elsewhere; one of the two is an array."""
        if not isinstance(yes, Value):
            assert isinstance(no, Value), "a choice between two numbers has no type"
            yes = self.builder.scalar(yes, no.dtype)
        if not isinstance(no, Value):
            no = self.builder.scalar(no, yes.dtype)
        dims = broadcast_dims(self.dims, yes.dims, no.dims)
        return self.expand(dims).op("select", yes.expand(dims), no.expand(dims))

    def exp(self) -> Value:
        """e to this power."""
        return self.op("exponential")

    def log(self) -> Value:
        """Natural logarithm."""
        return self.op("log")

    def log1p(self) -> Value:
        """Logarithm of this and 1."""
        return self.op("log-plus-one")

    def sqrt(self) -> Value:
        """Square root."""
        return self.op("sqrt")

    def abs(self) -> Value:
        """Size; of complex numbers, real."""
        return self.op("abs")

    def floor(self) -> Value:
        """Largest whole number that is not greater."""
        return self.op("floor")

    def square(self) -> Value:
        """Times itself."""
        return self * self
