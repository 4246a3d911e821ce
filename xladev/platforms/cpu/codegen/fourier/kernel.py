"""The kernel of an fft: its dimensions one after the other, as rows and columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from types import MappingProxyType

import numpy as np

from xladev.codegen.index import IndexValue
from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.llvm import I64, Value
from xladev.codegen.scalar.constants import constant_element
from xladev.hlo.dtype import F32, F64
from xladev.hlo.ir import HloInstruction
from xladev.platforms.cpu.codegen.build import KernelBuild
from xladev.platforms.cpu.codegen.fourier.codelets import LONGEST_CODELET
from xladev.platforms.cpu.codegen.fourier.description import LONGEST, Fourier, fourier_of
from xladev.platforms.cpu.codegen.fourier.kinds import FourierKind
from xladev.platforms.cpu.codegen.fourier.large import BLOCK, column_block, row_block
from xladev.platforms.cpu.codegen.fourier.lines import CALLERS, Lines, Place, RealCall, places
from xladev.platforms.cpu.codegen.fourier.places import Form
from xladev.platforms.cpu.codegen.fourier.real import call_doubled, call_halved, call_whole
from xladev.platforms.cpu.codegen.fourier.sizes import (
    buffers_of,
    columns_at_once,
    kept_numbers,
    planes_offset,
    private_nbytes,
    rows_at_once,
    shared_nbytes,
)

SHORT_ROWS = 4096
"""Numbers in short rows that one thread takes at once."""
Factors = tuple[float, float, float, float]
"""What real and imaginary parts are multiplied by as they are read, and as they are written."""


LargePart = Callable[[Lines, IndexValue, IndexValue, IndexValue], None]
"""Writes a block: which row begins where, number and width of the block."""


def has_transform(i: HloInstruction) -> bool:
    """True if the kernel computes an fft."""
    return max(i["fft_length"]) <= LONGEST


def fourier_workspace_nbytes(spec: KernelSpec) -> int:
    """Buffers for what is transformed at once, and what lies between dimensions."""
    t = fourier_of(spec)
    return 0 if t is None else private_nbytes(t) + shared_nbytes(t)


def emit_fourier(k: KernelBuild) -> None:
    """Writes the kernel of an fft of no numbers: there is no result, or it is zeros."""
    zero = constant_element(k.root.shape.element_type, 0)
    k.nest_in_layout(k.results[0], lambda at: k.results[0].store(k.b, at, zero))


def emit_transform(k: KernelBuild, t: Fourier) -> None:
    """Writes a kernel that is a transform."""
    _Transform.of(k, t).emit()


@dataclass(frozen=True, slots=True)
class _Transform:
    """One kernel under construction.

    Attributes:
        k: the kernel.
        t: what to compute.
        source, result, between: addresses: of the operand, the result, and of what all threads
            have in the workspace.
    """

    k: KernelBuild
    t: Fourier
    source: Value
    result: Value
    between: Value

    @staticmethod
    def of(k: KernelBuild, t: Fourier) -> _Transform:
        """The addresses of a kernel."""
        between = k.results[0].base
        if shared_nbytes(t):
            between = k.b.byte_address(k.scratch, private_nbytes(t))
        return _Transform(k, t, k.operands[0].base, k.results[0].base, between)

    def emit(self) -> None:
        """Rows first; columns in place after them, or before them if the result is real."""
        axes = self.t.column_axes
        if self.t.kind == "IRFFT":
            place = self.source
            for axis in axes:
                self._columns(axis, place, self.between, (1.0, -1.0, 1.0, -1.0))
                place = self.between
            self._rows(place, self.result)
            return
        place = self.source
        if self.t.has_rows:
            self._rows(self.source, self.result)
            place = self.result
        for axis in axes:
            factors = self._outer_factors(axis == self.t.axes[-1], axis == axes[-1])
            self._columns(axis, place, self.result, factors)
            place = self.result

    def _outer_factors(self, first: bool, last: bool) -> Factors:
        """A transform backwards stays the conjugate from the beginning until the end."""
        factor = self.t.factor if last else 1.0
        if self.t.kind != "IFFT":
            return (1.0, 1.0, factor, factor)
        return (1.0, -1.0 if first else 1.0, factor, -factor if last else factor)

    def _row_factors(self) -> Factors:
        kind, factor, is_odd = self.t.kind, self.t.factor, self.t.length % 2
        if kind == "IRFFT":
            return (factor, factor, 1.0, 1.0) if is_odd else (1.0, 1.0, factor, -factor)
        made = self._outer_factors(True, len(self.t.axes) == 1)
        return made if kind != "RFFT" or is_odd else (0.5, 0.5, *made[2:])

    def lines(self) -> Lines:
        """Writes calls; in each part anew, for the addresses of its memory."""
        b = self.k.b
        widest = FourierKind.of(b.module.target, F64 if self.t.nbytes == 8 else F32, 1 << 20)
        buffers = places(b, self.k.scratch, *buffers_of(self.t), self.t.nbytes)
        return Lines(b, widest, buffers)

    def address(self, factors: Factors) -> Value:
        """Of four elements."""
        data = np.array(factors, f"<f{self.t.nbytes}").tobytes()
        return self.k.b.module.constant_bytes(f"xladev.factors.{data.hex()}", data)

    # Rows

    def _rows(self, source: Value, result: Value) -> None:
        n, rows, is_complex = self.t.length, self.t.rows, not self.t.is_real
        if is_complex and n == 1:
            size = rows
            self.lines().copied_rows(
                size, pairs(source), pairs(result), (size, size), 1,
                self.address(self._row_factors()),
            )  # fmt: skip
        elif is_complex and n <= LONGEST_CODELET and rows > 1:
            self._short(n, rows, source, result)
        elif self.t.row_halves is not None:
            self._large(rows, source, result)
        else:
            self._long(rows, source, result)

    def _short(self, n: int, rows: int, source: Value, result: Value) -> None:
        k, factors = self.k, self._row_factors()
        block = min(rows, max(64, SHORT_ROWS // n))

        def part(begin: IndexValue, end: IndexValue) -> None:
            lines = self.lines()
            with k.b.loop(k.e.at.value(begin), k.e.at.value(end)) as unit, k.e.scope():
                here = k.e.at.mul(unit, block * n)
                count = self._extent(unit, rows // block, block, rows % block)
                lines.short(n, lines.at(pairs(source), here), lines.at(pairs(result), here),
                            count, block, self.address(factors))  # fmt: skip

        self._split(rows // block, part)

    def _long(self, rows: int, source: Value, result: Value) -> None:
        """A few rows at once."""
        k, emit = self.k, _EMITTERS[self.t.kind]
        block = min(rows, rows_at_once(self.t))
        factors = self._row_factors()

        def part(begin: IndexValue, end: IndexValue) -> None:
            lines = self.lines()
            with k.b.loop(k.e.at.value(begin), k.e.at.value(end)) as unit, k.e.scope():
                row = k.e.at.mul(unit, block)
                count: IndexValue = block
                if rows % block:
                    count = k.b.intrinsic("smin", k.b.sub(rows, k.e.at.value(row)), block)
                emit(_Rows(self, lines, row, count, block, source, result, self.address(factors)))

        self._split(-(-rows // block), part)

    def _large(self, rows: int, source: Value, result: Value) -> None:
        """Rows as matrices: columns, then rows, and real ones between spectra and planes."""
        kind, address = self.t.kind, self.address(self._row_factors())
        divided = self.t.row_halves
        assert divided is not None
        if kind == "IRFFT":
            self._real_rows(call_doubled, rows, source)

        def columns(lines: Lines, row: IndexValue, number: IndexValue, width: IndexValue) -> None:
            origin = self._kept(1) if kind == "IRFFT" else pairs(source)
            places_ = lines.at(origin, row), lines.at(self._kept(0), row)
            column_block(lines, divided, *places_, number, width, address)

        def lower(lines: Lines, row: IndexValue, number: IndexValue, width: IndexValue) -> None:
            there = self._kept(1) if kind == "RFFT" else pairs(result)
            places_ = lines.at(self._kept(0), row), lines.at(there, row)
            row_block(lines, divided, *places_, number, width, address)

        self._large_part(rows, divided.n2, columns)
        self._large_part(rows, divided.n1, lower)
        if kind == "RFFT":
            self._real_rows(call_halved, rows, result)

    def _kept(self, number: int) -> Place:
        """Planes that all threads have; addresses are made anew in each part."""
        base = self.k.b.byte_address(self.between, planes_offset(self.t))
        count = 1 + self.t.is_real
        return places(self.k.b, base, count, kept_numbers(self.t), self.t.nbytes)[number]

    def _real_rows(self, call: RealCall, rows: int, spectrum: Value) -> None:
        """Between spectra in memory and planes that all threads have."""
        h = self.t.row_length
        width = self.t.length // 2 + 1
        address = self.address(self._row_factors())

        def part(begin: IndexValue, end: IndexValue) -> None:
            lines = self.lines()
            at = lines.index
            there = lines.at(pairs(spectrum), at.mul(begin, width))
            planes = lines.at(self._kept(1), at.mul(begin, h))
            lines.real_rows(call, h, there, planes, (width, h), at.sub(end, begin), address)

        self._split(rows, part)

    def _large_part(self, rows: int, extent: int, emit: LargePart) -> None:
        k, n = self.k, self.t.row_length
        blocks = extent // BLOCK

        def part(begin: IndexValue, end: IndexValue) -> None:
            lines = self.lines()
            with k.b.loop(k.e.at.value(begin), k.e.at.value(end)) as unit, k.e.scope():
                row, number = k.e.at.delinear(unit, (rows, blocks))
                width = self._extent(number, blocks, BLOCK, extent % BLOCK)
                emit(lines, k.e.at.mul(row, n), number, width)

        self._split(rows * blocks, part)

    # Columns

    def _columns(self, axis: int, source: Value, result: Value, factors: Factors) -> None:
        """A block of columns is in the buffers before any of it is written."""
        dims = self.t.dims
        outer, n, inner = prod(dims[:axis]), dims[axis], prod(dims[axis + 1 :])
        k, is_in_place = self.k, source is result
        block, rest = columns_at_once(self.t, axis)
        blocks = inner // block

        def part(begin: IndexValue, end: IndexValue) -> None:
            lines = self.lines()
            with k.b.loop(k.e.at.value(begin), k.e.at.value(end)) as unit, k.e.scope():
                one, number = k.e.at.delinear(unit, (outer, blocks))
                at = k.e.at.add(k.e.at.mul(one, n * inner), k.e.at.mul(number, block))
                lines.columns(
                    n, self._extent(number, blocks, block, rest), block,
                    lines.at(pairs(source), at), lines.at(pairs(result), at), (inner, inner),
                    self.address(factors), is_in_place=is_in_place,
                )  # fmt: skip

        self._split(outer * blocks, part)

    def _split(self, count: int, part: Callable[[IndexValue, IndexValue], None]) -> None:
        captures = [self.between] if shared_nbytes(self.t) else []
        self.k.split(count, part, captures=captures, private_nbytes=private_nbytes(self.t))

    def _extent(self, number: IndexValue, count: int, block: int, rest: int) -> IndexValue:
        """Of a block: the last one has the rest too."""
        if not rest:
            return block
        if isinstance(number, int):
            return block + rest if number == count - 1 else block
        b = self.k.b
        is_last = b.resize(b.icmp("eq", number, count - 1), I64, signed=False)
        return b.add(block, b.mul(is_last, rest))


@dataclass(frozen=True, slots=True)
class _Rows:
    """Some rows of a transform.

    Attributes:
        of: the transform.
        lines: writes the calls.
        first, count: numbers of the first row, and how many there are.
        most: most that there may be.
        source, result: addresses of all rows.
        factors: address of four elements.
    """

    of: _Transform
    lines: Lines
    first: IndexValue
    count: IndexValue
    most: int
    source: Value
    result: Value
    factors: Value

    @property
    def n(self) -> int:
        """Length of the signal."""
        return self.of.t.length

    @property
    def spectrum(self) -> int:
        """Numbers in a row of half a spectrum."""
        return self.n // 2 + 1

    def at(self, address: Value, step: int) -> Place:
        """Pairs at the first row, of so many numbers each."""
        return self.lines.at(pairs(address), self.of.k.e.at.mul(self.first, step))

    def real_at(self, address: Value) -> Value:
        """Address of the first row of real numbers."""
        at = self.of.k.e.at
        return self.of.k.b.byte_address(
            address, at.value(at.mul(self.first, self.n * self.lines.nbytes))
        )

    @property
    def buffer(self) -> Place:
        """Planes of as many numbers."""
        return self.lines.buffers[CALLERS]


def _complex(r: _Rows) -> None:
    n = r.n
    r.lines.rows(n, r.at(r.source, n), r.at(r.result, n), (n, n), r.count, r.factors)


def _forward(r: _Rows) -> None:
    """Of real rows: of even length as half as many complex numbers, or with imaginary parts 0."""
    n, lines = r.n, r.lines
    result = r.at(r.result, r.spectrum)
    if n % 2 == 0:
        h = r.of.t.row_length
        lines.rows(h, pairs(r.real_at(r.source)), r.buffer, (h, h), r.count, r.factors)
        lines.real_rows(call_halved, h, result, r.buffer, (r.spectrum, h), r.count, r.factors)
        return
    source = Place(Form.PLANES, r.real_at(r.source), lines.zeros(n * r.most))
    steps = (n, r.spectrum)
    lines.rows(n, source, r.buffer, (n, n), r.count, r.factors)
    lines.copied_rows(r.spectrum, r.buffer, result, steps, r.count, r.factors)
    first = Place(Form.PLANES, r.buffer.real, lines.zeros(n * r.most))
    lines.copied_rows(1, first, result, steps, r.count, r.factors)


def _backward(r: _Rows) -> None:
    """The opposite."""
    n, lines = r.n, r.lines
    source = r.at(r.source, r.spectrum)
    if n % 2 == 0:
        h = r.of.t.row_length
        lines.real_rows(call_doubled, h, source, r.buffer, (r.spectrum, h), r.count, r.factors)
        lines.rows(h, r.buffer, pairs(r.real_at(r.result)), (h, h), r.count, r.factors)
        return
    lines.real_rows(call_whole, n, source, r.buffer, (r.spectrum, n), r.count, r.factors)
    result = Place(Form.PLANES, r.buffer.real, r.real_at(r.result))
    lines.rows(n, r.buffer.swapped, result, (n, n), r.count, r.factors)


_EMITTERS: Mapping[str, Callable[[_Rows], None]] = MappingProxyType(
    {"FFT": _complex, "IFFT": _complex, "RFFT": _forward, "IRFFT": _backward}
)


def pairs(address: Value) -> Place:
    """Complex numbers as HLO has them."""
    return Place(Form.PAIRS, address)
