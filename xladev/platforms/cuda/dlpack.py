"""DLPack both ways, without copies: capsules over device memory, and memory out of capsules.

The structures are those of DLPack 0.8 (dlpack.h), which every consumer takes.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

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
_Destructor = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

_api = ctypes.pythonapi
_new = _api.PyCapsule_New
_new.restype, _new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, _Destructor)
_is_valid = _api.PyCapsule_IsValid
_is_valid.restype, _is_valid.argtypes = ctypes.c_int, (ctypes.c_void_p, ctypes.c_char_p)
_pointer = _api.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, (ctypes.c_void_p, ctypes.c_char_p)
_rename = _api.PyCapsule_SetName
_rename.restype, _rename.argtypes = ctypes.c_int, (ctypes.py_object, ctypes.c_char_p)

_exported: dict[int, object] = {}
"""What exported tensors keep alive, by number, until their consumer gives them back."""
_numbers = itertools.count(1)


def _delete(managed: ctypes._Pointer[_Managed]) -> None:
    _exported.pop(managed.contents.context or 0, None)


def _destroy(capsule: int) -> None:
    """Gives back a tensor that nobody took."""
    if _is_valid(capsule, _FRESH):
        managed = ctypes.cast(_pointer(capsule, _FRESH), ctypes.POINTER(_Managed))
        managed.contents.deleter(managed)


_DELETE = _Deleter(_delete)
_DESTROY = _Destructor(_destroy)


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
    dims = (ctypes.c_int64 * max(shape.rank, 1))(*shape.dims)
    number = next(_numbers)
    tensor = _Tensor(address, *device, shape.rank, *code, 1, dims, None, 0)
    managed = _Managed(tensor, number, _DELETE)
    _exported[number] = (managed, dims, owner)
    return _new(ctypes.addressof(managed), _FRESH, _DESTROY)


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
    managed = ctypes.cast(_pointer(place, _FRESH), ctypes.POINTER(_Managed))
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
