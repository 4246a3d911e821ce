"""How much is transformed at once, and the memory that it needs."""

from __future__ import annotations

from math import prod

from xladev.platforms.cpu.codegen.fourier.description import Fourier, held
from xladev.platforms.cpu.codegen.fourier.lines import (
    CONVOLVED,
    LINE_NBYTES,
    MOST_WIDTH,
    places_nbytes,
)
from xladev.platforms.cpu.codegen.fourier.plan import is_direct

ROWS_NBYTES = 16 << 10
"""Rows are transformed together up to so many bytes: calls cost nothing then."""
COLUMNS_NBYTES = 128 << 10
"""Bytes of columns that are transformed together: two buffers of them stay in the second cache."""
MOST_COLUMNS = 32
LEAST_COLUMNS = 16


def rows_at_once(t: Fourier) -> int:
    """How many rows are transformed by the same calls."""
    return max(1, ROWS_NBYTES // (2 * held(t.row_length) * t.nbytes))


def columns_at_once(t: Fourier, axis: int) -> tuple[int, int]:
    """How many columns a block has, and how many more the last one has."""
    columns = prod(t.dims[axis + 1 :])
    wide = COLUMNS_NBYTES // (2 * held(t.dims[axis]) * t.nbytes)
    block = max(1, min(columns, max(LEAST_COLUMNS, min(MOST_COLUMNS, wide, MOST_WIDTH))))
    return block, columns % block


def buffers_of(t: Fourier) -> tuple[int, int]:
    """How many buffers a thread has, and how many numbers each holds."""
    lengths, numbers, divided = [t.dims[axis] for axis in t.column_axes], [1], t.row_halves
    numbers += [held(t.dims[axis]) * sum(columns_at_once(t, axis)) for axis in t.column_axes]
    if t.has_rows:
        lengths.append(t.row_length)
        whole = held(t.row_length) * rows_at_once(t)
        numbers.append(whole if divided is None else divided.numbers)
    convolved = not all(map(is_direct, lengths))
    return (CONVOLVED + 2 if convolved else CONVOLVED), max(numbers)


def private_nbytes(t: Fourier) -> int:
    """Bytes that each thread has."""
    return places_nbytes(*buffers_of(t), t.nbytes)


def shared_nbytes(t: Fourier) -> int:
    """Bytes that all threads have: between dimensions, and between parts of long rows."""
    if t.row_halves is None:
        return _between_nbytes(t)
    return planes_offset(t) + places_nbytes(1 + t.is_real, kept_numbers(t), t.nbytes)


def _between_nbytes(t: Fourier) -> int:
    """Bytes of the spectrum between dimensions, where no result can hold it."""
    is_kept = t.kind == "IRFFT" and len(t.axes) > 1
    return 2 * t.nbytes * prod(t.dims) if is_kept else 0


def planes_offset(t: Fourier) -> int:
    """Where what lies between parts of long rows begins, in what all threads have."""
    return -(-_between_nbytes(t) // LINE_NBYTES) * LINE_NBYTES


def kept_numbers(t: Fourier) -> int:
    """Complex numbers of all rows."""
    return t.rows * t.row_length
