"""Transforms of rows and of columns, as calls of microkernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from xladev.codegen.index import IndexMath, IndexValue
from xladev.codegen.llvm import DOUBLE, I64, PTR, FunctionBuilder, Value
from xladev.platforms.cpu.codegen.fourier.first import (
    FirstArguments,
    FirstForm,
    ShortArguments,
    call_first,
    call_short,
)
from xladev.platforms.cpu.codegen.fourier.kinds import FourierKind
from xladev.platforms.cpu.codegen.fourier.passes import PassArguments, PassForm, call_pass
from xladev.platforms.cpu.codegen.fourier.places import Form
from xladev.platforms.cpu.codegen.fourier.plan import column_radices, row_radices
from xladev.platforms.cpu.codegen.fourier.roots import lane_table, step_table

NULL = Value("null", PTR)
LINE_NBYTES = 64
MOST_SHORT = 16
"""Numbers of the longest rows of which each is in a lane."""


@dataclass(frozen=True, slots=True)
class Place:
    """Complex numbers in memory.

    Attributes:
        form: how they are held.
        real: the first of them; of pairs, both parts.
        imaginary: of planes, the first imaginary part.
    """

    form: Form
    real: Value
    imaginary: Value = NULL


@dataclass(frozen=True, slots=True)
class Lines:
    """Writes transforms of one element type into a kernel.

    Attributes:
        b: the kernel.
        widest: the longest vectors.
        buffers: two places for planes, each of as many numbers as are transformed at once.
    """

    b: FunctionBuilder
    widest: FourierKind
    buffers: tuple[Place, Place]

    @property
    def nbytes(self) -> int:
        """Bytes of a real number."""
        return self.widest.nbytes

    def at(self, place: Place, offset: IndexValue) -> Place:
        """The place so many numbers further on."""
        index = IndexMath(self.b)
        moved = index.value(index.mul(offset, self.nbytes * place.form.parts))
        real = self.b.byte_address(place.real, moved)
        if place.form is Form.PAIRS:
            return replace(place, real=real)
        return replace(place, real=real, imaginary=self.b.byte_address(place.imaginary, moved))

    def table(self, name: str, data: bytes) -> Value:
        """Address of a table of roots."""
        kind = "f64" if self.widest.element == DOUBLE else "f32"
        return self.b.module.constant_bytes(f"xladev.roots.{kind}.{name}", data)

    # Rows

    def rows(
        self, n: int, source: Place, result: Place, steps: tuple[int, int], rows: IndexValue,
        factors: Value,
    ) -> None:  # fmt: skip
        """Transforms rows of n numbers.

        Args:
            n: a product of radices, above 1.
            source, result: the first row.
            steps: numbers from a row to the next, of source and result.
            rows: how many; the buffers hold as many.
            factors: see `Factors`.
        """
        radices = row_radices(n)
        if len(radices) == 1:
            self._only_pass(radices[0], source, result, steps, rows, factors)
            return
        self._first(n, radices[0], source, steps[0], rows, factors)
        done, here = radices[0], 0
        for radix in radices[1:]:
            last = done * radix == n
            there = result if last else self.buffers[1 - here]
            step = steps[1] if last else n
            self._row_pass(n, done, radix, self.buffers[here], there, step, rows, factors)
            done, here = done * radix, 1 - here

    def _only_pass(
        self, n: int, source: Place, result: Place, steps: tuple[int, int], rows: IndexValue,
        factors: Value,
    ) -> None:  # fmt: skip
        """Rows that a codelet transforms, one after the other."""
        one = self._number(1)
        self._call(
            1, PassForm(n, source.form, result.form, False), source, result, factors,
            width=one, count=one, rows=self._number(rows),
            source_leg=self._bytes(source, 1), result_leg=self._bytes(result, 1),
            source_row=self._bytes(source, steps[0]), result_row=self._bytes(result, steps[1]),
        )  # fmt: skip

    def _first(
        self, n: int, radix: int, source: Place, step: int, rows: IndexValue, factors: Value
    ) -> None:
        count, to = n // radix, self.buffers[0]
        table = self.table(f"lanes.{radix}x{count}", lane_table(radix, count, self.nbytes))
        arguments = FirstArguments(
            source.real, source.imaginary, to.real, to.imaginary, table, factors,
            self._number(count), self._number(rows),
            self._bytes(source, step), self._bytes(to, n),
        )  # fmt: skip
        kind = self.widest.narrowed(count)
        call_first(self.b, kind, FirstForm(radix, source.form), arguments)

    def _row_pass(
        self, n: int, done: int, radix: int, source: Place, result: Place, step: int,
        rows: IndexValue, factors: Value,
    ) -> None:  # fmt: skip
        count = n // (done * radix)
        form = PassForm(radix, source.form, result.form, count > 1)
        self._call(
            done, form, source, result, factors,
            table=self._steps(radix, count), width=self._number(done), count=self._number(count),
            source_step=self._bytes(source, done), result_step=self._bytes(result, done * radix),
            table_step=self._number(2 * (radix - 1) * self.nbytes),
            source_leg=self._bytes(source, done * count), result_leg=self._bytes(result, done),
            rows=self._number(rows),
            source_row=self._bytes(source, n), result_row=self._bytes(result, step),
        )  # fmt: skip

    def short(self, n: int, source: Place, result: Place, rows: IndexValue, least: int,
              factors: Value) -> None:  # fmt: skip
        """Transforms rows of few numbers that lie behind each other, ``least`` rows or more."""
        kind = self.widest.narrowed(least)
        arguments = ShortArguments(source.real, result.real, factors, self._number(rows))
        call_short(self.b, kind, n, arguments)

    # Columns

    def columns(
        self, n: int, width: IndexValue, least: int, source: Place, result: Place,
        steps: tuple[IndexValue, IndexValue], factors: Value, *, is_in_place: bool = False,
    ) -> None:  # fmt: skip
        """Transforms columns that are neighbours in memory.

        Args:
            n: a product of radices, or 1.
            width: how many columns; the buffers hold as many.
            least: fewest that ``width`` may be.
            source, result: the first number.
            steps: numbers from a row of columns to the next, of source and result.
            factors: see `Factors`.
            is_in_place: whether source and result are the same. One pass alone would read numbers
                that it has written.
        """
        radices = column_radices(n) or (1,)
        if is_in_place and len(radices) == 1:
            radices = (*radices, 1)
        done, here = 1, 0
        for number, radix in enumerate(radices):
            first, last = number == 0, number == len(radices) - 1
            origin = source if first else self.buffers[here]
            there = result if last else self.buffers[0 if first else 1 - here]
            strides = (steps[0] if first else width, steps[1] if last else width)
            self._column_pass(n, done, radix, (width, least), origin, there, strides, factors)
            done, here = done * radix, here if first else 1 - here

    def _column_pass(
        self, n: int, done: int, radix: int, width: tuple[IndexValue, int], source: Place,
        result: Place, steps: tuple[IndexValue, IndexValue], factors: Value,
    ) -> None:  # fmt: skip
        """One pass: over p if there are several, over what is done if not."""
        index = IndexMath(self.b)
        count = n // (done * radix)
        form = PassForm(radix, source.form, result.form, count > 1)
        is_inner = count == 1
        beside = 1 if is_inner else done
        step = 1 if is_inner else done
        self._call(
            width[1] * beside, form, source, result, factors,
            table=self._steps(radix, count),
            width=self._number(index.mul(width[0], beside)),
            count=self._number(done if is_inner else count),
            source_step=self._bytes(source, index.mul(steps[0], step)),
            result_step=self._bytes(result, index.mul(steps[1], 1 if is_inner else done * radix)),
            table_step=self._number(2 * (radix - 1) * self.nbytes),
            source_leg=self._bytes(source, index.mul(steps[0], done * count)),
            result_leg=self._bytes(result, index.mul(steps[1], done)),
        )  # fmt: skip

    # Calls

    def _steps(self, radix: int, count: int) -> Value:
        if count == 1:
            return NULL
        return self.table(f"steps.{radix}x{count}", step_table(radix, count, self.nbytes))

    def _call(
        self, least: int, form: PassForm, source: Place, result: Place, factors: Value,
        **numbers: Value,
    ) -> None:  # fmt: skip
        """Calls a pass over ``least`` numbers beside each other or more."""
        zero, table = self._number(0), numbers.pop("table", NULL)
        rest = dict.fromkeys(PassArguments._fields[6:], zero) | {"rows": self._number(1)}
        arguments = PassArguments(
            source.real, source.imaginary, result.real, result.imaginary, table, factors,
            **(rest | numbers),
        )  # fmt: skip
        call_pass(self.b, self.widest.narrowed(least), form, arguments)

    def _number(self, x: IndexValue) -> Value:
        return x if isinstance(x, Value) else self.b.const(I64, x)

    def _bytes(self, place: Place, numbers: IndexValue) -> Value:
        index = IndexMath(self.b)
        return index.value(index.mul(numbers, self.nbytes * place.form.parts))


def places(b: FunctionBuilder, memory: Value, numbers: int, nbytes: int) -> tuple[Place, Place]:
    """Two places for planes of so many numbers in a kernel's memory."""
    plane = plane_nbytes(numbers, nbytes)
    bases = [b.byte_address(memory, i * plane) for i in range(4)]
    return Place(Form.PLANES, *bases[:2]), Place(Form.PLANES, *bases[2:])


def plane_nbytes(numbers: int, nbytes: int) -> int:
    """Bytes of one part of so many numbers; planes begin in different sets of a cache."""
    return -(-numbers * nbytes // LINE_NBYTES) * LINE_NBYTES + LINE_NBYTES


def places_nbytes(numbers: int, nbytes: int) -> int:
    """Bytes of `places`."""
    return 4 * plane_nbytes(numbers, nbytes)


def total(dims: Sequence[int]) -> int:
    """How many elements there are."""
    return prod(dims)
