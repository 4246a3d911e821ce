"""NCCL by its C interface, for communicators that span processes; CuPy's has no way not to block.

Source: nccl.h of NCCL 2.14 and later. Ranks are made with ``blocking = 0``: calls return while
other processes are waited for, so that nothing hangs when one of them is gone.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import Any

from xladev.instrument import logger
from xladev.platforms.cuda.driver.interface import (
    DriverDevice,
    DriverError,
    DriverStream,
    LibraryError,
)
from xladev.platforms.cuda.driver.ranks import IN_PROGRESS, SUCCESS, UNIQUE_ID_NBYTES

LEAST_VERSION = 21400
"""The first with communicators that do not block: 2.14."""
_MAGIC = 0xCAFEBEEF
_log = logger("runtime")
_END_S = 2.0
"""How long the library may take to end a communicator; then it goes on by itself."""


class UniqueId(ctypes.Structure):
    """ncclUniqueId."""

    _fields_ = (("internal", ctypes.c_char * UNIQUE_ID_NBYTES),)


class Config(ctypes.Structure):
    """ncclConfig_t of 2.14; later versions take what comes behind it from their defaults."""

    _fields_ = (
        ("size", ctypes.c_size_t),
        ("magic", ctypes.c_uint),
        ("version", ctypes.c_uint),
        ("blocking", ctypes.c_int),
    )


_INT, _SIZE, _POINTER = ctypes.c_int, ctypes.c_size_t, ctypes.c_void_p
FUNCTIONS: Mapping[str, tuple[Any, ...]] = MappingProxyType(
    {
        "ncclGetVersion": (ctypes.POINTER(_INT),),
        "ncclGetUniqueId": (ctypes.POINTER(UniqueId),),
        "ncclCommInitRankConfig": (
            ctypes.POINTER(_POINTER), _INT, UniqueId, _INT, ctypes.POINTER(Config),
        ),
        "ncclCommFinalize": (_POINTER,),
        "ncclCommDestroy": (_POINTER,),
        "ncclCommAbort": (_POINTER,),
        "ncclCommGetAsyncError": (_POINTER, ctypes.POINTER(_INT)),
        "ncclGroupStart": (),
        "ncclGroupEnd": (),
        "ncclAllReduce": (_POINTER, _POINTER, _SIZE, _INT, _INT, _POINTER, _POINTER),
        "ncclReduce": (_POINTER, _POINTER, _SIZE, _INT, _INT, _INT, _POINTER, _POINTER),
        "ncclReduceScatter": (_POINTER, _POINTER, _SIZE, _INT, _INT, _POINTER, _POINTER),
        "ncclAllGather": (_POINTER, _POINTER, _SIZE, _INT, _POINTER, _POINTER),
        "ncclBroadcast": (_POINTER, _POINTER, _SIZE, _INT, _INT, _POINTER, _POINTER),
        "ncclSend": (_POINTER, _SIZE, _INT, _INT, _POINTER, _POINTER),
        "ncclRecv": (_POINTER, _SIZE, _INT, _INT, _POINTER, _POINTER),
    }
)  # fmt: skip
"""Argument types of the functions that are called; each returns an ncclResult_t."""


class Nccl:
    """The library.

    Args:
        library: libnccl.so.2, loaded.
        current: makes a device the current one of the thread while it is entered.
        pointer: CUDA's number of a stream.
        zeros: enqueues zeros: an address, bytes, CUDA's number of a stream.

    Raises:
        LibraryError: it is too old.
    """

    def __init__(
        self,
        library: ctypes.CDLL,
        current: Callable[[DriverDevice], AbstractContextManager[object]],
        pointer: Callable[[DriverStream], int],
        zeros: Callable[[int, int, int], object],
    ) -> None:
        self._library, self._current = library, current
        self.stream, self._zeros = pointer, zeros
        self._calls = {name: _declared(library, name, types) for name, types in FUNCTIONS.items()}
        library.ncclGetErrorString.restype = ctypes.c_char_p
        if self.version() < LEAST_VERSION:
            why = f"version {self.version()}; communicators that span processes take 2.14"
            raise LibraryError("nccl", "TOO_OLD", why)

    def call(self, function: str, *arguments: Any) -> None:
        """Calls a function; it may be under way when this returns.

        Raises:
            LibraryError: it was refused.
        """
        state = self._calls[function](*arguments)
        if state not in (SUCCESS, IN_PROGRESS):
            raise LibraryError(function, self.name(state))

    def version(self) -> int:
        """See `RankLibrary.version`."""
        found = ctypes.c_int()
        self.call("ncclGetVersion", ctypes.byref(found))
        return found.value

    def name(self, state: int) -> str:
        """See `RankLibrary.name`."""
        found: bytes = self._library.ncclGetErrorString(state)
        return found.decode()

    def unique_id(self) -> bytes:
        """See `RankLibrary.unique_id`."""
        made = UniqueId()
        self.call("ncclGetUniqueId", ctypes.byref(made))
        return bytes(made)

    def begin_group(self) -> None:
        """See `RankLibrary.begin_group`."""
        self.call("ncclGroupStart")

    def end_group(self) -> None:
        """See `RankLibrary.end_group`."""
        self.call("ncclGroupEnd")

    def rank(self, device: DriverDevice, size: int, unique_id: bytes, rank: int) -> NcclRank:
        """See `RankLibrary.rank`."""
        config = Config(ctypes.sizeof(Config), _MAGIC, LEAST_VERSION, 0)
        made, known = ctypes.c_void_p(), UniqueId.from_buffer_copy(unique_id)
        with self._current(device):
            self.call(
                "ncclCommInitRankConfig", ctypes.byref(made), size, known, rank,
                ctypes.byref(config),
            )  # fmt: skip
        return NcclRank(self, self._current, device, made)

    def fill_zeros(
        self, device: DriverDevice, address: int, nbytes: int, stream: DriverStream
    ) -> None:
        """See `RankLibrary.fill_zeros`."""
        with self._current(device):
            self._zeros(address, nbytes, self.stream(stream))


def _declared(library: ctypes.CDLL, name: str, types: tuple[Any, ...]) -> Any:
    try:
        function = getattr(library, name)
    except AttributeError as e:
        raise LibraryError("nccl", "TOO_OLD", f"it has no {name}") from e
    function.argtypes, function.restype = types, ctypes.c_int
    return function


class NcclRank:
    """See `Rank`.

    Args:
        nccl: the library.
        current: see `Nccl`.
        device: whose rank it is.
        made: where the library writes the communicator, perhaps later.
    """

    def __init__(
        self,
        nccl: Nccl,
        current: Callable[[DriverDevice], AbstractContextManager[object]],
        device: DriverDevice,
        made: ctypes.c_void_p,
    ) -> None:
        self._nccl, self._current = nccl, current
        self._device, self._made = device, made
        self._has_ended = False
        self._lock = threading.Lock()

    def _call(self, function: str, *arguments: Any) -> None:
        if self._has_ended:
            raise DriverError("the NCCL communicator has ended")
        with self._current(self._device):
            self._nccl.call(function, *arguments)

    def state(self) -> int:
        """See `Rank.state`."""
        found = ctypes.c_int(SUCCESS)
        with self._lock:
            if not self._has_ended:
                self._nccl.call("ncclCommGetAsyncError", self._made, ctypes.byref(found))
        return found.value

    def abort(self) -> None:
        """See `Rank.abort`."""
        self._end(self._abort)

    def close(self) -> None:
        """See `Rank.close`: finalizes it, and aborts it if that takes other processes too long."""
        self._end(self._finalize)

    def _end(self, work: Callable[[], None]) -> None:
        """Runs what ends the communicator, which other processes may keep from returning."""
        with self._lock:
            if self._has_ended or not self._made.value:
                return
            self._has_ended = True
        thread = threading.Thread(
            target=self._logged, args=(work,), name="xladev-nccl-end", daemon=True
        )
        thread.start()
        thread.join(_END_S)

    def _logged(self, work: Callable[[], None]) -> None:
        try:
            work()
        except DriverError as e:
            _log.warning("a communicator of NCCL was not ended in order: %s", e)

    def _abort(self) -> None:
        with self._current(self._device):
            self._nccl.call("ncclCommAbort", self._made)

    def _finalize(self) -> None:
        try:
            self._finalize_in_time()
        except DriverError:  # such as that another process is gone
            self._abort()
            raise

    def _finalize_in_time(self) -> None:
        with self._current(self._device):
            self._nccl.call("ncclCommFinalize", self._made)
            deadline, found = time.monotonic() + _END_S / 2, ctypes.c_int(IN_PROGRESS)
            while found.value == IN_PROGRESS and time.monotonic() < deadline:
                self._nccl.call("ncclCommGetAsyncError", self._made, ctypes.byref(found))
                time.sleep(1e-3)
            end = "ncclCommDestroy" if found.value == SUCCESS else "ncclCommAbort"
            self._nccl.call(end, self._made)

    # Collectives

    def allReduce(
        self, sendbuf: int, recvbuf: int, count: int, datatype: int, op: int, stream: int
    ) -> None:
        """See `Collectives.allReduce`."""
        self._call("ncclAllReduce", sendbuf, recvbuf, count, datatype, op, self._made, stream)

    def reduce(
        self, sendbuf: int, recvbuf: int, count: int, datatype: int, op: int, root: int, stream: int
    ) -> None:
        """See `Collectives.reduce`."""
        self._call("ncclReduce", sendbuf, recvbuf, count, datatype, op, root, self._made, stream)

    def reduceScatter(
        self, sendbuf: int, recvbuf: int, recvcount: int, datatype: int, op: int, stream: int
    ) -> None:
        """See `Collectives.reduceScatter`."""
        self._call(
            "ncclReduceScatter", sendbuf, recvbuf, recvcount, datatype, op, self._made, stream
        )

    def allGather(self, sendbuf: int, recvbuf: int, count: int, datatype: int, stream: int) -> None:
        """See `Collectives.allGather`."""
        self._call("ncclAllGather", sendbuf, recvbuf, count, datatype, self._made, stream)

    def broadcast(
        self, sendbuff: int, recvbuff: int, count: int, datatype: int, root: int, stream: int
    ) -> None:
        """See `Collectives.broadcast`."""
        self._call("ncclBroadcast", sendbuff, recvbuff, count, datatype, root, self._made, stream)

    def send(self, sendbuf: int, count: int, datatype: int, peer: int, stream: int) -> None:
        """See `Collectives.send`."""
        self._call("ncclSend", sendbuf, count, datatype, peer, self._made, stream)

    def recv(self, recvbuf: int, count: int, datatype: int, peer: int, stream: int) -> None:
        """See `Collectives.recv`."""
        self._call("ncclRecv", recvbuf, count, datatype, peer, self._made, stream)
