"""NativeBlock: a Buffer whose memory is behind the object itself; native code makes and frees it.

Its type is made through the C API, since native code must be what frees it: the layout is `%Block`
of `fast_call.ll`. A free block goes back to the pool with its memory, so that the next launch finds
both in three loads.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np

from xladev.platforms.cpu.object_layouts import UnknownLayout
from xladev.runtime.buffer import Buffer
from xladev.runtime.buffers.native_accounting import GENERATION
from xladev.runtime.host_executor import HostMemory
from xladev.runtime.memory import DeviceMemory

if TYPE_CHECKING:
    from xladev.platforms.cpu.block_pool import BlockPool
    from xladev.runtime.buffers.native_accounting import NativeAccounting

HEADER_NBYTES = 128
"""Bytes of a block before its memory, which begins at a multiple of 64 like the block."""


class NativeBlock(Buffer):
    """What blocks are to Python; only `block_type` has the fields.

    The DeviceMemory is made when Python asks for it, and goes when the block becomes free.
    """

    __slots__ = ()

    if TYPE_CHECKING:
        _accounting: NativeAccounting
        _kind: int
        _generation: int
        _memory: DeviceMemory | None
        _address: int

    @property
    def memory(self) -> DeviceMemory:
        """See `Buffer.memory`."""
        return self._memory or self._make_memory()

    @property
    def label(self) -> str:
        """See `Buffer.label`."""
        return self._accounting.labels[self._kind]

    @property
    def host_owner(self) -> None:
        """None: it was allocated."""

    @property
    def is_gone(self) -> bool:
        """See `Buffer.is_gone`."""
        return self._generation != self._pool.account.words[GENERATION]

    @property
    def _pool(self) -> BlockPool:
        home: Any = self._accounting.owner
        pool: BlockPool = home.pool
        return pool

    def _make_memory(self) -> DeviceMemory:
        nbytes = self._accounting.sizes[self._kind]
        handle = HostMemory(np.asarray(_Range(self._address, nbytes)))
        memory = DeviceMemory(self._pool.executor, handle, 0, nbytes)
        own: Any = self  # its type has the field, though this class has not
        own._memory = memory
        return memory


class _Range:
    """Bytes at an address, for NumPy; the block keeps them."""

    __slots__ = ("__array_interface__",)

    def __init__(self, address: int, nbytes: int) -> None:
        self.__array_interface__ = {
            "shape": (nbytes,),
            "typestr": "|u1",
            "data": (address, False),
            "version": 3,
        }


class _Member(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("type", ctypes.c_int), ("offset", ctypes.c_ssize_t),
                ("flags", ctypes.c_int), ("doc", ctypes.c_char_p)]  # fmt: skip


class _Slot(ctypes.Structure):
    _fields_ = [("slot", ctypes.c_int), ("function", ctypes.c_void_p)]


class _Spec(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("basicsize", ctypes.c_int), ("itemsize", ctypes.c_int),
                ("flags", ctypes.c_uint), ("slots", ctypes.POINTER(_Slot))]  # fmt: skip


_OBJECT, _INTEGER, _READ_ONLY = 6, 19, 1  # T_OBJECT, T_PYSSIZET, READONLY of structmember.h
_DEALLOC, _TRAVERSE, _MEMBERS = 52, 71, 72  # Py_tp_... of typeslots.h
_COLLECTED = 1 << 14  # Py_TPFLAGS_HAVE_GC
_FLAGS = (1 << 18) | (1 << 7)  # Py_TPFLAGS_DEFAULT, and DISALLOW_INSTANTIATION
_FIELDS = (
    (b"_accounting", _OBJECT, 32, _READ_ONLY),
    (b"_kind", _INTEGER, 40, _READ_ONLY),
    (b"_generation", _INTEGER, 56, _READ_ONLY),
    (b"_memory", _OBJECT, 64, 0),
    (b"_address", _INTEGER, 72, _READ_ONLY),
)
"""Fields of `%Block` that Python reads."""


def block_type(drop: int, traverse: int) -> type[NativeBlock]:
    """The type of blocks; for the life of the process.

    Args:
        drop: address of ``void drop(PyObject *)``, which frees one.
        traverse: address of ``int traverse(PyObject *, visitproc, void *)``, which visits nothing.

    Raises:
        UnknownLayout: blocks would need a header for the collector of garbage.
    """
    members = (_Member * (len(_FIELDS) + 1))(*[_Member(*field, None) for field in _FIELDS])
    members_slot = _Slot(_MEMBERS, ctypes.addressof(members))
    functions = _Slot(_DEALLOC, drop), _Slot(_TRAVERSE, traverse)
    slots = (_Slot * 4)(*functions, members_slot, _Slot(0, None))
    spec = _Spec(b"xladev.platforms.cpu.native_block.NativeBlock", HEADER_NBYTES, 0, _FLAGS, slots)
    make = ctypes.pythonapi.PyType_FromSpecWithBases
    make.restype = ctypes.py_object
    make.argtypes = (ctypes.POINTER(_Spec), ctypes.py_object)
    made: type[NativeBlock] = make(spec, (NativeBlock,))
    keep_forever(members, slots, spec, made)
    if made.__flags__ & _COLLECTED:
        raise UnknownLayout("a type of objects that the collector looks at")
    return made


def keep_forever(*values: object) -> None:
    """Never frees some objects, since the interpreter or native code refers to them unseen.

    A list of a module would let go of them when the interpreter ends, and objects that outlive the
    module would be freed by what is gone.
    """
    for value in values:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))
