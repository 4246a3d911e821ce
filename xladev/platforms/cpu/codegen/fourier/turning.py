"""Rows of a matrix, times roots of unity, as columns: between the two halves of a long transform.

A transform of n1 n2 points is one of n1 points down each of n2 columns, a product of element
(k, j) with ``w(k j / (n1 n2))``, and one of n2 points along each of n1 rows, whose results are
columns again (Gentleman and Sande). Roots are products of two, so that tables are short.
"""

from __future__ import annotations

from typing import NamedTuple

from xladev.codegen.llvm import FunctionBuilder, Value
from xladev.platforms.cpu.codegen.fourier.kinds import Complex, FourierKind, times
from xladev.platforms.cpu.codegen.fourier.shuffles import interleaved


class TurnArguments(NamedTuple):
    """What the function is called with; steps in bytes.

    Attributes:
        source, source_imaginary: planes of the first row.
        result, result_imaginary: planes; a row of them has ``width`` numbers.
        outer: roots for all rows: real parts, then imaginary ones.
        inner: roots of each row: the same.
        positions: numbers in a row; a vector at least.
        width: how many rows; a vector at least.
        source_row: from one row to the next.
    """

    source: Value
    source_imaginary: Value
    result: Value
    result_imaginary: Value
    outer: Value
    inner: Value
    positions: Value
    width: Value
    source_row: Value


def call_turn(b: FunctionBuilder, kind: FourierKind, arguments: TurnArguments) -> None:
    """Calls the function, which the module has once."""

    def emit(inner: FunctionBuilder, values: tuple[Value, ...]) -> None:
        _emit(inner, kind, TurnArguments(*values))

    b.call_microkernel(kind.name("turn"), arguments, emit)


def _emit(b: FunctionBuilder, kind: FourierKind, a: TurnArguments) -> None:
    """Blocks of as many rows and columns as a vector has lanes; the last ones may overlap."""
    lanes, nbytes = kind.lanes, kind.nbytes
    plane = b.mul(a.positions, nbytes)
    with b.loop(0, a.positions, lanes) as begin:
        j = b.intrinsic("smin", begin, b.sub(a.positions, lanes))
        offset = b.mul(j, nbytes)
        outer = _root(b, kind, b.byte_address(a.outer, offset), plane)
        with b.loop(0, a.width, lanes) as first:
            k = b.intrinsic("smin", first, b.sub(a.width, lanes))
            made: list[Complex] = []
            for n in range(lanes):
                row = b.add(k, n)
                places = [b.byte_address(x, b.add(b.mul(row, a.source_row), offset)) for x in a[:2]]
                roots = b.byte_address(a.inner, b.add(b.mul(row, b.mul(plane, 2)), offset))
                root = times(b, outer, _root(b, kind, roots, plane))
                made.append(times(b, (kind.load(b, places[0]), kind.load(b, places[1])), root))
            _store(b, kind, a, made, j, k)


def _root(b: FunctionBuilder, kind: FourierKind, place: Value, plane: Value) -> Complex:
    return kind.load(b, place), kind.load(b, b.byte_address(place, plane))


def _store(
    b: FunctionBuilder, kind: FourierKind, a: TurnArguments, rows: list[Complex], j: Value, k: Value
) -> None:
    for part, base in enumerate(a[2:4]):
        columns = interleaved(b, [row[part] for row in rows])
        for n, column in enumerate(columns):
            at = b.add(b.mul(b.add(j, n), a.width), k)
            b.store(column, b.byte_address(base, b.mul(at, kind.nbytes)))
