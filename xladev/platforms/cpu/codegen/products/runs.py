"""Copies of short runs of memory, such as the filters of a channel, from rows to other rows."""

from __future__ import annotations

from typing import NamedTuple

from xladev.codegen.llvm import I64, FunctionBuilder, Value, vector
from xladev.platforms.cpu.codegen.products.kinds import ProductKind


class RunsArguments(NamedTuple):
    """What the function is called with; strides in bytes.

    Attributes:
        target: first element of the copy, in which the runs of a row follow one another.
        target_row: from one row to the next there.
        source: first element.
        source_row: from one row to the next there.
        source_run: from one run of a row to the next there.
        rows: number of rows.
        per_row: number of runs in a row.
        length: elements of a run.
    """

    target: Value
    target_row: Value
    source: Value
    source_row: Value
    source_run: Value
    rows: Value
    per_row: Value
    length: Value


def call_runs(b: FunctionBuilder, kind: ProductKind, arguments: RunsArguments) -> None:
    """Calls the function that copies, which the module has once."""

    def emit(inner: FunctionBuilder, values: tuple[Value, ...]) -> None:
        _copy(inner, kind, RunsArguments(*values))

    b.call_microkernel(kind.packed_name("runs"), arguments, emit, is_long=False)


def _copy(b: FunctionBuilder, kind: ProductKind, a: RunsArguments) -> None:
    """Run by run, in each of them row by row: what is read lies together."""
    size, lanes = kind.size, kind.lanes
    numbers = b.lane_numbers(lanes, I64)
    with b.loop(0, a.per_row) as run, b.loop(0, a.rows) as row:
        source = b.byte_address(a.source, b.mul(run, a.source_run))
        source = b.byte_address(source, b.mul(row, a.source_row))
        target = b.byte_address(a.target, b.mul(b.mul(run, a.length), size))
        target = b.byte_address(target, b.mul(row, a.target_row))
        with b.loop(0, a.length, lanes) as first:
            mask = b.icmp("slt", numbers, b.splat(b.sub(a.length, first), lanes))
            place = b.element_address(source, first, kind.element)
            value = b.masked_load(vector(kind.element, lanes), place, mask)
            b.masked_store(value, b.element_address(target, first, kind.element), mask)
