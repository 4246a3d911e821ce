"""Views of elements as bits: reinterpreting and packing."""

from __future__ import annotations

import numpy as np

from xladev.hlo import dtype as dt
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.literal import Array


def bitcast_elements(array: Array, target: PrimitiveType) -> Array:
    """The same bits as ``target``.

    A narrower target adds a minor dimension, lowest bits first; a wider one takes it away.
    """
    source = dt.by_numpy(array.dtype)
    if source.bits == target.bits:
        return np.ascontiguousarray(array).reshape(array.shape).view(target.np)
    bits = _to_bits(array, source.bits)
    if source.bits > target.bits:
        dims = (*array.shape, source.bits // target.bits)
    else:
        dims = array.shape[:-1]
    return _from_bits(bits.reshape(*dims, target.bits), target)


def _to_bits(array: Array, width: int) -> Array:
    """One byte per bit in a new last dimension, lowest bit first."""
    flat = np.ascontiguousarray(array).reshape(*array.shape, 1).view(np.uint8)
    return np.unpackbits(flat, axis=-1, bitorder="little")[..., :width]


def _from_bits(bits: Array, target: PrimitiveType) -> Array:
    """Inverse of ``_to_bits``: the last dimension holds one element's bits."""
    packed = np.packbits(bits, axis=-1, bitorder="little")
    if target.is_signed and target.bits < 8:
        return packed[..., 0].view(np.int8).astype(target.np)
    return np.ascontiguousarray(packed).view(target.np)[..., 0]
