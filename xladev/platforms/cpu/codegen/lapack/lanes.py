"""Stacks of small matrices, a vector of them at a time: one matrix in each lane.

A group of as many matrices as a vector has lanes goes to the workspace, where elements of the same
place are neighbours. There, one microkernel works on all of them at once, for any size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType

from xladev.codegen.llvm import (
    DOUBLE,
    FLOAT,
    I32,
    I64,
    FunctionBuilder,
    IrType,
    Value,
    vector,
)
from xladev.platforms.cpu.codegen.lapack.movement import call_transpose

LANES: Mapping[str, int] = MappingProxyType({"s": 16, "d": 8})
"""Matrices of a group, by LAPACK's letter: 64 bytes of elements."""

LINE_NBYTES = 64
_ELEMENTS: Mapping[str, IrType] = MappingProxyType({"s": FLOAT, "d": DOUBLE})


class OneGroup:
    """Memory of one group's operands and results, and microkernels on it.

    Attributes:
        b: writes the kernel.
        letter: LAPACK's letter of the element type, s or d.
        operands, results: addresses of the first matrix's.
        used: bytes of workspace so far.
    """

    def __init__(
        self,
        b: FunctionBuilder,
        letter: str,
        operands: Sequence[Value],
        results: Sequence[Value],
        workspace: Value,
    ) -> None:
        self.b, self.letter = b, letter
        self.operands, self.results = tuple(operands), tuple(results)
        self.nbytes = 4 if letter == "s" else 8
        self.lanes = LANES[letter]
        self.used = 0
        self._workspace = workspace

    def lines(self, count: int) -> Value:
        """Workspace for so many vectors."""
        place = self.b.byte_address(self._workspace, self.used)
        self.used += count * LINE_NBYTES
        return place

    def gathered(self, source: Value, size: int, nbytes: int = 0) -> Value:
        """The elements of all matrices of ``size`` elements, place by place, in workspace."""
        lines = self.lines(size)
        call_transpose(self.b, lines, source, (self.lanes, size), nbytes or self.nbytes)
        return lines

    def scatter(self, destination: Value, lines: Value, size: int, nbytes: int = 0) -> None:
        """Writes each matrix's elements to its own memory."""
        call_transpose(self.b, destination, lines, (size, self.lanes), nbytes or self.nbytes)

    def call(
        self,
        name: str,
        emit: Callable[[Lanes, tuple[Value, ...]], None],
        *arguments: Value | int,
    ) -> None:
        """Calls a microkernel of addresses and integers; ``emit`` writes it."""
        values = [a if isinstance(a, Value) else self.b.const(I64, a) for a in arguments]

        def emit_lanes(inner: FunctionBuilder, a: tuple[Value, ...]) -> None:
            emit(Lanes(inner, self.letter), a)

        self.b.call_microkernel(f"lapack.lanes.{name}.{self.letter}", values, emit_lanes)


class Lanes:
    """Writes code on vectors of a lane for each matrix.

    Attributes:
        b: writes the microkernel.
        element: type of an element.
        type: vector of an element of each matrix.
        counts: vector of an integer of each matrix.
    """

    def __init__(self, b: FunctionBuilder, letter: str) -> None:
        self.b = b
        self.element = _ELEMENTS[letter]
        self.type = vector(self.element, LANES[letter])
        self.counts = vector(I32, LANES[letter])

    def number(self, x: float) -> Value:
        """The same number in each lane."""
        return self.b.const(self.type, x)

    def count(self, x: int) -> Value:
        """The same integer in each lane."""
        return self.b.const(self.counts, x)

    def counts_of(self, x: Value) -> Value:
        """An integer (i64) in each lane."""
        narrow = self.b.resize(x, I32, signed=True)
        return self.b.splat(narrow, self.counts.lanes)

    def load(self, base: Value, index: Value) -> Value:
        """The vector number ``index``."""
        return self.b.load(self.type, self._place(base, index))

    def store(self, value: Value, base: Value, index: Value) -> None:
        """Writes it."""
        self.b.store(value, self._place(base, index))

    def load_counts(self, base: Value, index: Value) -> Value:
        """The vector of integers number ``index``, packed."""
        return self.b.load(self.counts, self._packed(base, index))

    def store_counts(self, value: Value, base: Value, index: Value) -> None:
        """Writes it."""
        self.b.store(value, self._packed(base, index))

    def _place(self, base: Value, index: Value) -> Value:
        return self.b.byte_address(base, self.b.mul(index, LINE_NBYTES))

    def _packed(self, base: Value, index: Value) -> Value:
        return self.b.byte_address(base, self.b.mul(index, 4 * self.counts.lanes))

    @contextmanager
    def sum(self, begin: Value | int, end: Value | int, initial: Value) -> Iterator[Sum]:
        """A loop that adds to a vector; `Sum.total` has the result after it."""
        total = Sum(initial)
        with self.b.carried_loop(begin, end, initial=(initial,)) as loop:
            total.index, total.before = loop.index, loop.values[0]
            yield total
            loop.carry(total.after)
        (total.total,) = loop.values


class Sum:
    """A vector that a loop carries.

    Attributes:
        index: of the iteration.
        before: its value then.
        after: what the loop's body makes of it.
        total: its value after the loop.
    """

    def __init__(self, initial: Value) -> None:
        self.index = self.before = self.after = self.total = initial


class Matrix:
    """A matrix in each lane: element (i, j) is vector ``i * row + j * column`` from a base."""

    def __init__(self, v: Lanes, base: Value, row: Value | int, column: Value | int) -> None:
        self.v, self.base, self.row, self.column = v, base, row, column

    def _index(self, i: Value | int, j: Value | int) -> Value:
        b = self.v.b
        first = b.mul(self._value(i), self._value(self.row))
        return b.add(first, b.mul(self._value(j), self._value(self.column)))

    def _value(self, x: Value | int) -> Value:
        return x if isinstance(x, Value) else self.v.b.const(I64, x)

    def get(self, i: Value | int, j: Value | int) -> Value:
        """Element (i, j) of all matrices."""
        return self.v.load(self.base, self._index(i, j))

    def set(self, i: Value | int, j: Value | int, value: Value) -> None:
        """Writes it."""
        self.v.store(value, self.base, self._index(i, j))
