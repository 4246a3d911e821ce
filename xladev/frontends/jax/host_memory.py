"""NumPy arrays over memory that the shim or its client owns."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.physical import HostArray
from xladev.hlo.shape import Shape


class _Memory:
    """Bytes at an address, for NumPy; keeps their owner alive."""

    def __init__(self, address: int, nbytes: int, owner: object) -> None:
        self.owner = owner
        self.__array_interface__ = {
            "shape": (nbytes,),
            "typestr": "|u1",
            "data": (address, False),
            "version": 3,
        }


def writable_array(address: int, shape: Shape, owner: object) -> HostArray:
    """The row-major array of ``shape`` at an address; it keeps ``owner`` alive."""
    nbytes = shape.size * shape.element_type.host_nbytes
    flat = np.asarray(_Memory(address, nbytes, owner))
    return flat.view(shape.element_type.np).reshape(shape.dims)


def strided_array(
    address: int, primitive: PrimitiveType, dims: Sequence[int], strides: Sequence[int]
) -> HostArray:
    """The array at an address; strides in bytes, also negative ones."""
    dtype: np.dtype[Any] = primitive.np
    if not prod(dims):
        return np.empty(tuple(dims), dtype)
    extents = [stride * (dim - 1) for stride, dim in zip(strides, dims, strict=True)]
    low = sum(min(0, extent) for extent in extents)
    high = sum(max(0, extent) for extent in extents) + dtype.itemsize
    memory: Any = (ctypes.c_uint8 * (high - low)).from_address(address + low)
    return np.ndarray(tuple(dims), dtype, memory, -low, tuple(strides))
