"""Blocks that nobody uses, kept for the next launch: one pool for each device."""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from xladev.platforms.cpu.free_memory import most_kept_nbytes
from xladev.runtime.buffers.native_accounting import Account
from xladev.runtime.executor import Executor
from xladev.runtime.fast_call import FastCallSpec

KEPT_NBYTES = 1 << 27
"""Most bytes that a pool keeps, unless a program has larger results; when more become free, it lets
go of all it has."""

Flush = Callable[[int], None]


class _Pool(ctypes.Structure):
    _fields_ = [("account", ctypes.c_void_p), ("kept_nbytes", ctypes.c_int64),
                ("limit_nbytes", ctypes.c_int64), ("first_bucket", ctypes.c_void_p)]  # fmt: skip


class _Bucket(ctypes.Structure):
    _fields_ = [("first_free", ctypes.c_void_p), ("nbytes", ctypes.c_int64),
                ("next_bucket", ctypes.c_void_p), ("pool", ctypes.c_void_p)]  # fmt: skip


class BlockPool:
    """Free blocks by size. Every block in use keeps it alive, through its accounting.

    Attributes:
        executor: whose memory blocks are.
        account: where native code counts them.

    Args:
        executor: see above.
        account: see above.
        flush: native code that frees all that the pool at an address keeps.
    """

    def __init__(self, executor: Executor, account: Account, flush: Flush) -> None:
        self.executor = executor
        self.account = account
        self._lock = threading.Lock()
        self._record = _Pool(account.address, 0, KEPT_NBYTES, None)
        self._buckets: dict[int, _Bucket] = {}
        self._flush = flush
        finalizer = weakref.finalize(self, _flush_record, flush, self._record, self._buckets)
        finalizer.atexit = False

    @property
    def kept_nbytes(self) -> int:
        """Bytes of all free blocks."""
        kept: int = self._record.kept_nbytes
        return kept

    def bucket(self, nbytes: int) -> int:
        """Address of the record of all blocks of one size, which lasts as long as the pool."""
        with self._lock:
            found = self._buckets.get(nbytes)
            if found is None:
                first = self._record.first_bucket
                found = _Bucket(None, nbytes, first, ctypes.addressof(self._record))
                self._buckets[nbytes] = found
                self._record.first_bucket = ctypes.addressof(found)
            return ctypes.addressof(found)

    def make_room(self, nbytes: int) -> None:
        """Keeps at least so many bytes: those of a program's results, of which each call frees as
        many. A closed pool keeps none; no pool keeps more than a part of the machine's memory."""
        with self._lock:
            limit = self._record.limit_nbytes
            if limit >= 0:
                self._record.limit_nbytes = max(limit, min(nbytes, most_kept_nbytes()))

    def clear(self) -> None:
        """Frees all that is kept."""
        self._flush(ctypes.addressof(self._record))

    def close(self) -> None:
        """Frees all that is kept, and from now on whatever becomes free."""
        self._record.limit_nbytes = -1
        self.clear()


@dataclass(slots=True, eq=False)
class BlockHome:
    """What blocks of one program need for as long as they are in use: the `owner` of their
    `NativeAccounting`.

    Attributes:
        pool: where they go.
        spec: shapes and dtypes of what they hold.
        records: memory that native code refers to.
    """

    pool: BlockPool
    spec: FastCallSpec
    records: tuple[Any, ...] = ()


def _flush_record(flush: Flush, record: _Pool, buckets: dict[int, _Bucket]) -> None:
    """Frees what a pool kept that is gone itself; its records must last until then."""
    flush(ctypes.addressof(record))
    buckets.clear()
