"""NativeBlock: a Buffer whose memory is behind the object itself; native code makes and frees it.

Its type is made in C (xladev-calls, `src/blocks.c`), since native code must be what frees it. A
free block goes back to the pool with its memory, so that the next launch finds both in three loads.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np

from xladev.runtime.buffer import Buffer
from xladev.runtime.buffers.native_accounting import GENERATION
from xladev.runtime.host_executor import HostMemory
from xladev.runtime.memory import DeviceMemory

if TYPE_CHECKING:
    from xladev.platforms.cpu.block_pool import BlockPool
    from xladev.runtime.buffers.native_accounting import NativeAccounting


class NativeBlock(Buffer):
    """What blocks are to Python; only the type that native code makes has the fields.

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


def keep_forever(*values: object) -> None:
    """Never frees some objects, since the interpreter or native code refers to them unseen.

    A list of a module would let go of them when the interpreter ends, and objects that outlive the
    module would be freed by what is gone.
    """
    for value in values:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))
