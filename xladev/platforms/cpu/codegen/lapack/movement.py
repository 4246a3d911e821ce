"""Microkernels around calls of LAPACK: they transpose, fill, and look for what is not finite.

LAPACK's matrices are column-major and ours row-major, so that each is the transpose of the other.
"""

from __future__ import annotations

from collections.abc import Sequence

from xladev.codegen.llvm import (
    DOUBLE,
    FLOAT,
    I32,
    I64,
    PTR,
    VOID,
    FunctionBuilder,
    IrType,
    ModuleBuilder,
    Value,
    vector,
)
from xladev.platforms.cpu.codegen.lines import transposed_lines

SIDE = 8
"""Elements of a side of what is transposed in registers."""

_LANES = 16
PARTS = {"s": FLOAT, "d": DOUBLE, "c": FLOAT, "z": DOUBLE}
"""Type of an element's parts, by LAPACK's letter."""
_WORDS = {4: I32, 8: I64, 16: vector(I64, 2)}
"""Types of which an element's bits are one."""


def call_transpose(
    b: FunctionBuilder,
    destination: Value,
    source: Value,
    sizes: tuple[int, int],
    nbytes: int,
) -> None:
    """Transposes a matrix into memory that does not overlap.

    Args:
        b: writes the kernel.
        destination, source: addresses.
        sizes: rows and columns of the source, row-major.
        nbytes: of an element: 4, 8 or 16.
    """
    rows, columns = (b.const(I64, size) for size in sizes)

    def emit(inner: FunctionBuilder, a: tuple[Value, ...]) -> None:
        _Transpose(inner, nbytes, *a).emit()

    b.call_microkernel(f"lapack.transpose.{nbytes}", (destination, source, rows, columns), emit)


class _Transpose:
    def __init__(
        self,
        b: FunctionBuilder,
        nbytes: int,
        destination: Value,
        source: Value,
        rows: Value,
        columns: Value,
    ) -> None:
        self.b, self.nbytes = b, nbytes
        self.destination, self.source, self.rows, self.columns = destination, source, rows, columns

    def emit(self) -> None:
        """In tiles where there are whole ones; the last ones overlap those before."""
        b = self.b
        if self.nbytes > 8:
            self._elements()
            return
        sides = b.intrinsic("smin", self.rows, self.columns)
        b.branch(b.icmp("sge", sides, SIDE), self._tiles, self._elements)

    def _tiles(self) -> Sequence[Value]:
        b = self.b
        with b.loop(0, self.columns, SIDE) as number:
            column = b.intrinsic("smin", number, b.sub(self.columns, SIDE))
            with b.loop(0, self.rows, SIDE) as start:
                self._tile(b.intrinsic("smin", start, b.sub(self.rows, SIDE)), column)
        return ()

    def _tile(self, row: Value, column: Value) -> None:
        b, type_ = self.b, vector(_WORDS[self.nbytes], SIDE)
        lines = [
            b.load(type_, self._place(self.source, self.columns, b.add(row, n), column))
            for n in range(SIDE)
        ]
        for n, line in enumerate(transposed_lines(b, lines)):
            place = self._place(self.destination, self.rows, b.add(column, n), row)
            b.store(line, place)

    def _elements(self) -> Sequence[Value]:
        b = self.b
        with b.loop(0, self.columns) as column, b.loop(0, self.rows) as row:
            source = self._place(self.source, self.columns, row, column)
            value = b.load(_WORDS[self.nbytes], source, align=self._align)
            place = self._place(self.destination, self.rows, column, row)
            b.store(value, place, align=self._align)
        return ()

    @property
    def _align(self) -> int:
        return min(self.nbytes, 8)

    def _place(self, base: Value, width: Value, row: Value, column: Value) -> Value:
        number = self.b.add(self.b.mul(row, width), column)
        return self.b.byte_address(base, self.b.mul(number, self.nbytes))


# Runs of equal words


def call_fill(b: FunctionBuilder, destination: Value, count: int, words: Sequence[int]) -> None:
    """Fills memory with a word of 4 bytes, or with two in turns, ``count`` times."""
    low, high = words[0], words[-1]

    def emit(inner: FunctionBuilder, a: tuple[Value, ...]) -> None:
        place, many, *pair = a
        first, second = (inner.resize(x, I32, signed=False) for x in pair)
        with inner.loop(0, many) as n:
            at = inner.element_address(place, inner.mul(n, 2), I32)
            inner.store(first, at)
            inner.store(second, inner.byte_address(at, 4))

    def emit_single(inner: FunctionBuilder, a: tuple[Value, ...]) -> None:
        place, many, word = a
        narrow = inner.resize(word, I32, signed=False)
        with inner.loop(0, many) as n:
            inner.store(narrow, inner.element_address(place, n, I32))

    number = b.const(I64, count)
    if len(words) == 1:
        arguments = (destination, number, b.const(I64, low))
        b.call_microkernel("lapack.fill.4", arguments, emit_single, is_long=False)
        return
    pair = (b.const(I64, low), b.const(I64, high))
    b.call_microkernel("lapack.fill.8", (destination, number, *pair), emit, is_long=False)


# What is finite


def call_is_finite(
    b: FunctionBuilder,
    element: IrType,
    source: Value,
    flag: Value,
    rows: tuple[int, int],
    run: tuple[int, int, int],
) -> None:
    """Writes 1 (i64) if all numbers of some rows are finite, else 0.

    Args:
        b: writes the kernel.
        element: float or double; a complex element is two numbers.
        source: the first row.
        flag: where to write.
        rows: how many, and numbers from one to the next.
        run: where the run to look at begins in each row: 0, plus this for each row before; how long
            it is in the first, and how much longer in each further one.
    """
    name = f"lapack.is_finite.{element.mangled}"
    numbers = [b.const(I64, n) for n in (*rows, *run)]

    def emit(inner: FunctionBuilder, a: tuple[Value, ...]) -> None:
        _emit_is_finite(inner, element, a)

    b.call_microkernel(name, (source, flag, *numbers), emit, is_long=False)


def _emit_is_finite(b: FunctionBuilder, element: IrType, a: tuple[Value, ...]) -> None:
    """Sums of products with zero: NaN as soon as one number is not finite."""
    source, flag, rows, stride, shift, length, growth = a
    many = vector(element, _LANES)
    zeros, zero = b.const(many, 0.0), b.const(element, 0.0)
    with b.carried_loop(0, rows, initial=(zeros, zero)) as outer:
        row = outer.index
        start = b.add(b.mul(row, stride), b.mul(row, shift))
        end = b.add(start, b.add(length, b.mul(row, growth)))
        whole = b.sub(end, b.srem(b.sub(end, start), _LANES))
        with b.carried_loop(start, whole, _LANES, initial=outer.values[:1]) as inner:
            found = b.load(many, b.element_address(source, inner.index, element))
            inner.carry(b.fadd(inner.values[0], b.fmul(found, zeros)))
        with b.carried_loop(whole, end, initial=outer.values[1:]) as rest:
            number = b.load(element, b.element_address(source, rest.index, element))
            rest.carry(b.fadd(rest.values[0], b.fmul(number, zero)))
        outer.carry(inner.values[0], rest.values[0])
    sums, last = outer.values
    bad = b.or_(b.any(b.fcmp("uno", sums, sums)), b.fcmp("uno", last, last))
    b.store(b.select(bad, b.const(I64, 0), b.const(I64, 1)), flag)


# Eigenvectors, triangles, permutations


def call_unpack_vectors(
    b: FunctionBuilder, element: IrType, destination: Value, source: Value, imag: Value, n: int
) -> None:
    """Complex eigenvectors, row-major, of the columns that geev gives for real matrices.

    A pair of conjugate eigenvalues has the real and the imaginary parts of the first one's vector.
    """

    def emit(inner: FunctionBuilder, a: tuple[Value, ...]) -> None:
        _emit_unpack(inner, element, *a)

    arguments = (destination, source, imag, b.const(I64, n))
    name = f"lapack.unpack_vectors.{element.mangled}"
    b.call_microkernel(name, arguments, emit, is_long=False)


def _emit_unpack(
    b: FunctionBuilder, element: IrType, destination: Value, source: Value, imag: Value, n: Value
) -> None:
    zero = b.const(element, 0.0)
    with b.loop(0, n) as column:
        part = b.load(element, b.element_address(imag, column, element))
        is_first, is_second = b.fcmp("ogt", part, zero), b.fcmp("olt", part, zero)
        step = b.select(is_second, b.const(I64, -1), b.const(I64, 0))
        real = b.mul(b.add(column, step), n)
        other = b.mul(b.add(b.add(column, step), 1), n)
        is_pair = b.or_(is_first, is_second)
        second = b.select(is_pair, other, real)
        with b.loop(0, n) as row:
            x = b.load(element, b.element_address(source, b.add(real, row), element))
            y = b.load(element, b.element_address(source, b.add(second, row), element))
            y = b.select(is_second, b.fneg(y), y)
            y = b.select(is_pair, y, zero)
            place = b.element_address(destination, b.mul(b.add(b.mul(row, n), column), 2), element)
            b.store(x, place)
            b.store(y, b.element_address(place, 1, element))


def call_keep_triangle(
    b: FunctionBuilder, letter: str, matrix: Value, info: Value, n: int, *, lower: bool
) -> None:
    """Clears the other triangle of a square matrix; this one is NaN where info is not 0."""
    parts = 2 if letter in "cz" else 1

    def emit(inner: FunctionBuilder, a: tuple[Value, ...]) -> None:
        _emit_triangle(inner, PARTS[letter], parts, *a)

    arguments = (matrix, info, b.const(I64, n), b.const(I64, int(lower)))
    b.call_microkernel(f"lapack.keep_triangle.{letter}", arguments, emit, is_long=False)


def _emit_triangle(
    b: FunctionBuilder,
    element: IrType,
    parts: int,
    matrix: Value,
    info: Value,
    n: Value,
    low: Value,
) -> None:
    failed = b.icmp("ne", b.load(I32, info), 0)
    is_lower = b.icmp("ne", low, 0)
    zero, nan = b.const(element, 0.0), b.const(element, float("nan"))

    def fill(row: Value, begin: Value, end: Value, number: Value) -> None:
        with b.loop(begin, end) as column:
            first = b.mul(b.add(b.mul(row, n), column), parts)
            place = b.element_address(matrix, first, element)
            b.store(number, place)
            if parts > 1:
                b.store(zero, b.element_address(place, 1, element))

    with b.loop(0, n) as row:
        after = b.add(row, 1)
        none = b.const(I64, 0)
        fill(row, b.select(is_lower, after, none), b.select(is_lower, n, row), zero)
        with b.when(failed):
            fill(row, b.select(is_lower, none, row), b.select(is_lower, after, n), nan)


def call_exchanges(b: FunctionBuilder, pivots: Value, count: int, order: Value, rows: int) -> None:
    """Pivots from 0 instead of from 1, in place, and the order of rows that they make."""

    def emit(inner: FunctionBuilder, a: tuple[Value, ...]) -> None:
        _emit_exchanges(inner, *a)

    arguments = (pivots, b.const(I64, count), order, b.const(I64, rows))
    b.call_microkernel("lapack.exchanges", arguments, emit, is_long=False)


def _emit_exchanges(
    b: FunctionBuilder, pivots: Value, count: Value, order: Value, rows: Value
) -> None:
    with b.loop(0, rows) as row:
        b.store(b.resize(row, I32, signed=False), b.element_address(order, row, I32))
    with b.loop(0, count) as k:
        place = b.element_address(pivots, k, I32)
        pivot = b.sub(b.load(I32, place), 1)
        b.store(pivot, place)
        here = b.element_address(order, k, I32)
        there = b.element_address(order, b.resize(pivot, I64, signed=True), I32)
        first, second = b.load(I32, here), b.load(I32, there)
        b.store(second, here)
        b.store(first, there)


def call_all_movements(module: ModuleBuilder) -> None:
    """Adds a function that calls each microkernel; nobody is meant to run it."""
    b = module.function("movements", VOID)
    null = Value("null", PTR)
    for nbytes in _WORDS:
        call_transpose(b, null, null, (1, 1), nbytes)
    call_fill(b, null, 1, (0,))
    call_fill(b, null, 1, (0, 0))
    call_exchanges(b, null, 1, null, 1)
    for element in (FLOAT, DOUBLE):
        call_is_finite(b, element, null, null, (1, 1), (0, 1, 0))
        call_unpack_vectors(b, element, null, null, null, 1)
    for letter in PARTS:
        call_keep_triangle(b, letter, null, null, 1, lower=True)
    b.ret()
