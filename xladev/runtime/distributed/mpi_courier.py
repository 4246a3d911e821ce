"""Messages over MPI, from point to point.

A small message is one of MPI's, its header first. A large one is two: the header, then the data,
which MPI brings in the order in which they were sent. All calls of MPI are made by one thread at a
time, so that MPI_THREAD_SERIALIZED is enough.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Collection, Mapping
from typing import Any

from xladev.errors import ProcessError
from xladev.runtime.distributed.lane import Incoming
from xladev.runtime.distributed.mailbox import NO_CHECK, NO_TAG, WORD_S, Mailbox
from xladev.runtime.distributed.messages import (
    DATA,
    FAILED,
    HEADER,
    RUN_NBYTES,
    Header,
    read_header,
)

_HEADERS, _DATA = 0, 1
_INLINE_NBYTES = 1 << 16
_MOST_NBYTES = 1 << 30
"""Of one message of MPI, whose counts have 31 bits."""
_SPINS, _YIELDS, _NAP_S = 50, 500, 5e-5
"""Turns in which a waiter asks MPI again at once; in which it lets others run; then it naps."""
_LINGER_S = 2.0


class MpiCourier(Mailbox):
    """See `Mailbox`.

    Args:
        communicator: an mpi4py communicator of all processes that nobody else uses.
        mpi: the module ``mpi4py.MPI``.
        names, timeout_s: see `Mailbox`.
    """

    def __init__(
        self, communicator: Any, mpi: Any, names: Mapping[int, str], timeout_s: float
    ) -> None:
        own: int = communicator.rank
        super().__init__({p: n for p, n in names.items() if p != own}, timeout_s, own)
        self._communicator = communicator
        self._mpi = mpi
        self._lock = threading.Lock()
        self._sent: deque[tuple[Any, bytes]] = deque()
        self._receiving: list[tuple[Any, int, Header, Incoming]] = []
        self._left: set[int] = set()
        self._status = mpi.Status()

    @property
    def _peers(self) -> Collection[int]:
        return self.names.keys()

    @property
    def is_troubled(self) -> bool:
        """True if an error was the last that happened."""
        return bool(self._trouble)

    # Sending

    def _send_data(self, peer: int, tag: bytes, check: bytes, view: memoryview) -> None:
        self._check_run(tag[:RUN_NBYTES])
        total = len(view)
        for offset in range(0, max(total, 1), _MOST_NBYTES):
            chunk = view[offset : offset + _MOST_NBYTES]
            header = Header(DATA, tag, check, total, offset, len(chunk))
            if len(chunk) <= _INLINE_NBYTES:
                self._send_inline(peer, header, chunk)
            else:
                self._send_large(peer, header, chunk)

    def _send_inline(self, peer: int, header: Header, data: bytes | memoryview) -> None:
        self._check_peer(peer)
        whole = header.pack() + data
        with self._lock:
            request = self._communicator.Isend([whole, self._mpi.BYTE], peer, _HEADERS)
            if not request.Test():
                self._sent.append((request, whole))

    def _send_large(self, peer: int, header: Header, chunk: memoryview) -> None:
        self._check_peer(peer)
        head = header.pack()
        with self._lock:
            self._sent.append(
                (self._communicator.Isend([head, self._mpi.BYTE], peer, _HEADERS), head)
            )
            request = self._communicator.Isend([chunk, self._mpi.BYTE], peer, _DATA)
        deadline = time.monotonic() + self.timeout_s
        self._note_waiting((peer,), 1)
        try:
            while not self._is_sent(request):
                self._check_peer(peer)
                if time.monotonic() > deadline:
                    self.lose(peer, f"it took nothing for {self.timeout_s:g} s")
                self._wait_to_send()
        finally:
            self._note_waiting((peer,), -1)

    def _is_sent(self, request: Any) -> bool:
        with self._lock:
            while self._sent and self._sent[0][0].Test():
                self._sent.popleft()
            return bool(request.Test())

    def _wait_to_send(self) -> None:
        """Reads what is there; others may be sending here."""
        if self._become_reader():
            try:
                has_read = self._read_some(0)
            finally:
                self._end_reading()
            self._answer()
            if has_read:
                return
        os.sched_yield()

    def _send_failure(self, peer: int, run: bytes, text: bytes) -> None:
        header = Header(FAILED, run + NO_TAG[RUN_NBYTES:], NO_CHECK, len(text), 0, len(text))
        self._send_inline(peer, header, text)

    def _send_word(self, peer: int, kind: int, text: bytes = b"", busy: object = None) -> None:
        if peer not in self._lost:
            self._send_inline(peer, Header(kind, NO_TAG, NO_CHECK, len(text), 0, len(text)), text)

    # Reading

    def _read_some(self, timeout_s: float) -> bool:
        deadline = time.monotonic() + min(timeout_s, 1.0)
        for turn in range(1 << 60):
            with self._lock:
                has_read = self._take_header() or self._take_data()
            if has_read:
                return True
            if timeout_s <= 0 or time.monotonic() > deadline:
                return False
            if turn >= _YIELDS:
                time.sleep(_NAP_S)
            elif turn >= _SPINS:
                os.sched_yield()
        return False

    def _take_header(self) -> bool:
        found = self._communicator.Improbe(self._mpi.ANY_SOURCE, _HEADERS, self._status)
        if found is None:
            return False
        peer = self._status.Get_source()
        data = bytearray(self._status.Get_count(self._mpi.BYTE))
        found.Recv([data, self._mpi.BYTE])
        try:
            self._take(peer, read_header(data[: HEADER.size], _MOST_NBYTES), data)
        except ProcessError as error:
            self._forget(peer, str(error))
        return True

    def _take(self, peer: int, header: Header, data: bytearray) -> None:
        inline = memoryview(data)[HEADER.size :]
        if header.kind != DATA:
            reason = self._hear(peer, header, bytes(inline))
            if reason is not None:
                self._left.add(peer)
                self._forget(peer, reason)
            return
        message = self._place(peer, header)
        target = message.into[header.offset : header.offset + header.nbytes]
        if len(inline) == header.nbytes:
            target[:] = inline
            self._arrived(peer, header, message)
            return
        request = self._communicator.Irecv([target, self._mpi.BYTE], peer, _DATA)
        self._receiving.append((request, peer, header, message))

    def _take_data(self) -> bool:
        done = [item for item in self._receiving if item[0].Test()]
        for item in done:
            self._receiving.remove(item)
            self._arrived(*item[1:])
        return bool(done)

    # The end

    def _cut(self, peer: int) -> None:
        """MPI has no way to end one connection."""

    def _hang_up(self) -> None:
        for peer in self.names:
            self._say_goodbye(peer)
        deadline = time.monotonic() + (_LINGER_S if self._trouble else WORD_S)
        while time.monotonic() < deadline and not self._is_done():
            self._wait_to_send()
        self._note_end()

    def _is_done(self) -> bool:
        """True if all is sent; after an error, once all others have left: MPI ends them else."""
        with self._lock:
            self._sent = deque(item for item in self._sent if not item[0].Test())
        return not self._sent and (not self._trouble or self._left >= self.names.keys())
