"""Weights of attention: exponentials of scores and their sums, row by row, by shared microkernels.

Rows are padded to whole vectors, and have accumulators of as many lanes on all machines, so that
results are the same bits everywhere. Weights are divided by their sum last, in the result, which
has fewer elements than there are weights.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from xladev.codegen.llvm import FLOAT, FunctionBuilder, Value, vector
from xladev.codegen.scalar.elements import real_of
from xladev.codegen.scalar.elementwise import emit_elementwise
from xladev.hlo import dtype as dt

LANES = 16
"""Scores that are taken together, and the multiple that rows are padded to."""
_AT_ONCE = 4
"""Vectors of a step: accumulators hide the latency of additions and comparisons."""
_VECTOR = vector(FLOAT, LANES)
_NBYTES = LANES * 4
_Step = Callable[[Value, Value], Value]
"""From the place of a vector, and what an accumulator holds, to what it holds then."""


class WeightsArguments(NamedTuple):
    """What the function is called with.

    Attributes:
        scores: first of them; on return, their exponentials.
        row: bytes from one row to the next.
        rows: number of rows.
        keys: number of scores in a row; room is for a multiple of `LANES`.
        factor: what scores are multiplied by, an f32, above 0.
        sums: first of the rows' sums.
        is_guarded: 1 if a row of nothing but -inf has weights of zero, and a sum of 1; 0 if NaN.
    """

    scores: Value
    row: Value
    rows: Value
    keys: Value
    factor: Value
    sums: Value
    is_guarded: Value


class DivisionArguments(NamedTuple):
    """What the function is called with; strides in bytes.

    Attributes:
        result: its first element.
        row: from one row to the next.
        rows: number of rows.
        columns: number of elements in a row.
        sums: what rows are divided by.
    """

    result: Value
    row: Value
    rows: Value
    columns: Value
    sums: Value


def call_weights(b: FunctionBuilder, arguments: WeightsArguments) -> None:
    """Calls the function that makes exponentials of scores, which the module has once."""

    def emit(inner: FunctionBuilder, values: tuple[Value, ...]) -> None:
        _Weights(inner, WeightsArguments(*values)).emit()

    b.call_microkernel("weights.f32", arguments, emit)


def call_division(b: FunctionBuilder, arguments: DivisionArguments) -> None:
    """Calls the function that divides rows by numbers, which the module has once."""

    def emit(inner: FunctionBuilder, values: tuple[Value, ...]) -> None:
        _divide(inner, DivisionArguments(*values))

    b.call_microkernel("divided.f32", arguments, emit)


class _Weights:
    def __init__(self, b: FunctionBuilder, a: WeightsArguments) -> None:
        self.b, self.a = b, a

    def emit(self) -> None:
        """Row by row: the largest score, then exponentials and their sum."""
        b, a = self.b, self.a
        vectors = b.udiv(b.add(a.keys, LANES - 1), LANES)
        factor = b.splat(a.factor, LANES)
        with b.loop(0, a.rows) as number:
            row = b.byte_address(a.scores, b.mul(number, a.row))
            with b.loop(a.keys, b.mul(vectors, LANES)) as rest:
                b.store(b.const(FLOAT, float("-inf")), b.element_address(row, rest, FLOAT))
            largest = self._reduced(self._largest(row, vectors, factor), "maximum")
            is_hidden = b.and_(b.icmp("ne", a.is_guarded, 0), b.fcmp("oeq", largest, float("-inf")))
            shift = b.select(is_hidden, 0.0, largest)
            total = self._reduced(self._exponentials(row, vectors, factor, shift), "add")
            total = b.select(b.and_(is_hidden, b.fcmp("oeq", total, 0.0)), 1.0, total)
            b.store(total, b.element_address(a.sums, number, FLOAT))

    def _largest(self, row: Value, vectors: Value, factor: Value) -> list[Value]:
        b = self.b
        lowest = b.const(_VECTOR, float("-inf"))

        def step(place: Value, held: Value) -> Value:
            scaled = b.fmul(b.load(_VECTOR, place, align=4), factor)
            return b.select(b.fcmp("ogt", scaled, held), scaled, held)

        return self._over(row, vectors, lowest, step)

    def _exponentials(self, row: Value, vectors: Value, factor: Value, shift: Value) -> list[Value]:
        b = self.b
        shifts = b.splat(shift, LANES)

        def step(place: Value, held: Value) -> Value:
            scaled = b.fmul(b.load(_VECTOR, place, align=4), factor)
            found = emit_elementwise(b, "exponential", [dt.F32], dt.F32, [b.fsub(scaled, shifts)])
            made = real_of(found, "a softmax")
            b.store(made, place, align=4)
            return b.fadd(held, made)

        return self._over(row, vectors, b.const(_VECTOR, 0.0), step)

    def _over(self, row: Value, vectors: Value, start: Value, step: _Step) -> list[Value]:
        """All vectors of a row, several accumulators at once, then one."""
        b = self.b
        whole = b.mul(b.udiv(vectors, _AT_ONCE), _AT_ONCE)
        with b.carried_loop(0, whole, _AT_ONCE, initial=[start] * _AT_ONCE) as loop:
            first = b.byte_address(row, b.mul(loop.index, _NBYTES))
            loop.carry(*(
                step(b.byte_address(first, n * _NBYTES), held)
                for n, held in enumerate(loop.values)
            ))  # fmt: skip
        many = loop.values
        with b.carried_loop(whole, vectors, initial=[many[0]]) as loop:
            place = b.byte_address(row, b.mul(loop.index, _NBYTES))
            loop.carry(step(place, loop.values[0]))
        return [loop.values[0], *many[1:]]

    def _reduced(self, values: list[Value], opcode: str) -> Value:
        """One number of vectors, by halves."""
        while len(values) > 1:
            half = len(values) // 2
            pairs = zip(values[:half], values[half:], strict=True)
            values = [self._combined(x, y, opcode) for x, y in pairs]
        value, lanes = values[0], LANES
        while lanes > 1:
            lanes //= 2
            low = self._part(value, 0, lanes)
            value = self._combined(low, self._part(value, lanes, lanes), opcode)
        return value

    def _part(self, value: Value, first: int, lanes: int) -> Value:
        if lanes == 1:
            return self.b.extract(value, first)
        return self.b.shuffle(value, value, tuple(range(first, first + lanes)))

    def _combined(self, x: Value, y: Value, opcode: str) -> Value:
        if opcode == "add":
            return self.b.fadd(x, y)
        return self.b.select(self.b.fcmp("ogt", x, y), x, y)


def _divide(b: FunctionBuilder, a: DivisionArguments) -> None:
    """Vectors, then single elements."""
    whole = b.mul(b.udiv(a.columns, LANES), LANES)
    with b.loop(0, a.rows) as number:
        row = b.byte_address(a.result, b.mul(number, a.row))
        total = b.load(FLOAT, b.element_address(a.sums, number, FLOAT))
        totals = b.splat(total, LANES)
        with b.loop(0, whole, LANES) as column:
            place = b.element_address(row, column, FLOAT)
            b.store(b.fdiv(b.load(_VECTOR, place, align=4), totals), place, align=4)
        with b.loop(whole, a.columns) as column:
            place = b.element_address(row, column, FLOAT)
            b.store(b.fdiv(b.load(FLOAT, place), total), place)
