"""The kernel of an fft: its dimensions one after the other, as rows and columns."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from xladev.codegen.index import IndexValue
from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.llvm import I64, Value
from xladev.hlo.dtype import C128, F32, F64
from xladev.hlo.ir import HloInstruction
from xladev.platforms.cpu.codegen.build import KernelBuild
from xladev.platforms.cpu.codegen.fourier.kinds import FourierKind
from xladev.platforms.cpu.codegen.fourier.lines import Lines, Place, places, places_nbytes
from xladev.platforms.cpu.codegen.fourier.places import Form
from xladev.platforms.cpu.codegen.fourier.plan import is_direct, row_radices
from xladev.platforms.cpu.codegen.tactics import DEFAULT, Tactic

ROWS_NBYTES = 16 << 10
"""Rows are transformed together up to so many bytes: calls cost nothing then."""
COLUMNS_NBYTES = 128 << 10
"""Bytes of columns that are transformed together: two buffers of them stay in the second cache."""
MOST_COLUMNS = 32
LEAST_COLUMNS = 16
SHORT_ROWS = 4096
"""Numbers in short rows that one thread takes at once."""


def has_transform(i: HloInstruction) -> bool:
    """True if the kernel computes an fft."""
    return i["fft_type"] in ("FFT", "IFFT") and all(map(is_direct, i["fft_length"]))


def fourier_workspace_nbytes(spec: KernelSpec, tactic: Tactic = DEFAULT) -> int:
    """Two buffers for what is transformed at once."""
    del tactic
    root = spec.computation.root
    return places_nbytes(_buffered(root), _nbytes(root)) if root.shape.size else 0


def _nbytes(root: HloInstruction) -> int:
    return 8 if root.shape.element_type in (C128, F64) else 4


def _buffered(root: HloInstruction) -> int:
    """Most numbers that are transformed at once."""
    dims, nbytes = root.shape.dims, _nbytes(root)
    most = 0
    for axis in range(len(dims) - len(root["fft_length"]), len(dims)):
        n = dims[axis]
        if axis == len(dims) - 1:
            most = max(most, n * _rows_at_once(n, nbytes))
        else:
            block = _columns_at_once(n, prod(dims[axis + 1 :]), nbytes)
            most = max(most, n * (block[0] + block[1]))
    return most


def _rows_at_once(n: int, nbytes: int) -> int:
    return max(1, ROWS_NBYTES // (2 * n * nbytes))


def _columns_at_once(n: int, columns: int, nbytes: int) -> tuple[int, int]:
    """How many columns a block has, and how many more the last one has."""
    wide = COLUMNS_NBYTES // (2 * n * nbytes)
    block = min(columns, max(LEAST_COLUMNS, min(MOST_COLUMNS, wide)))
    return block, columns % block


def emit_fourier(k: KernelBuild) -> None:
    """Writes the kernel: rows first, then columns in place, from the last dimension up."""
    if k.root.shape.size:
        _Kernel.of(k).emit()


@dataclass(frozen=True, slots=True)
class _Kernel:
    k: KernelBuild
    source: Value
    result: Value
    nbytes: int
    inverse: bool

    @staticmethod
    def of(k: KernelBuild) -> _Kernel:
        (x,) = k.root.operands
        source = k.e.arrays[x][0].base
        nbytes = _nbytes(k.root)
        return _Kernel(k, source, k.results[0].base, nbytes, k.root["fft_type"] == "IFFT")

    def emit(self) -> None:
        dims = self.k.root.shape.dims
        rank = len(self.k.root["fft_length"])
        axes = list(range(len(dims) - 1, len(dims) - rank - 1, -1))
        for number, axis in enumerate(axes):
            factors = self._factors(number == 0, number == rank - 1)
            if number == 0:
                self._rows(dims[axis], prod(dims[:axis]), factors)
            else:
                self._columns(prod(dims[:axis]), dims[axis], prod(dims[axis + 1 :]), factors)

    def _factors(self, first: bool, last: bool) -> bytes:
        """The first pass takes the conjugate of a transform backwards, the last one scales it."""
        sign = -1.0 if self.inverse else 1.0
        scale = 1 / prod(self.k.root["fft_length"]) if self.inverse and last else 1.0
        parts = (1.0, sign if first else 1.0, scale, scale * (sign if last else 1.0))
        return np.array(parts, f"<f{self.nbytes}").tobytes()

    def _lines(self) -> Lines:
        widest = FourierKind.of(
            self.k.b.module.target, F64 if self.nbytes == 8 else F32, 1 << 20
        )
        buffers = places(self.k.b, self.k.scratch, _buffered(self.k.root), self.nbytes)
        return Lines(self.k.b, widest, buffers)

    def _address(self, factors: bytes) -> Value:
        return self.k.b.module.constant_bytes(f"xladev.factors.{factors.hex()}", factors)

    def _rows(self, n: int, rows: int, factors: bytes) -> None:
        source, result = Place(Form.PAIRS, self.source), Place(Form.PAIRS, self.result)
        if n == 1:
            self._copy(rows, source, result, factors)
        elif len(row_radices(n)) == 1 and rows > 1:
            self._short(n, rows, source, result, factors)
        else:
            self._long(n, rows, source, result, factors)

    def _copy(self, size: int, source: Place, result: Place, factors: bytes) -> None:
        self._lines().columns(1, size, size, source, result, (size, size), self._address(factors))

    def _short(self, n: int, rows: int, source: Place, result: Place, factors: bytes) -> None:
        k = self.k
        block = min(rows, max(64, SHORT_ROWS // n))
        rest = rows % block

        def part(begin: IndexValue, end: IndexValue) -> None:
            lines = self._lines()
            with k.b.loop(k.e.at.value(begin), k.e.at.value(end)) as unit, k.e.scope():
                here = k.e.at.mul(unit, block * n)
                lines.short(n, lines.at(source, here), lines.at(result, here),
                            self._extent(unit, rows // block, block, rest), block,
                            self._address(factors))  # fmt: skip

        k.split(rows // block, part, private_nbytes=self._private)

    def _long(self, n: int, rows: int, source: Place, result: Place, factors: bytes) -> None:
        k = self.k
        block = min(rows, _rows_at_once(n, self.nbytes))

        def part(begin: IndexValue, end: IndexValue) -> None:
            lines = self._lines()
            with k.b.loop(k.e.at.value(begin), k.e.at.value(end)) as unit, k.e.scope():
                row = k.e.at.mul(unit, block)
                here = k.e.at.mul(row, n)
                count = k.b.intrinsic("smin", k.b.sub(rows, k.e.at.value(row)), block)
                lines.rows(n, lines.at(source, here), lines.at(result, here), (n, n), count,
                           self._address(factors))  # fmt: skip

        k.split(-(-rows // block), part, private_nbytes=self._private)

    def _columns(self, outer: int, n: int, inner: int, factors: bytes) -> None:
        """In place: a block of columns is in the buffers before any of it is written."""
        if n == 1 and factors == self._factors(False, False):
            return
        k = self.k
        block, rest = _columns_at_once(n, inner, self.nbytes)
        blocks = inner // block
        place = Place(Form.PAIRS, self.result)

        def part(begin: IndexValue, end: IndexValue) -> None:
            lines = self._lines()
            with k.b.loop(k.e.at.value(begin), k.e.at.value(end)) as unit, k.e.scope():
                one, number = k.e.at.delinear(unit, (outer, blocks))
                at = k.e.at.add(k.e.at.mul(one, n * inner), k.e.at.mul(number, block))
                here = lines.at(place, at)
                width = self._extent(number, blocks, block, rest)
                lines.columns(n, width, block, here, here, (inner, inner), self._address(factors),
                              is_in_place=True)  # fmt: skip

        k.split(outer * blocks, part, private_nbytes=self._private)

    @property
    def _private(self) -> int:
        return fourier_workspace_nbytes(self.k.spec)

    def _extent(self, number: IndexValue, count: int, block: int, rest: int) -> IndexValue:
        """Of a block: the last one has the rest too."""
        if not rest:
            return block
        if isinstance(number, int):
            return block + rest if number == count - 1 else block
        b = self.k.b
        is_last = b.resize(b.icmp("eq", number, count - 1), I64, signed=False)
        return b.add(block, b.mul(is_last, rest))

