"""Spectra of real rows: from and to those of half as many complex numbers, or whole.

A real row of 2 h numbers is one of h complex numbers, z. With Z its transform and w the root of
order 2 h, ``X[k] = E + w^k O`` for ``E = (Z[k] + conj Z[h - k]) / 2`` and
``O = (Z[k] - conj Z[h - k]) / 2i``; ``X[h - k]`` is the conjugate of ``E - w^k O``.
"""

from __future__ import annotations

from typing import NamedTuple

from xladev.codegen.llvm import FunctionBuilder, Value
from xladev.platforms.cpu.codegen.fourier.kinds import Complex, FourierKind, times
from xladev.platforms.cpu.codegen.fourier.places import Factors, Form, load_complex, store_complex
from xladev.platforms.cpu.codegen.fourier.shuffles import reverse


class RealArguments(NamedTuple):
    """What the functions are called with; steps in bytes.

    Attributes:
        spectrum: pairs, the first half of a spectrum.
        real, imaginary: planes of the transform of half the length, or of a whole spectrum.
        table: ``w^k``, the real parts of 0 to n / 2, then the imaginary ones.
        factors: four elements; see `Factors`.
        n: numbers in a plane.
        pairs: how many k there are with 0 < k <= n / 2; a vector at least.
        rows: how many rows.
        spectrum_row, plane_row: from one row to the next.
    """

    spectrum: Value
    real: Value
    imaginary: Value
    table: Value
    factors: Value
    n: Value
    pairs: Value
    rows: Value
    spectrum_row: Value
    plane_row: Value


def call_halved(b: FunctionBuilder, kind: FourierKind, arguments: RealArguments) -> None:
    """Spectra of real rows, from transforms of half the length of numbers that were halved."""
    _call(b, kind, "real.forward", _Halved, arguments)


def call_doubled(b: FunctionBuilder, kind: FourierKind, arguments: RealArguments) -> None:
    """The opposite, doubled and conjugated."""
    _call(b, kind, "real.backward", _Doubled, arguments)


def call_whole(b: FunctionBuilder, kind: FourierKind, arguments: RealArguments) -> None:
    """Whole spectra of real rows of odd length, from their first halves, times a factor."""
    _call(b, kind, "real.whole", _Whole, arguments)


def _call(
    b: FunctionBuilder, kind: FourierKind, name: str, body: type[_Rows], arguments: RealArguments
) -> None:
    def emit(inner: FunctionBuilder, values: tuple[Value, ...]) -> None:
        body(inner, kind, RealArguments(*values)).emit()

    b.call_microkernel(kind.name(name), arguments, emit)


class _Rows:
    """Goes over rows, and over k in vectors, the last of which may overlap the one before."""

    def __init__(self, b: FunctionBuilder, kind: FourierKind, a: RealArguments) -> None:
        self.b, self.kind, self.a = b, kind, a
        self.one = FourierKind(kind.element, 1)
        self.factors = Factors.load(b, kind, a.factors)

    def emit(self) -> None:
        b, a, lanes = self.b, self.a, self.kind.lanes
        after = b.sub(b.add(a.pairs, 1), lanes)
        with b.loop(0, a.rows) as row:
            offset = b.mul(row, a.plane_row)
            planes = [b.byte_address(x, offset) for x in (a.real, a.imaginary)]
            spectrum = b.byte_address(a.spectrum, b.mul(row, a.spectrum_row))
            self._ends(spectrum, planes)
            with b.loop(1, b.add(a.pairs, 1), lanes) as begin:
                k = b.intrinsic("smin", begin, after) if lanes > 1 else begin
                other = b.sub(b.sub(a.n, k), lanes - 1)
                self._pairs(spectrum, planes, k, other)

    def _ends(self, spectrum: Value, planes: list[Value]) -> None:
        """k = 0, and what goes with it."""
        raise NotImplementedError

    def _pairs(self, spectrum: Value, planes: list[Value], k: Value, other: Value) -> None:
        """A vector from k on, and that of n - k, which begins at ``other`` and is in reverse."""
        raise NotImplementedError

    def _root(self, k: Value) -> Complex:
        b, nbytes = self.b, self.kind.nbytes
        real = b.byte_address(self.a.table, b.mul(k, nbytes))
        imaginary = b.byte_address(real, b.mul(b.add(self.a.pairs, 1), nbytes))
        return self.kind.load(b, real), self.kind.load(b, imaginary)

    def _plane(self, planes: list[Value], at: Value) -> list[Value]:
        offset = self.b.mul(at, self.kind.nbytes)
        return [self.b.byte_address(x, offset) for x in planes]

    def _pair(self, spectrum: Value, at: Value) -> Value:
        return self.b.byte_address(spectrum, self.b.mul(at, 2 * self.kind.nbytes))

    def _reversed(self, x: Complex) -> Complex:
        return reverse(self.b, x[0]), reverse(self.b, x[1])

    def _read(self, planes: list[Value], at: Value) -> Complex:
        real, imaginary = self._plane(planes, at)
        return load_complex(self.b, self.kind, Form.PLANES, real, imaginary, self.factors)

    def _write(self, value: Complex, planes: list[Value], at: Value) -> None:
        for part, place in zip(value, self._plane(planes, at), strict=True):
            self.b.store(part, place)

    def _scalar(self, place: Value, number: int = 0) -> Value:
        return self.b.load(self.kind.element, self.b.byte_address(place, number * self.kind.nbytes))

    def _keep(self, place: Value, *values: Value) -> None:
        for n, value in enumerate(values):
            self.b.store(value, self.b.byte_address(place, n * self.kind.nbytes))


class _Halved(_Rows):
    def _ends(self, spectrum: Value, planes: list[Value]) -> None:
        b = self.b
        factor = b.fmul(self._scalar(self.a.factors, 2), 2.0)
        real, imaginary = (b.fmul(self._scalar(x), factor) for x in planes)
        zero = b.const(self.kind.element, 0.0)
        self._keep(spectrum, b.fadd(real, imaginary), zero)
        self._keep(self._pair(spectrum, self.a.n), b.fsub(real, imaginary), zero)

    def _pairs(self, spectrum: Value, planes: list[Value], k: Value, other: Value) -> None:
        b = self.b
        x, y = self._read(planes, k), self._reversed(self._read(planes, other))
        even = b.fadd(x[0], y[0]), b.fsub(x[1], y[1])
        odd = times(b, (b.fsub(x[0], y[0]), b.fadd(x[1], y[1])), self._root(k))
        first = b.fadd(even[0], odd[1]), b.fsub(even[1], odd[0])
        second = b.fsub(even[0], odd[1]), b.fneg(b.fadd(even[1], odd[0]))
        for value, at in ((first, k), (self._reversed(second), other)):
            place = self._pair(spectrum, at)
            store_complex(b, Form.PAIRS, value, place, place, self.factors)


class _Doubled(_Rows):
    def _ends(self, spectrum: Value, planes: list[Value]) -> None:
        b = self.b
        first, last = self._scalar(spectrum), self._scalar(self._pair(spectrum, self.a.n))
        b.store(b.fadd(first, last), planes[0])
        b.store(b.fsub(last, first), planes[1])

    def _pairs(self, spectrum: Value, planes: list[Value], k: Value, other: Value) -> None:
        b = self.b
        x, y = self._spectrum(spectrum, k), self._reversed(self._spectrum(spectrum, other))
        even = b.fadd(x[0], y[0]), b.fsub(x[1], y[1])
        turn = b.fneg(b.fadd(x[1], y[1])), b.fsub(x[0], y[0])
        real, imaginary = self._root(k)
        odd = times(b, turn, (real, b.fneg(imaginary)))
        first = b.fadd(even[0], odd[0]), b.fneg(b.fadd(even[1], odd[1]))
        second = b.fsub(even[0], odd[0]), b.fsub(even[1], odd[1])
        self._write(first, planes, k)
        self._write(self._reversed(second), planes, other)

    def _spectrum(self, spectrum: Value, at: Value) -> Complex:
        place = self._pair(spectrum, at)
        return load_complex(self.b, self.kind, Form.PAIRS, place, place, self.factors)


class _Whole(_Doubled):
    def _ends(self, spectrum: Value, planes: list[Value]) -> None:
        b = self.b
        factor = self._scalar(self.a.factors)
        b.store(b.fmul(self._scalar(spectrum), factor), planes[0])
        b.store(b.const(self.kind.element, 0.0), planes[1])

    def _pairs(self, spectrum: Value, planes: list[Value], k: Value, other: Value) -> None:
        x = self._spectrum(spectrum, k)
        self._write(x, planes, k)
        self._write(self._reversed((x[0], self.b.fneg(x[1]))), planes, other)
