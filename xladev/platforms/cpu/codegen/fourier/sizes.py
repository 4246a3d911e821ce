"""How much is transformed at once, and the memory that it needs."""

from __future__ import annotations

from math import prod

from xladev.hlo.dtype import C128, F64
from xladev.hlo.ir import HloInstruction
from xladev.platforms.cpu.codegen.fourier.large import Halves, halves_of
from xladev.platforms.cpu.codegen.fourier.lines import (
    CONVOLVED,
    LINE_NBYTES,
    MOST_WIDTH,
    places_nbytes,
)
from xladev.platforms.cpu.codegen.fourier.plan import convolution_length, is_direct

ROWS_NBYTES = 16 << 10
"""Rows are transformed together up to so many bytes: calls cost nothing then."""
COLUMNS_NBYTES = 128 << 10
"""Bytes of columns that are transformed together: two buffers of them stay in the second cache."""
MOST_COLUMNS = 32
LEAST_COLUMNS = 16


def real_nbytes(root: HloInstruction) -> int:
    """Bytes of a real number."""
    return 8 if root.shape.element_type in (C128, F64) else 4


def row_length(root: HloInstruction) -> int:
    """Complex numbers in a row that is transformed: half the length of even real ones."""
    n: int = root["fft_length"][-1]
    return n // 2 if is_real(root) and n % 2 == 0 else n


def is_real(root: HloInstruction) -> bool:
    """True if the signal is real."""
    return root["fft_type"] in ("RFFT", "IRFFT")


def _held(n: int) -> int:
    """Numbers that buffers hold for n."""
    return n if is_direct(n) else convolution_length(n)


def rows_at_once(root: HloInstruction) -> int:
    """How many rows are transformed by the same calls."""
    return max(1, ROWS_NBYTES // (2 * _held(row_length(root)) * real_nbytes(root)))


def columns_at_once(root: HloInstruction, axis: int) -> tuple[int, int]:
    """How many columns a block has, and how many more the last one has."""
    dims = spectrum_dims(root)
    columns = prod(dims[axis + 1 :])
    wide = COLUMNS_NBYTES // (2 * max(_held(dims[axis]), 1) * real_nbytes(root))
    block = max(1, min(columns, max(LEAST_COLUMNS, min(MOST_COLUMNS, wide, MOST_WIDTH))))
    return block, columns % block


def spectrum_dims(root: HloInstruction) -> tuple[int, ...]:
    """Of the complex side; of that without a real one, too."""
    shape = root.operands[0].shape if root["fft_type"] == "IRFFT" else root.shape
    return shape.dims


def transformed_axes(root: HloInstruction) -> range:
    """The dimensions but the last, from the last up."""
    rank = len(root.shape.dims)
    return range(rank - 2, rank - 1 - len(root["fft_length"]), -1)


def halves(root: HloInstruction) -> Halves | None:
    """How long rows are divided; None for others, and for real ones of odd length."""
    is_odd = is_real(root) and root["fft_length"][-1] % 2
    return None if is_odd else halves_of(row_length(root))


def buffers_of(root: HloInstruction) -> tuple[int, int]:
    """How many buffers a thread has, and how many numbers each holds."""
    dims = spectrum_dims(root)
    lengths, divided = [row_length(root)], halves(root)
    numbers = [_held(lengths[0]) * rows_at_once(root) if divided is None else divided.numbers]
    for axis in transformed_axes(root):
        lengths.append(dims[axis])
        numbers.append(_held(dims[axis]) * sum(columns_at_once(root, axis)))
    convolved = not all(map(is_direct, lengths))
    return (CONVOLVED + 2 if convolved else CONVOLVED), max(numbers)


def private_nbytes(root: HloInstruction) -> int:
    """Bytes that each thread has."""
    return places_nbytes(*buffers_of(root), real_nbytes(root))


def between_nbytes(root: HloInstruction) -> int:
    """Bytes of the spectrum between dimensions, where no result can hold it."""
    is_kept = root["fft_type"] == "IRFFT" and len(root["fft_length"]) > 1
    return root.operands[0].shape.nbytes if is_kept else 0


def shared_nbytes(root: HloInstruction) -> int:
    """Bytes that all threads have: between dimensions, and between parts of long rows."""
    if halves(root) is None:
        return between_nbytes(root)
    planes = places_nbytes(1 + is_real(root), kept_numbers(root), real_nbytes(root))
    return planes_offset(root) + planes


def planes_offset(root: HloInstruction) -> int:
    """Where what lies between parts of long rows begins, in what all threads have."""
    return -(-between_nbytes(root) // LINE_NBYTES) * LINE_NBYTES


def kept_numbers(root: HloInstruction) -> int:
    """Complex numbers of all rows."""
    return prod(root.shape.dims[:-1]) * row_length(root)
