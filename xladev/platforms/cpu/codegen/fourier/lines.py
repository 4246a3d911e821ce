"""Transforms of rows and of columns, as calls of microkernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

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
from xladev.platforms.cpu.codegen.fourier.plan import (
    column_radices,
    convolution_length,
    is_direct,
    row_radices,
)
from xladev.platforms.cpu.codegen.fourier.products import (
    ProductArguments,
    ProductForm,
    call_product,
)
from xladev.platforms.cpu.codegen.fourier.real import RealArguments
from xladev.platforms.cpu.codegen.fourier.roots import (
    chirp,
    chirp_spectrum,
    half_table,
    lane_table,
    step_table,
)

NULL = Value("null", PTR)
LINE_NBYTES = 64
CALLERS, CONVOLVED = 2, 3
"""Numbers of buffers: that of whoever calls, and the first one of convolutions."""
MOST_WIDTH = 64
"""Columns that are transformed at once."""

RealCall = Callable[[FunctionBuilder, FourierKind, RealArguments], None]


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

    @property
    def swapped(self) -> Place:
        """Planes that have changed their parts: a transform of them is one backwards."""
        return Place(self.form, self.imaginary, self.real)


@dataclass(frozen=True, slots=True)
class Lines:
    """Writes transforms of one element type into a kernel.

    Attributes:
        b: the kernel.
        widest: the longest vectors.
        buffers: places for planes, each of as many numbers as are transformed at once: two for
            passes, one for whoever calls, two for convolutions.
    """

    b: FunctionBuilder
    widest: FourierKind
    buffers: tuple[Place, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of a real number."""
        return self.widest.nbytes

    @property
    def index(self) -> IndexMath:
        """Arithmetic on numbers of elements."""
        return IndexMath(self.b)

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
            n: any length.
            source, result: the first row; none of the buffers for passes and convolutions.
            steps: numbers from a row to the next, of source and result.
            rows: how many; the buffers hold as many.
            factors: see `Factors`.
        """
        if not is_direct(n):
            self._convolved_rows(n, source, result, steps, rows, factors)
            return
        radices = row_radices(n)
        if len(radices) == 1:
            self._only_pass(radices[0], 1, source, result, steps, rows, factors)
            return
        self._first(n, radices[0], source, steps[0], rows, factors)
        done, here = radices[0], 0
        for radix in radices[1:]:
            last = done * radix == n
            there = result if last else self.buffers[1 - here]
            step = steps[1] if last else n
            self._row_pass(n, done, radix, self.buffers[here], there, step, rows, factors)
            done, here = done * radix, 1 - here

    def copied_rows(
        self, width: int, source: Place, result: Place, steps: tuple[int, int], rows: IndexValue,
        factors: Value,
    ) -> None:  # fmt: skip
        """The first numbers of each row; arguments as those of `rows`."""
        self._only_pass(1, width, source, result, steps, rows, factors)

    def _convolved_rows(
        self, n: int, source: Place, result: Place, steps: tuple[int, int], rows: IndexValue,
        factors: Value,
    ) -> None:  # fmt: skip
        """As a convolution with a chirp, by two longer transforms (Bluestein)."""
        m = convolution_length(n)
        first, second = self.buffers[CONVOLVED:]
        chirped = self.table(f"chirp.{n}", chirp(n, self.nbytes, in_pairs=False))
        data = chirp_spectrum(n, m, self.nbytes, in_pairs=False)
        spectrum = self.table(f"spectrum.{n}.{m}", data)
        self._product(source, first, chirped, (n, m), (steps[0], m), rows, factors)
        self.rows(m, first, second, (m, m), rows, factors)
        self._product(second, first, spectrum, (m, m), (m, m), rows, factors)
        self.rows(m, first.swapped, second.swapped, (m, m), rows, factors)
        self._product(second, result, chirped, (n, n), (m, steps[1]), rows, factors)

    def _product(
        self, source: Place, result: Place, table: Value, widths: tuple[int, int],
        steps: tuple[int, int], rows: IndexValue, factors: Value,
    ) -> None:  # fmt: skip
        width, padded = widths
        kind = self.widest.narrowed(min(width, padded - width or width))
        arguments = ProductArguments(
            source.real, source.imaginary, result.real, result.imaginary, table, factors,
            self._number(width), self._number(padded), self._number(rows),
            self._bytes(source, steps[0]), self._bytes(result, steps[1]),
        )  # fmt: skip
        call_product(self.b, kind, ProductForm(source.form, result.form), arguments)

    def real_rows(
        self, call: RealCall, n: int, spectrum: Place, planes: Place, steps: tuple[int, int],
        rows: IndexValue, factors: Value,
    ) -> None:  # fmt: skip
        """Between spectra of real rows and planes of n numbers: see `real`."""
        pairs = n // 2
        table = self.table(f"half.{2 * n}", half_table(2 * n, self.nbytes))
        arguments = RealArguments(
            spectrum.real, planes.real, planes.imaginary, table, factors,
            self._number(n), self._number(pairs), self._number(rows),
            self._bytes(spectrum, steps[0]), self._bytes(planes, steps[1]),
        )  # fmt: skip
        call(self.b, self.widest.narrowed(max(pairs, 1)), arguments)

    def _only_pass(
        self, n: int, width: int, source: Place, result: Place, steps: tuple[int, int],
        rows: IndexValue, factors: Value,
    ) -> None:  # fmt: skip
        """Rows that a codelet transforms, one after the other; or numbers that are kept."""
        self._call(
            width, PassForm(n, source.form, result.form, False), source, result, factors,
            width=self._number(width), positions=self._number(1), rows=self._number(rows),
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
            table=self._steps(radix, count), width=self._number(done),
            positions=self._number(count),
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
            n: any length.
            width: how many columns; the buffers hold as many.
            least: fewest that ``width`` may be.
            source, result: the first number.
            steps: numbers from a row of columns to the next, of source and result.
            factors: see `Factors`.
            is_in_place: whether source and result are the same. One pass alone would read numbers
                that it has written.
        """
        if not is_direct(n):
            self._convolved_columns(n, width, least, source, result, steps, factors)
            return
        radices = column_radices(n)
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

    def _convolved_columns(
        self, n: int, width: IndexValue, least: int, source: Place, result: Place,
        steps: tuple[IndexValue, IndexValue], factors: Value,
    ) -> None:  # fmt: skip
        """As `_convolved_rows`."""
        m = convolution_length(n)
        first, second = self.buffers[CONVOLVED:]
        chirped = self.table(f"chirps.{n}", chirp(n, self.nbytes, in_pairs=True))
        data = chirp_spectrum(n, m, self.nbytes, in_pairs=True)
        spectrum = self.table(f"spectra.{n}.{m}", data)
        index = IndexMath(self.b)
        self._scaled(n, width, least, source, first, (steps[0], width), chirped, factors)
        self._cleared(m - n, width, least, self.at(first, index.mul(width, n)), factors)
        plain = (width, width)
        self.columns(m, width, least, first, second, plain, factors)
        self._scaled(m, width, least, second, first, plain, spectrum, factors)
        self.columns(m, width, least, first.swapped, second.swapped, plain, factors)
        self._scaled(n, width, least, second, result, (width, steps[1]), chirped, factors)

    def _scaled(
        self, count: int, width: IndexValue, least: int, source: Place, result: Place,
        steps: tuple[IndexValue, IndexValue], table: Value, factors: Value,
    ) -> None:  # fmt: skip
        """Rows of columns, each times a number of a table of pairs."""
        self._call(
            least, PassForm(1, source.form, result.form, True), source, result, factors,
            table=table, width=self._number(width), positions=self._number(count),
            source_step=self._bytes(source, steps[0]), result_step=self._bytes(result, steps[1]),
            table_step=self._number(2 * self.nbytes),
        )  # fmt: skip

    def _cleared(
        self, count: int, width: IndexValue, least: int, result: Place, factors: Value
    ) -> None:
        """Rows of columns that are zeros."""
        zeros = self.zeros(2 * MOST_WIDTH)
        self._call(
            least, PassForm(1, Form.PLANES, Form.PLANES, False), Place(Form.PLANES, zeros, zeros),
            result, factors, width=self._number(width), positions=self._number(count),
            result_step=self._bytes(result, width),
        )  # fmt: skip

    def zeros(self, count: int) -> Value:
        """Address of so many real zeros."""
        return self.table(f"zeros.{count}", bytes(count * self.nbytes))

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
            positions=self._number(done if is_inner else count),
            source_step=self._bytes(source, index.mul(steps[0], step)),
            result_step=self._bytes(result, index.mul(steps[1], 1 if is_inner else done * radix)),
            table_step=self._number(2 * (radix - 1) * self.nbytes),
            source_leg=self._bytes(source, index.mul(steps[0], done * count)),
            result_leg=self._bytes(result, index.mul(steps[1], done)),
            source_row=self._bytes(source, width[0]), result_row=self._bytes(result, width[0]),
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


def places(
    b: FunctionBuilder, memory: Value, count: int, numbers: int, nbytes: int
) -> tuple[Place, ...]:
    """Places for planes of so many numbers in a kernel's memory."""
    plane = plane_nbytes(numbers, nbytes)
    bases = [b.byte_address(memory, i * plane) for i in range(2 * count)]
    pairs = zip(bases[::2], bases[1::2], strict=True)
    return tuple(Place(Form.PLANES, *pair) for pair in pairs)


def plane_nbytes(numbers: int, nbytes: int) -> int:
    """Bytes of one part of so many numbers; planes begin in different sets of a cache."""
    return -(-numbers * nbytes // LINE_NBYTES) * LINE_NBYTES + LINE_NBYTES


def places_nbytes(count: int, numbers: int, nbytes: int) -> int:
    """Bytes of `places`."""
    return 2 * count * plane_nbytes(numbers, nbytes)
