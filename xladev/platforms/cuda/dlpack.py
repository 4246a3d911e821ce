"""DLPack both ways, without copies: capsules over device memory, and memory out of capsules.

The structures are those of DLPack 0.8 (dlpack.h), which every consumer takes. Capsules that go out
are NumPy's, with the device written over: what frees them must be native code, since it runs
wherever an exception may be on its way.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from xladev.hlo import dtype as dt
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.shape import Shape, array

CUDA = 2
"""kDLCUDA."""
_FRESH, _USED = b"dltensor", b"used_dltensor"
_INT, _UINT, _FLOAT, _BFLOAT, _COMPLEX, _BOOL = 0, 1, 2, 4, 5, 6

_CODES: Mapping[PrimitiveType, tuple[int, int]] = MappingProxyType(
    {
        dt.PRED: (_BOOL, 8), dt.BF16: (_BFLOAT, 16),
        dt.F16: (_FLOAT, 16), dt.F32: (_FLOAT, 32), dt.F64: (_FLOAT, 64),
        dt.C64: (_COMPLEX, 64), dt.C128: (_COMPLEX, 128),
        dt.S8: (_INT, 8), dt.S16: (_INT, 16), dt.S32: (_INT, 32), dt.S64: (_INT, 64),
        dt.U8: (_UINT, 8), dt.U16: (_UINT, 16), dt.U32: (_UINT, 32), dt.U64: (_UINT, 64),
    }
)  # fmt: skip
_TYPES = {code: dtype for dtype, code in _CODES.items()}


class _Tensor(ctypes.Structure):
    """DLTensor."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("dims", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Managed(ctypes.Structure):
    """DLManagedTensor."""


_Deleter = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Managed))
_Managed._fields_ = (
    ("tensor", _Tensor),
    ("context", ctypes.c_void_p),
    ("deleter", _Deleter),
)

# Functions of their own: those of `ctypes.pythonapi` are shared with whoever says other types.
_api = ctypes.pythonapi
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_IsValid", _api)
)
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", _api)
)
_rename = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_SetName", _api)
)


class _Memory:
    """Memory of an array, for NumPy, which never looks into it; its arrays keep the owner."""

    __slots__ = ("__array_interface__", "owner")

    def __init__(self, address: int, shape: Shape, owner: object) -> None:
        dtype = np.dtype(np.uint16) if shape.element_type is dt.BF16 else shape.element_type.np
        self.__array_interface__: dict[str, Any] = {
            "shape": shape.dims, "typestr": dtype.str, "data": (address, False), "version": 3
        }  # fmt: skip
        self.owner = owner


def capsule_of(address: int, shape: Shape, device: tuple[int, int], owner: object) -> object | None:
    """A capsule named ``dltensor`` over row-major memory; None if DLPack has no such dtype.

    Args:
        address: of the first element.
        shape: of the array.
        device: as DLPack numbers it.
        owner: kept alive until the consumer gives the tensor back.
    """
    code = _CODES.get(shape.element_type)
    if code is None:
        return None
    capsule: object = np.asarray(_Memory(address, shape, owner)).__dlpack__()
    tensor = _managed(id(capsule)).contents.tensor
    tensor.data, (tensor.device_type, tensor.device_id) = address, device
    tensor.code, tensor.bits = code
    return capsule


def _managed(capsule: int) -> ctypes._Pointer[_Managed]:
    """The structure in a capsule at an address, which nobody has taken yet."""
    return ctypes.cast(_pointer(capsule, _FRESH), ctypes.POINTER(_Managed))


@dataclass(frozen=True, slots=True)
class Borrowed:
    """A tensor that was taken out of a capsule; it goes back by `give_back`.

    Attributes:
        address: of its first element.
        shape: of the array.
        managed: the producer's structure.
    """

    address: int
    shape: Shape
    managed: ctypes._Pointer[_Managed]

    def give_back(self) -> None:
        """Calls the producer's deleter; once."""
        if self.managed.contents.deleter:
            self.managed.contents.deleter(self.managed)


def taken_from(capsule: object) -> Borrowed | None:
    """The tensor in a capsule; None, and the capsule stays as it is, if it must be copied.

    Dense row-major tensors of the dtypes that DLPack and HLO share are taken.
    """
    place = id(capsule)
    if not _is_valid(place, _FRESH):
        return None
    managed = _managed(place)
    tensor = managed.contents.tensor
    dtype = _TYPES.get((tensor.code, tensor.bits))
    dims = tuple(tensor.dims[: tensor.rank]) if tensor.rank else ()
    if dtype is None or tensor.lanes != 1 or not _is_dense(tensor, dims):
        return None
    _rename(capsule, _USED)
    return Borrowed((tensor.data or 0) + tensor.byte_offset, array(dtype, dims), managed)


def _is_dense(tensor: _Tensor, dims: tuple[int, ...]) -> bool:
    """Whether elements follow one another, the last dimension fastest."""
    if not tensor.strides:
        return True
    step = 1
    for size, stride in zip(reversed(dims), reversed(tensor.strides[: len(dims)]), strict=True):
        if size > 1 and stride != step:
            return False
        step *= size
    return True
