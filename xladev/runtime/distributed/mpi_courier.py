"""Messages over MPI, from point to point.

A small message is one of MPI's, its header first. A large one is two: the header, then the data,
which MPI brings in the order in which they were sent. Whoever waits sends and reads by itself. All
calls of MPI are made by one thread at a time, so that MPI_THREAD_SERIALIZED is enough.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

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
from xladev.runtime.distributed.mpi_inbox import MpiInbox
from xladev.runtime.distributed.transport import Data

_HEADERS, _DATA = 0, 1
_INLINE_NBYTES = 1 << 13
"""Up to here data follow their header; more would be copied into and out of MPI's own buffers."""
_COPIED_NBYTES = 1 << 16
"""Up to here a sender does not wait until the receiver takes what it sends."""
_MOST_NBYTES = 1 << 30
"""Of one message of MPI, whose counts have 31 bits."""
_SPINS, _YIELDS, _NAP_S = 50, 500, 5e-5
"""Turns in which a waiter asks MPI again at once; in which it lets others run; then it naps."""
_LINGER_S = 2.0


class _Swap:
    """What is sent to these peers, and has come or is coming of each under the same header."""

    __slots__ = ("coming", "found", "head", "header", "peers")

    def __init__(self, peers: Sequence[int], header: Header) -> None:
        self.peers = peers
        self.header = header
        self.head = header.pack()
        self.found: dict[int, memoryview] = {}
        self.coming: dict[int, tuple[Any, memoryview]] = {}


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
        self._sent: deque[tuple[Any, bytes | memoryview]] = deque()
        self._receiving: list[tuple[Any, int, Header, Incoming]] = []
        self._left: set[int] = set()
        self._leaving: dict[int, str] = {}
        self._swap: _Swap | None = None
        self._inbox = MpiInbox(communicator, mpi, _HEADERS, HEADER.size + _INLINE_NBYTES)
        self._has_hung_up = False

    @property
    def _peers(self) -> Collection[int]:
        return self.names.keys()

    @property
    def is_troubled(self) -> bool:
        """True if an error was the last that happened."""
        return bool(self._trouble)

    # Sending

    def _send_data(self, peer: int, tag: bytes, check: bytes, view: bytes | memoryview) -> None:
        self._check_run(tag[:RUN_NBYTES])
        if len(view) <= _COPIED_NBYTES:
            self._start(peer, tag, check, bytes(view))
        else:
            self._finish(peer, self._start(peer, tag, check, view))

    def _start(
        self, peer: int, tag: bytes, check: bytes, view: bytes | memoryview
    ) -> Sequence[Any]:
        """Begins to send; the requests that are done before the data may change."""
        self._check_peer(peer)
        total = len(view)
        if total <= _INLINE_NBYTES:
            self._send_inline(peer, Header(DATA, tag, check, total, 0, total), view)
            return ()
        requests = []
        for offset in range(0, total, _MOST_NBYTES):
            chunk = view[offset : offset + _MOST_NBYTES]
            header = Header(DATA, tag, check, total, offset, len(chunk))
            with self._lock:
                self._start_sending(peer, header.pack())
                requests.append(self._start_sending(peer, chunk, _DATA))
        return requests

    def _send_inline(self, peer: int, header: Header, data: bytes | memoryview) -> None:
        self._check_peer(peer)
        whole = header.pack() + data
        with self._lock:
            self._start_sending(peer, whole)

    def _start_sending(self, peer: int, whole: bytes | memoryview, tag: int = _HEADERS) -> Any:
        """Under the lock; what is sent is kept until that is done."""
        while self._sent and self._sent[0][0].Test():
            self._sent.popleft()
        request = self._communicator.Isend([whole, self._mpi.BYTE], peer, tag)
        if not request.Test():
            self._sent.append((request, whole))
        return request

    def _finish(self, peer: int, requests: Sequence[Any]) -> None:
        """Waits until all is sent; reads meanwhile."""
        if all(map(self._is_sent, requests)):
            return
        deadline = time.monotonic() + self.timeout_s
        self._note_waiting((peer,), 1)
        try:
            while not all(map(self._is_sent, requests)):
                self._check_peer(peer)
                if time.monotonic() > deadline:
                    self.lose(peer, f"it took nothing for {self.timeout_s:g} s")
                self._wait_to_send()
        finally:
            self._note_waiting((peer,), -1)

    def _is_sent(self, request: Any) -> bool:
        with self._lock:
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

    # Both at once

    def swap(
        self, peers: Sequence[int], tag: bytes, check: bytes, data: Data, what: str
    ) -> dict[int, memoryview]:
        """See `Mailbox.swap`.

        The header of a small message that is waited for is the one that is sent: nothing has to be
        read of it, nor kept for somebody else. What is not so, or late, goes the usual way.
        """
        nbytes = len(data)
        if nbytes > _COPIED_NBYTES or not self._begin_swap(peers, tag, nbytes):
            return super().swap(peers, tag, check, data, what)
        swap = self._swap = _Swap(peers, Header(DATA, tag, check, nbytes, 0, nbytes))
        found = swap.found
        try:
            self._send_to_all(swap, bytes(data))
            for turn in range(_YIELDS):
                if not self._fetch(swap) or len(found) == len(peers):
                    break
                if turn >= _SPINS:
                    os.sched_yield()
        finally:
            self._end_swap(swap)
        if self._questions:
            self._answer()
        self._trouble = ""
        for peer in peers:
            if peer not in found:
                found[peer] = self.receive(peer, tag, check, what)
        return found

    def _begin_swap(self, peers: Sequence[int], tag: bytes, nbytes: int) -> bool:
        """Becomes the reader; False if there is one, or anything else is unusual."""
        with self._guard:
            if self._has_reader or self._is_closed or tag[:RUN_NBYTES] in self._failed:
                return False
            for peer in peers:
                if peer in self._lost or (peer, tag) in self._messages:
                    return False
            self._has_reader = True
            for peer in peers:
                self._awaited[peer] += 1
                self.sent_nbytes[peer] += nbytes
            return True

    def _send_to_all(self, swap: _Swap, data: bytes) -> None:
        is_inline = len(data) <= _INLINE_NBYTES
        whole = swap.head + data if is_inline else swap.head
        with self._lock:
            for peer in swap.peers:
                self._start_sending(peer, whole)
                if not is_inline:
                    self._start_sending(peer, data, _DATA)

    def _fetch(self, swap: _Swap) -> bool:
        """Takes what has come; False if it is not a part of what is waited for."""
        with self._lock:
            if self._has_hung_up:
                return False
            if swap.coming:
                for peer in [p for p, (request, _) in swap.coming.items() if request.Test()]:
                    swap.found[peer] = swap.coming.pop(peer)[1]
            taken = self._inbox.take()
            if taken is None:
                return not (self._receiving and self._take_data())
            peer, data = taken
            if not data.startswith(swap.head) or peer not in swap.peers:
                self._take_whole(peer, data)
                return False
            if len(data) == HEADER.size + swap.header.nbytes:
                swap.found[peer] = memoryview(data)[HEADER.size :]
            else:
                into = np.empty(swap.header.nbytes, np.uint8).data
                request = self._communicator.Irecv([into, self._mpi.BYTE], peer, _DATA)
                swap.coming[peer] = (request, into)
            return True

    def _end_swap(self, swap: _Swap) -> None:
        """Lets others read; what is still coming comes the usual way."""
        with self._lock:
            for peer, (request, into) in swap.coming.items():
                message = self._expected(peer, swap.header, into)
                self._receiving.append((request, peer, swap.header, message))
            self._swap = None
            self._let_go()
        with self._guard:
            for peer in swap.peers:
                self._awaited[peer] -= 1
            self._has_reader = False
            self._changed.notify_all()

    # Reading

    def _read_some(self, timeout_s: float) -> bool:
        start = time.monotonic()
        for turn in range(1 << 60):
            with self._lock:
                if self._has_hung_up:
                    return False
                if self._take_message() or (self._receiving and self._take_data()):
                    return True
            if time.monotonic() - start >= min(timeout_s, 1.0):
                return False
            if turn >= _YIELDS:
                time.sleep(_NAP_S)
            elif turn >= _SPINS:
                os.sched_yield()
        return False

    def _take_message(self) -> bool:
        found = self._inbox.take()
        if found is not None:
            self._take_whole(*found)
        return found is not None

    def _take_whole(self, peer: int, data: bytes) -> None:
        try:
            header = read_header(data[: HEADER.size], _MOST_NBYTES)
            self._take(peer, header, memoryview(data)[HEADER.size :])
        except ProcessError as error:
            self._forget(peer, str(error))

    def _take(self, peer: int, header: Header, inline: memoryview) -> None:
        if header.kind != DATA:
            reason = self._hear(peer, header, bytes(inline))
            if reason is not None:
                self._left.add(peer)
                self._leaving[peer] = reason
                self._let_go()
        elif len(inline) == header.total:
            self._put(peer, header, inline)
        else:
            self._take_part(peer, header)

    def _take_part(self, peer: int, header: Header) -> None:
        """The data of a header follow."""
        message = self._place(peer, header)
        target = message.into[header.offset : header.offset + header.nbytes]
        request = self._communicator.Irecv([target, self._mpi.BYTE], peer, _DATA)
        self._receiving.append((request, peer, header, message))

    def _take_data(self) -> bool:
        done = [item for item in self._receiving if item[0].Test()]
        for item in done:
            self._receiving.remove(item)
            self._arrived(*item[1:])
        self._let_go()
        return bool(done)

    # The end

    def _let_go(self) -> None:
        """Who left is gone once all is here that it sent before: data come after what follows."""
        if not self._leaving:
            return
        coming = {item[1] for item in self._receiving}
        if self._swap is not None:
            coming |= self._swap.coming.keys()
        for peer in self._leaving.keys() - coming:
            self._forget(peer, self._leaving.pop(peer))

    def _cut(self, peer: int) -> None:
        """MPI has no way to end one connection."""

    def _hang_up(self) -> None:
        for peer in self.names:
            self._say_goodbye(peer)
        deadline = time.monotonic() + (_LINGER_S if self._trouble else WORD_S)
        while time.monotonic() < deadline and not self._is_done():
            self._wait_to_send()
        self._note_end()
        with self._lock:
            self._has_hung_up = True
            self._inbox.close()

    def _is_done(self) -> bool:
        """True if all is sent; after an error, once all others have left: MPI ends them else."""
        with self._lock:
            self._sent = deque(item for item in self._sent if not item[0].Test())
        return not self._sent and (not self._trouble or self._left >= self.names.keys())
