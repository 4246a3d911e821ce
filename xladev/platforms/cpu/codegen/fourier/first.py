"""The first pass along a row, whose results are laid into each other, and whole short rows.

As `passes`, but the numbers that are computed at once are neighbours along the transform: a vector
holds p, p + 1... Results go to ``radix p + c``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from xladev.codegen.llvm import FunctionBuilder, Value
from xladev.platforms.cpu.codegen.fourier.codelets import transform
from xladev.platforms.cpu.codegen.fourier.kinds import Complex, FourierKind, times
from xladev.platforms.cpu.codegen.fourier.places import Factors, Form, load_complex
from xladev.platforms.cpu.codegen.fourier.row_function import RowFunction
from xladev.platforms.cpu.codegen.fourier.shuffles import deinterleaved, interleaved


class FirstArguments(NamedTuple):
    """What the function is called with; steps in bytes.

    Attributes:
        source, source_imaginary: first element of the operand; the second is for planes alone.
        result, result_imaginary: planes of the result.
        table: roots of unity: of each c = 1, 2... the real parts of all p, the imaginary parts.
        factors: four elements; see `Factors`.
        positions: how many p there are; a vector at least.
        rows: how many rows.
        source_row, result_row: from one row to the next.
    """

    source: Value
    source_imaginary: Value
    result: Value
    result_imaginary: Value
    table: Value
    factors: Value
    positions: Value
    rows: Value
    source_row: Value
    result_row: Value


@dataclass(frozen=True, slots=True)
class FirstForm:
    """What its code depends on, besides the type: the radix, and how the operand is held."""

    radix: int
    source: Form

    @property
    def name(self) -> str:
        """Its part of the name."""
        return f"first.{self.radix}{self.source.value}"


def call_first(
    b: FunctionBuilder, kind: FourierKind, form: FirstForm, arguments: FirstArguments
) -> None:
    """Calls the function, which the module has once."""

    def emit(inner: FunctionBuilder, values: tuple[Value, ...]) -> None:
        _First(inner, kind, form, FirstArguments(*values)).emit()

    b.call_microkernel(kind.name(form.name), arguments, emit)


class _First(RowFunction[FirstForm, FirstArguments]):
    def __init__(
        self, b: FunctionBuilder, kind: FourierKind, form: FirstForm, a: FirstArguments
    ) -> None:
        super().__init__(b, kind, form, a)
        self.last = b.sub(a.positions, kind.lanes)

    def row(self, source: list[Value], result: list[Value]) -> None:
        """In vectors of p, the last of which may overlap the one before."""
        b, lanes = self.b, self.kind.lanes
        with b.loop(0, self.a.positions, lanes) as begin:
            p = b.intrinsic("smin", begin, self.last) if lanes > 1 else begin
            self._vectors(source, result, p)

    def _vectors(self, source: list[Value], result: list[Value], p: Value) -> None:
        b, form, nbytes = self.b, self.form, self.kind.nbytes
        step = nbytes * form.source.parts
        here = [b.byte_address(x, b.mul(p, step)) for x in source]
        leg = b.mul(self.a.positions, step)

        def get(j: int) -> Complex:
            real, imaginary = (b.byte_address(x, b.mul(leg, j)) for x in here)
            self._fetch_next(real)
            return load_complex(b, self.kind, form.source, real, imaginary, self.factors)

        made = {c: self._turned(value, c, p) for c, value in transform(b, form.radix, get)}
        for n, base in enumerate(result):
            place = b.byte_address(base, b.mul(p, nbytes * form.radix))
            parts = interleaved(b, [made[c][n] for c in range(form.radix)])
            for number, part in enumerate(parts):
                b.store(part, b.byte_address(place, number * self.kind.lanes * nbytes))

    def _fetch_next(self, address: Value) -> None:
        """Asks for the same numbers of the next row: legs are too many for hardware to see."""
        b, kind = self.b, self.kind
        following = b.byte_address(address, self.a.source_row)
        for n in range(0, kind.lanes * kind.nbytes * self.form.source.parts, 64):
            b.prefetch(b.byte_address(following, n))

    def _turned(self, value: Complex, c: int, p: Value) -> Complex:
        if not c:
            return value
        b, nbytes = self.b, self.kind.nbytes
        line = b.byte_address(self.a.table, b.mul(self.a.positions, 2 * (c - 1) * nbytes))
        real = b.byte_address(line, b.mul(p, nbytes))
        imaginary = b.byte_address(real, b.mul(self.a.positions, nbytes))
        return times(b, value, (self.kind.load(b, real), self.kind.load(b, imaginary)))


class ShortArguments(NamedTuple):
    """What the function for short rows is called with.

    Attributes:
        source: pairs, row after row.
        result: the same of the result.
        factors: four elements; see `Factors`.
        rows: how many rows; a vector at least.
    """

    source: Value
    result: Value
    factors: Value
    rows: Value


def call_short(b: FunctionBuilder, kind: FourierKind, n: int, arguments: ShortArguments) -> None:
    """Transforms rows of n numbers that have a codelet, a row in each lane."""

    def emit(inner: FunctionBuilder, values: tuple[Value, ...]) -> None:
        _emit_short(inner, kind, n, ShortArguments(*values))

    b.call_microkernel(kind.name(f"short.{n}"), arguments, emit)


def _emit_short(b: FunctionBuilder, kind: FourierKind, n: int, a: ShortArguments) -> None:
    factors, lanes, step = Factors.load(b, kind, a.factors), kind.lanes, kind.lanes * kind.nbytes
    last = b.sub(a.rows, lanes)
    with b.loop(0, a.rows, lanes) as begin:
        row = b.intrinsic("smin", begin, last) if lanes > 1 else begin
        source, result = (b.byte_address(x, b.mul(row, 2 * n * kind.nbytes)) for x in a[:2])
        loaded = [kind.load(b, b.byte_address(source, i * step)) for i in range(2 * n)]
        parts = deinterleaved(b, loaded)

        def get(j: int) -> Complex:
            real, imaginary = parts[2 * j : 2 * j + 2]
            return b.fmul(real, factors.read[0]), b.fmul(imaginary, factors.read[1])

        made = dict(transform(b, n, get))
        results = [b.fmul(made[i // 2][i % 2], factors.written[i % 2]) for i in range(2 * n)]
        for i, part in enumerate(interleaved(b, results)):
            b.store(part, b.byte_address(result, i * step))
