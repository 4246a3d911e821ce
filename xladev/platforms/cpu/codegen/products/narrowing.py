"""Sums of a block that the result keeps in fewer bits: they are made apart, then rounded once."""

from __future__ import annotations

from typing import NamedTuple

from xladev.codegen.llvm import FunctionBuilder, Value, vector
from xladev.codegen.scalar.convert import emit_convert
from xladev.codegen.scalar.elements import real_of
from xladev.codegen.scalar.storage import encode_stored
from xladev.hlo.dtype import PrimitiveType
from xladev.platforms.cpu.codegen.products.kinds import ProductKind


class NarrowingArguments(NamedTuple):
    """What the function is called with; strides in bytes.

    Attributes:
        sums: first sum of the block.
        sums_row: from one row of them to the next.
        result: first element of the result's block.
        result_row: from one row to the next there.
        rows: number of rows.
        columns: number of columns.
    """

    sums: Value
    sums_row: Value
    result: Value
    result_row: Value
    rows: Value
    columns: Value


def call_narrowing(
    b: FunctionBuilder, kind: ProductKind, result: PrimitiveType, arguments: NarrowingArguments
) -> None:
    """Calls the function, which the module has once."""

    def emit(inner: FunctionBuilder, values: tuple[Value, ...]) -> None:
        _Narrowing(inner, kind, result, NarrowingArguments(*values)).emit()

    name = f"narrow.{kind.total.name}.{result.name}.{kind.nbytes}"
    b.call_microkernel(name, arguments, emit)


class _Narrowing:
    def __init__(
        self, b: FunctionBuilder, kind: ProductKind, result: PrimitiveType, a: NarrowingArguments
    ) -> None:
        self.b, self.kind, self.result, self.a = b, kind, result, a

    def emit(self) -> None:
        """Row by row: whole vectors, then single elements."""
        b, a, lanes = self.b, self.a, self.kind.lanes
        whole = b.mul(b.udiv(a.columns, lanes), lanes)
        with b.loop(0, a.rows) as row:
            sums = b.byte_address(a.sums, b.mul(row, a.sums_row))
            kept = b.byte_address(a.result, b.mul(row, a.result_row))
            with b.loop(0, whole, lanes) as column:
                self._store(sums, kept, column, lanes)
            with b.loop(whole, a.columns) as column:
                self._store(sums, kept, column, 1)

    def _store(self, sums: Value, kept: Value, column: Value, lanes: int) -> None:
        b, kind = self.b, self.kind
        place = b.element_address(sums, column, kind.element)
        total = b.load(vector(kind.element, lanes), place)
        rounded = real_of(emit_convert(b, total, kind.total, self.result), "a product")
        place = b.byte_address(kept, b.mul(column, self.result.host_nbytes))
        b.store(encode_stored(b, rounded, self.result), place)
