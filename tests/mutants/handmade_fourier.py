"""Mutants written by hand of the CPU's transforms: roots, conjugates, strides, scales."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.differential.planted import function
from tests.mutants.wrong import Plant, WrongBackend, compiled_anew
from xladev.platforms.cpu.codegen.fourier import description, kernel, lines, real, roots


def _turned_back(radix: int, count: int, nbytes: int) -> bytes:
    """Roots of the opposite sign."""
    table = np.frombuffer(roots.step_table(radix, count, nbytes), f"<f{nbytes}").reshape(-1, 2)
    return bytes((table * [1, -1]).astype(table.dtype).tobytes())


def _one_further(radix: int, count: int, nbytes: int) -> bytes:
    """Roots of the next element."""
    table = np.frombuffer(roots.lane_table(radix, count, nbytes), f"<f{nbytes}")
    return np.roll(table.reshape(radix - 1, 2, count), 1, -1).tobytes()


def _linear_chirp(n: int, nbytes: int, *, in_pairs: bool) -> bytes:
    parts = roots.roots(np.arange(n), 2 * n, nbytes)
    return roots.pairs(*parts) if in_pairs else np.stack(parts).tobytes()


def _not_conjugated(self: Any, first: bool, last: bool) -> Any:
    factor = self.t.factor if last else 1.0
    return (1.0, 1.0, factor, factor)


def _of_the_last_length(self: Any) -> float:
    is_forward = self.kind in ("FFT", "RFFT")
    return float(self.scale if is_forward else self.scale / self.length)


def _without_rest(t: Any, axis: int) -> tuple[int, int]:
    block, _ = _columns_at_once(t, axis)
    return block, 0


def _of_neighbours(self: Any, n: int, done: int, *rest: Any) -> None:
    """The second pass takes its columns for half as wide."""
    _row_pass(self, n, max(done // 2, 1) if n == done * rest[0] else done, *rest)


def _left_as_they_are(self: Any, *_: Any) -> None:
    """What is behind the columns of a convolution stays what the workspace had."""


_columns_at_once, _row_pass = kernel.columns_at_once, lines.Lines._row_pass


def _wrong(name: str, plant: Plant) -> WrongBackend:
    return WrongBackend(name, "cpu", plant, ("fft",))


MUTANTS = (
    _wrong("roots of a transform turn the other way", function(lines, "step_table", _turned_back)),
    _wrong("roots of a transform are those of neighbours",
           function(lines, "lane_table", _one_further)),
    _wrong("the chirp of a convolution is linear", function(lines, "chirp", _linear_chirp)),
    _wrong("a transform backwards is one forwards",
           function(kernel._Transform, "_outer_factors", _not_conjugated)),
    _wrong("a transform backwards is divided by its last length",
           function(description.Fourier, "factor", property(_of_the_last_length))),
    _wrong("columns that fill no block are left out",
           function(kernel, "columns_at_once", _without_rest)),
    _wrong("a pass takes the strides of the one before",
           function(lines.Lines, "_row_pass", _of_neighbours)),
    _wrong("the padding of a convolution is stale workspace",
           function(lines.Lines, "_cleared", _left_as_they_are)),
    _wrong("real spectra are not reversed",
           compiled_anew(function(real, "reverse", lambda b, x: x))),
    _wrong("imaginary parts of real spectra keep their sign",
           compiled_anew(function(real, "times", lambda b, x, w: x))),
)  # fmt: skip
