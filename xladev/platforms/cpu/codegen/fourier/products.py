"""Rows times a table, number by number, with zeros behind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from xladev.codegen.llvm import FunctionBuilder, Value
from xladev.platforms.cpu.codegen.fourier.kinds import FourierKind, times
from xladev.platforms.cpu.codegen.fourier.places import Form, load_complex, store_complex
from xladev.platforms.cpu.codegen.fourier.row_function import RowFunction


class ProductArguments(NamedTuple):
    """What the function is called with; steps in bytes.

    Attributes:
        source, source_imaginary: first element of the rows; the second is for planes alone.
        result, result_imaginary: the same of the result.
        table: real parts of the factors, then imaginary ones.
        factors: four elements; see `places.Factors`.
        width: numbers in a row; a vector at least.
        padded: numbers of the result in a row; a vector more than ``width`` or as many.
        rows: how many.
        source_row, result_row: from one row to the next.
    """

    source: Value
    source_imaginary: Value
    result: Value
    result_imaginary: Value
    table: Value
    factors: Value
    width: Value
    padded: Value
    rows: Value
    source_row: Value
    result_row: Value


@dataclass(frozen=True, slots=True)
class ProductForm:
    """What its code depends on, besides the type.

    Attributes:
        source: how numbers are held; None for real ones.
        result: the same of the result; planes if there are zeros behind.
    """

    source: Form | None
    result: Form

    @property
    def name(self) -> str:
        """Its part of the name."""
        return f"product.{self.source.value if self.source else 'r'}{self.result.value}"


def call_product(
    b: FunctionBuilder, kind: FourierKind, form: ProductForm, arguments: ProductArguments
) -> None:
    """Calls the function, which the module has once."""

    def emit(inner: FunctionBuilder, values: tuple[Value, ...]) -> None:
        _Product(inner, kind, form, ProductArguments(*values)).emit()

    b.call_microkernel(kind.name(form.name), arguments, emit)


class _Product(RowFunction[ProductForm, ProductArguments]):
    def row(self, source: list[Value], result: list[Value]) -> None:
        """In vectors, the last of which may overlap the one before, then zeros likewise."""
        b, a, lanes = self.b, self.a, self.kind.lanes
        with b.loop(0, a.width, lanes) as begin:
            self._vector(source, result, b.intrinsic("smin", begin, b.sub(a.width, lanes)))
        if self.form.result is Form.PLANES:
            with b.loop(a.width, a.padded, lanes) as begin:
                self._zeros(result, b.intrinsic("smin", begin, b.sub(a.padded, lanes)))

    def _vector(self, source: list[Value], result: list[Value], at: Value) -> None:
        b, kind, form = self.b, self.kind, self.form
        imaginary = b.mul(self.a.width, kind.nbytes)
        place = b.byte_address(self.a.table, b.mul(at, kind.nbytes))
        root = kind.load(b, place), kind.load(b, b.byte_address(place, imaginary))
        real, other = self.at(source, at, form.source)
        if form.source is None:
            x = b.fmul(kind.load(b, real), self.factors.read[0])
            value = b.fmul(x, root[0]), b.fmul(x, root[1])
        else:
            value = times(b, load_complex(b, kind, form.source, real, other, self.factors), root)
        place, beside = self.at(result, at, form.result)
        store_complex(b, form.result, value, place, beside, self.factors)

    def _zeros(self, result: list[Value], at: Value) -> None:
        for place in self.at(result, at, Form.PLANES):
            self.b.store(self.b.const(self.kind.vector, 0.0), place)
