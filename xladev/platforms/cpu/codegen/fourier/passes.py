"""One pass of a transform over numbers that are neighbours in memory: columns, or what earlier
passes left of a row.

With what is left of the length, n = radix m, it computes for each p of m positions
``y[c] = w(p c / n) sum over j of x[p + m j] w(j c / radix)``, of many columns at once
(Stockham: results are in order without reversing digits).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from xladev.codegen.llvm import FunctionBuilder, Value
from xladev.platforms.cpu.codegen.fourier.codelets import transform
from xladev.platforms.cpu.codegen.fourier.kinds import Complex, FourierKind, times
from xladev.platforms.cpu.codegen.fourier.places import Form, load_complex, store_complex
from xladev.platforms.cpu.codegen.fourier.row_function import RowFunction


class PassArguments(NamedTuple):
    """What the function is called with; steps in bytes.

    Attributes:
        source, source_imaginary: first element of the operand; the second is for planes alone.
        result, result_imaginary: the same of the result, which does not overlap the operand, or
            begins there if the width is a whole number of vectors and ``positions`` results follow
            the same steps.
        table: roots of unity: for each p, those of c = 1, 2...
        factors: four elements; see `places.Factors`.
        width: numbers beside each other; a vector at least.
        positions: how many p there are.
        source_step, result_step, table_step: from one p to the next.
        source_leg, result_leg: from one j, or c, to the next.
        rows: how many times all of that is done.
        source_row, result_row: from one row to the next.
    """

    source: Value
    source_imaginary: Value
    result: Value
    result_imaginary: Value
    table: Value
    factors: Value
    width: Value
    positions: Value
    source_step: Value
    result_step: Value
    table_step: Value
    source_leg: Value
    result_leg: Value
    rows: Value
    source_row: Value
    result_row: Value


@dataclass(frozen=True, slots=True)
class PassForm:
    """What the code of a pass depends on, besides the type.

    Attributes:
        radix: of its short transforms.
        source, result: how numbers are held.
        has_roots: whether results are multiplied by roots of unity; those of the last pass are 1.
    """

    radix: int
    source: Form
    result: Form
    has_roots: bool

    @property
    def name(self) -> str:
        """Its part of the name."""
        roots = "w" if self.has_roots else ""
        return f"pass.{self.radix}{self.source.value}{self.result.value}{roots}"


def call_pass(
    b: FunctionBuilder, kind: FourierKind, form: PassForm, arguments: PassArguments
) -> None:
    """Calls the function, which the module has once."""

    def emit(inner: FunctionBuilder, values: tuple[Value, ...]) -> None:
        _Pass(inner, kind, form, PassArguments(*values)).emit()

    b.call_microkernel(kind.name(form.name), arguments, emit)


class _Pass(RowFunction[PassForm, PassArguments]):
    def __init__(
        self, b: FunctionBuilder, kind: FourierKind, form: PassForm, a: PassArguments
    ) -> None:
        super().__init__(b, kind, form, a)
        self.last = b.sub(a.width, kind.lanes)

    def row(self, source: list[Value], result: list[Value]) -> None:
        """Each p, then vectors of the width, the last of which may overlap the one before."""
        b, a, lanes = self.b, self.a, self.kind.lanes
        with b.loop(0, a.positions) as p:
            roots = self._roots(p)
            here = [b.byte_address(x, b.mul(p, a.source_step)) for x in source]
            there = [b.byte_address(x, b.mul(p, a.result_step)) for x in result]
            with b.loop(0, a.width, lanes) as begin:
                at = b.intrinsic("smin", begin, self.last) if lanes > 1 else begin
                self._vectors(self.at(here, at, self.form.source),
                              self.at(there, at, self.form.result), roots)  # fmt: skip

    def _roots(self, p: Value) -> list[Complex]:
        """Of c = 1, 2...; from c = 0 on if that is all there is."""
        if not self.form.has_roots:
            return []
        line = self.b.byte_address(self.a.table, self.b.mul(p, self.a.table_step))
        count = max(self.form.radix - 1, 1)
        parts = [self.kind.splat(self.b, line, n) for n in range(2 * count)]
        return list(zip(parts[::2], parts[1::2], strict=True))

    def _vectors(self, source: list[Value], result: list[Value], roots: list[Complex]) -> None:
        b, a, form = self.b, self.a, self.form

        def get(j: int) -> Complex:
            real, imaginary = (b.byte_address(x, b.mul(a.source_leg, j)) for x in source)
            if form.source is Form.PAIRS:
                self._fetch(real, a.source_row, is_near=False)
            return load_complex(b, self.kind, form.source, real, imaginary, self.factors)

        first = len(roots) - form.radix
        for c, value in transform(b, form.radix, get):
            kept = times(b, value, roots[c + first]) if roots and c + first >= 0 else value
            real, imaginary = (b.byte_address(x, b.mul(a.result_leg, c)) for x in result)
            if form.result is Form.PAIRS:
                self._fetch(real, a.result_row, is_written=True)
            store_complex(b, form.result, kept, real, imaginary, self.factors)

    def _fetch(
        self, address: Value, step: Value, *, is_near: bool = True, is_written: bool = False
    ) -> None:
        """Asks for what follows an address of pairs: legs are too many for hardware to see it."""
        following = self.b.byte_address(address, step)
        for n in range(0, self.kind.lanes * self.kind.nbytes * 2, 64):
            place = self.b.byte_address(following, n)
            self.b.prefetch(place, is_near=is_near, is_written=is_written)
