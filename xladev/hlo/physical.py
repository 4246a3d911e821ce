"""How an array is laid out in memory under its layout: size in bytes, packing and unpacking.

A layout orders dimensions, may cut them into padded tiles (XLA's "Tiled layout") and may pack
elements of fewer than 8 bits, the first one in the low bits of a byte.
"""

from __future__ import annotations

from functools import lru_cache
from math import ceil, prod
from typing import Any

import numpy as np
import numpy.typing as npt

from xladev.errors import LiteralError, UnsupportedError
from xladev.hlo.shape import COMBINE_DIMENSION, Shape

HostArray = npt.NDArray[Any]
Bytes = npt.NDArray[np.uint8]


@lru_cache(maxsize=4096)
def physical_nbytes(shape: Shape) -> int:
    """Bytes that one array takes under its layout, padding included; 0 for tokens.

    Raises:
        UnsupportedError: a layout without a dense form.
    """
    if not shape.is_array:
        return 0
    count = prod(dims_by_tile(shape)[-1])
    return ceil(count * packed_bits(shape) / 8)


@lru_cache(maxsize=4096)
def is_plain(shape: Shape) -> bool:
    """True if memory holds exactly the C-order host array: row-major, no tiles, no packing."""
    layout = shape.layout
    return layout is None or (
        layout.minor_to_major == tuple(range(shape.rank - 1, -1, -1))
        and not layout.tiles
        and not is_packed(shape)
    )


def pack(array: HostArray, shape: Shape) -> Bytes:
    """The bytes of ``array`` under the layout of ``shape``; a view of it where that is plain.

    Args:
        array: of the shape's dims and NumPy dtype, any strides.
        shape: array shape; dynamic dimensions at their bounds.

    Raises:
        LiteralError: dims or dtype differ.
        UnsupportedError: a layout without a dense form.
    """
    _check(array, shape)
    laid = array.transpose(major_to_minor(shape))
    for tile in tiles_of(shape):
        laid = _tile(laid, tile)
    flat = np.ascontiguousarray(laid).reshape(-1).view(np.uint8)
    return _pack_bits(flat, packed_bits(shape)) if is_packed(shape) else flat


def unpack(data: Bytes, shape: Shape) -> HostArray:
    """The array whose `pack` is ``data``; a view of it where the layout is plain.

    Args:
        data: at least `physical_nbytes(shape)` contiguous bytes.
        shape: array shape; dynamic dimensions at their bounds.
    """
    data = data[: physical_nbytes(shape)]
    if is_plain(shape):
        return data.view(shape.element_type.np).reshape(shape.dims)
    counts = dims_by_tile(shape)
    if is_packed(shape):
        data = _unpack_bits(data, packed_bits(shape), prod(counts[-1]))
    laid: HostArray = data.view(shape.element_type.np).reshape(counts[-1])
    for tile, dims in zip(reversed(tiles_of(shape)), reversed(counts[:-1]), strict=True):
        laid = _untile(laid, tile, dims)
    order = major_to_minor(shape)
    return laid.transpose([order.index(i) for i in range(shape.rank)])


def _check(array: HostArray, shape: Shape) -> None:
    if array.shape != shape.dims or array.dtype != shape.element_type.np:
        raise LiteralError(f"{array.dtype}{list(array.shape)} does not fit shape {shape}")


def major_to_minor(shape: Shape) -> tuple[int, ...]:
    """The dimensions in the order of memory, the slowest first."""
    return shape.minor_to_major[::-1]


def tiles_of(shape: Shape) -> tuple[tuple[int, ...], ...]:
    """The layout's tiles, in elements, each cutting what the ones before left.

    Raises:
        UnsupportedError: a layout without a dense form.
    """
    layout = shape.layout
    if layout is None:
        return ()
    sparse = any(level != "D" for level in layout.dim_level_types)
    if sparse or layout.split_configs or layout.physical_shape or layout.metadata_prefix_bytes:
        raise UnsupportedError(f"layout {layout} has no dense form", where=f"shape {shape}")
    tiles = tuple(tile.dims for tile in layout.tiles)
    if any(d == COMBINE_DIMENSION or d < 1 for tile in tiles for d in tile):
        raise UnsupportedError(
            f"layout {layout} combines dimensions in a tile", where=f"shape {shape}"
        )
    return tiles


def dims_by_tile(shape: Shape) -> list[tuple[int, ...]]:
    """Physical dimensions, major first, before and after each tile."""
    dims = tuple(shape.dims[i] for i in major_to_minor(shape))
    result = [dims]
    for tile in tiles_of(shape):
        dims = _dims_after(dims, tile)
        result.append(dims)
    return result


def _dims_after(dims: tuple[int, ...], tile: tuple[int, ...]) -> tuple[int, ...]:
    rank = max(len(dims), len(tile))
    dims = (1,) * (rank - len(dims)) + dims
    outer, inner = dims[: rank - len(tile)], dims[rank - len(tile) :]
    return (*outer, *(ceil(d / t) for d, t in zip(inner, tile, strict=True)), *tile)


def _tile(array: HostArray, tile: tuple[int, ...]) -> HostArray:
    """Cuts the last dimensions into tiles, padding with zeros."""
    array = array.reshape((1,) * (len(tile) - array.ndim) + array.shape)
    first = array.ndim - len(tile)
    inner = array.shape[first:]
    padding = [(0, 0)] * first + [(0, -d % t) for d, t in zip(inner, tile, strict=True)]
    padded = np.pad(array, padding) if any(map(any, padding)) else array
    split = [n for d, t in zip(padded.shape[first:], tile, strict=True) for n in (d // t, t)]
    return padded.reshape(array.shape[:first] + tuple(split)).transpose(
        split_order(first, len(tile))
    )


def _untile(array: HostArray, tile: tuple[int, ...], dims: tuple[int, ...]) -> HostArray:
    """The array of ``dims`` that `_tile` cut."""
    first = array.ndim - 2 * len(tile)
    order = split_order(first, len(tile))
    merged = array.transpose([order.index(i) for i in range(array.ndim)])
    counts = array.shape[first : first + len(tile)]
    whole = merged.reshape(array.shape[:first] + _times(counts, tile))
    padded_dims = (1,) * (whole.ndim - len(dims)) + dims
    return whole[tuple(slice(d) for d in padded_dims)].reshape(dims)


def split_order(first: int, rank: int) -> list[int]:
    """Of dimensions each cut into count and size: the first ones whole, then counts, then sizes."""
    ends = range(first, first + 2 * rank)
    return [*range(first), *ends[0::2], *ends[1::2]]


def _times(counts: tuple[int, ...], tile: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(n * t for n, t in zip(counts, tile, strict=True))


def packed_bits(shape: Shape) -> int:
    """Bits of one element in memory."""
    if not is_packed(shape):
        return shape.element_type.host_nbytes * 8
    bits = shape.layout.element_bits if shape.layout else 0
    if bits not in (1, 2, 4):
        raise UnsupportedError(f"{shape} packs {bits} bits per element", why="1, 2 and 4 exist")
    return bits


def is_packed(shape: Shape) -> bool:
    """True if the layout gives an element fewer bits than it has on the host."""
    bits = shape.layout.element_bits if shape.layout else 0
    return 0 < bits < 8 and bits < shape.element_type.host_nbytes * 8


def _pack_bits(flat: Bytes, bits: int) -> Bytes:
    per_byte = 8 // bits
    padded = np.pad(flat, (0, -flat.size % per_byte)).reshape(-1, per_byte)
    masked = padded & np.uint8((1 << bits) - 1)
    packed = np.zeros(len(padded), np.uint8)
    for i in range(per_byte):
        packed |= masked[:, i] << np.uint8(i * bits)
    return packed


def _unpack_bits(packed: Bytes, bits: int, count: int) -> Bytes:
    """One byte per element; signed types of `ml_dtypes` ignore the high bits."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    mask = np.uint8((1 << bits) - 1)
    return ((packed[:, None] >> shifts) & mask).reshape(-1)[:count]
