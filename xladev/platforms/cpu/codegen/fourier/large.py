"""Long transforms, which threads share and whose passes stay in the second cache: see `turning`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import isqrt

from xladev.codegen.index import IndexValue
from xladev.codegen.llvm import Value
from xladev.platforms.cpu.codegen.fourier.lines import CALLERS, Lines, Place
from xladev.platforms.cpu.codegen.fourier.plan import is_direct
from xladev.platforms.cpu.codegen.fourier.roots import split_tables
from xladev.platforms.cpu.codegen.fourier.turning import TurnArguments, call_turn

LARGE = 1 << 15
"""Points from which on a transform is made of two shorter ones."""
BLOCK = 16
"""Columns, and rows, that are transformed at once."""


@dataclass(frozen=True, slots=True)
class Halves:
    """A length as a product.

    Attributes:
        n1: transforms down columns have so many points.
        n2: those along rows.
    """

    n1: int
    n2: int

    @property
    def n(self) -> int:
        """The whole length."""
        return self.n1 * self.n2

    @property
    def numbers(self) -> int:
        """Most that are transformed at once."""
        return max(self.n1 * (BLOCK + self.n2 % BLOCK), self.n2 * (BLOCK + self.n1 % BLOCK))


@cache
def halves_of(n: int) -> Halves | None:
    """How a length is divided; None for short ones, and those that are convolutions."""
    if n < LARGE or not is_direct(n):
        return None
    n1 = next(d for d in range(isqrt(n), 0, -1) if n % d == 0)
    return Halves(n1, n // n1) if n1 >= BLOCK else None


def column_block(
    lines: Lines, halves: Halves, source: Place, kept: Place, number: IndexValue,
    width: IndexValue, factors: Value,
) -> None:  # fmt: skip
    """The first half, of one block of columns.

    Args:
        lines: writes the calls.
        halves: the lengths.
        source: the operand.
        kept: planes that take the columns.
        number: of the block.
        width: how many columns it has.
        factors: see `Factors`.
    """
    at = lines.index.mul(number, BLOCK)
    steps = (halves.n2, halves.n2)
    lines.columns(halves.n1, width, BLOCK, lines.at(source, at), lines.at(kept, at), steps, factors)


def row_block(
    lines: Lines, halves: Halves, kept: Place, result: Place, number: IndexValue,
    width: IndexValue, factors: Value,
) -> None:  # fmt: skip
    """The second half, of one block of rows; arguments as those of `column_block`."""
    b, index, n2 = lines.b, lines.index, halves.n2
    outer, inner = split_tables(halves.n1, n2, BLOCK, BLOCK + halves.n1 % BLOCK, lines.nbytes)
    name = f"{halves.n1}x{n2}"
    row = index.mul(number, BLOCK)
    source, to = lines.at(kept, index.mul(row, n2)), lines.buffers[CALLERS]
    line = index.value(index.mul(number, 2 * n2 * lines.nbytes))
    arguments = TurnArguments(
        source.real, source.imaginary, to.real, to.imaginary,
        b.byte_address(lines.table(f"outer.{name}", outer), line),
        lines.table(f"inner.{name}", inner),
        index.value(n2), index.value(width), index.value(n2 * lines.nbytes),
    )  # fmt: skip
    call_turn(b, lines.widest.narrowed(BLOCK), arguments)
    there = lines.at(result, row)
    lines.columns(n2, width, BLOCK, to, there, (width, halves.n1), factors)
