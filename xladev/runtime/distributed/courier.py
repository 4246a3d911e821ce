"""Messages over sockets.

A message is cut into chunks, which large ones spread over all connections to a peer. Whoever cannot
send reads in the meantime, so that processes that all send do not wait for each other.
"""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress

from xladev.errors import ProcessError
from xladev.hlo.in_threads import processors
from xladev.runtime.distributed.lane import Lane
from xladev.runtime.distributed.mailbox import NO_CHECK, NO_TAG, WORD_S, Mailbox
from xladev.runtime.distributed.messages import (
    CHUNK_NBYTES,
    DATA,
    FAILED,
    GOODBYE,
    RUN_NBYTES,
    Header,
    read_header,
)

_ONE_LANE_NBYTES = 1 << 18
_LEAST_POLL_S = 0.05
_SPIN_S = 3e-4
"""How long a waiter asks again and again, before it sleeps.

Not where a machine has more processes than processors: there it takes time of those it waits for.
"""


class Courier(Mailbox):
    """See `Mailbox`.

    Args:
        connections: of each peer, authenticated.
        names, timeout_s, own: see `Mailbox`.
    """

    def __init__(
        self,
        connections: Mapping[int, Sequence[socket.socket]],
        names: Mapping[int, str],
        timeout_s: float,
        own: int | None = None,
    ) -> None:
        super().__init__(names, timeout_s, own)
        self._lanes = {p: [Lane(p, s) for s in given] for p, given in connections.items()}
        self._by_fd = {lane.socket.fileno(): lane for row in self._lanes.values() for lane in row}
        self._events = select.epoll()
        local = 1 + sum(_is_local(row[0].socket) for row in self._lanes.values() if row)
        self._spin_s = _SPIN_S if local <= processors() else 0.0
        for fd, lane in self._by_fd.items():
            lane.socket.setblocking(False)
            self._events.register(fd, select.EPOLLIN)

    @property
    def _peers(self) -> Collection[int]:
        return self._lanes.keys()

    # Sending

    def _send_data(self, peer: int, tag: bytes, check: bytes, view: bytes | memoryview) -> None:
        total, lanes = len(view), self._lanes[peer]
        step = CHUNK_NBYTES if total > _ONE_LANE_NBYTES else max(total, 1)
        for number, offset in enumerate(range(0, max(total, 1), step)):
            chunk = view[offset : offset + step]
            header = Header(DATA, tag, check, total, offset, len(chunk))
            self._send_chunk(lanes[number % len(lanes)], header, chunk)

    def _send_chunk(self, lane: Lane, header: Header, chunk: bytes | memoryview) -> None:
        with lane.lock:
            self._send_locked(lane, header, chunk, self.timeout_s)

    def _send_failure(self, peer: int, run: bytes, text: bytes) -> None:
        tag = run + NO_TAG[RUN_NBYTES:]
        header = Header(FAILED, tag, NO_CHECK, len(text), 0, len(text))
        self._send_chunk(self._lanes[peer][0], header, text)

    def _send_word(self, peer: int, kind: int, text: bytes = b"", busy: object = None) -> None:
        """See `Mailbox`; a goodbye goes by every connection, so that nothing is read after it."""
        for lane in self._lanes[peer][: None if kind == GOODBYE else 1]:
            if lane is not busy and peer not in self._lost and lane.lock.acquire(timeout=WORD_S):
                try:
                    header = Header(kind, NO_TAG, NO_CHECK, len(text), 0, len(text))
                    limit_s = min(self.timeout_s, WORD_S)
                    self._send_locked(lane, header, text, limit_s)
                finally:
                    lane.lock.release()

    def _send_locked(
        self, lane: Lane, header: Header, chunk: bytes | memoryview, limit_s: float
    ) -> None:
        deadline = time.monotonic() + limit_s
        head, sent = header.pack(), 0
        size = len(head) + len(chunk)
        while sent < size:
            if not sent and header.kind == DATA:
                self._check_run(header.tag[:RUN_NBYTES])
            self._check_peer(lane.peer)
            rest = (head[sent:], chunk) if sent < len(head) else (chunk[sent - len(head) :],)
            try:
                sent += lane.socket.sendmsg(rest)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    self.lose(lane.peer, f"it took nothing for {limit_s:g} s")
                else:
                    self._wait_to_send(lane)
            except OSError as error:
                self._hear_out(lane.peer)
                self.lose(lane.peer, f"the connection broke: {error}")

    def _wait_to_send(self, lane: Lane) -> None:
        """Reads what is there, or waits until something can be sent or read."""
        is_reader = self._become_reader()
        self._note_waiting((lane.peer,), 1)
        try:
            if is_reader and self._read_some(0):
                self._answer(lane)
                return
            poll = select.poll()
            poll.register(lane.socket, select.POLLOUT)
            if is_reader:
                poll.register(self._events.fileno(), select.POLLIN)
            poll.poll(1e3 * _LEAST_POLL_S)
        finally:
            self._note_waiting((lane.peer,), -1)
            if is_reader:
                self._end_reading()

    def _hear_out(self, peer: int) -> None:
        """Reads what a peer said before its connection broke: perhaps why."""
        if not self._become_reader():
            with self._changed:
                self._changed.wait(_LEAST_POLL_S)
            return
        try:
            for lane in self._lanes[peer]:
                self._drain(lane)
        finally:
            self._end_reading()

    # Reading

    def _read_some(self, timeout_s: float) -> bool:
        """Reads from the connections that have something; False if none has in time."""
        try:
            ready = self._poll(min(timeout_s, 1.0))
        except (OSError, ValueError):
            if not self._is_closed:
                raise
            return False  # another thread left the job meanwhile, as whoever waits then says
        for fd, _ in ready:
            self._read_lane(self._by_fd[fd])
        return bool(ready)

    def _poll(self, timeout_s: float) -> list[tuple[int, int]]:
        """Connections that have something; asks again and again for a while, then sleeps.

        To wake a thread up takes longer than a message does, the more so where its processor has
        gone to sleep too. Others that want to run do so between two questions.
        """
        ready = self._events.poll(0)
        asked_until = time.monotonic() + min(timeout_s, self._spin_s)
        while not ready and time.monotonic() < asked_until:
            os.sched_yield()
            ready = self._events.poll(0)
        return ready or self._events.poll(timeout_s)

    def _read_lane(self, lane: Lane) -> bool:
        """Reads up to the end of a chunk; False if there is nothing more."""
        if lane.has_ended:
            return False
        try:
            while self._read_piece(lane):
                pass
        except BlockingIOError:
            return False
        except (OSError, ProcessError, MemoryError) as error:
            self._end_lane(lane, str(error))
        return not lane.has_ended

    def _drain(self, lane: Lane) -> None:
        while self._read_lane(lane):
            pass

    def _read_piece(self, lane: Lane) -> bool:
        """Reads a part of a header or of a chunk; False at the end of a chunk or connection."""
        if lane.header is None:
            target = memoryview(lane.head)
        else:
            assert lane.target is not None
            target = lane.target
        count = lane.socket.recv_into(target[lane.position :]) if len(target) else 0
        if not count and len(target):
            self._end_lane(lane, "it ended without a word")
            return False
        lane.position += count
        if lane.position < len(target):
            return True
        lane.position = 0
        if lane.header is not None:
            self._end_chunk(lane, lane.header)
            return False
        lane.header = header = read_header(lane.head)
        lane.target = self._target(lane, header)
        if not header.nbytes:
            self._end_chunk(lane, header)
            return False
        return True

    def _target(self, lane: Lane, header: Header) -> memoryview:
        if header.kind != DATA:
            return memoryview(bytearray(header.nbytes))
        lane.message = message = self._place(lane.peer, header)
        return message.into[header.offset : header.offset + header.nbytes]

    def _end_chunk(self, lane: Lane, header: Header) -> None:
        target, message = lane.target, lane.message
        lane.header = lane.target = lane.message = None
        if message is not None:
            self._arrived(lane.peer, header, message)
        elif reason := self._hear(lane.peer, header, bytes(target or b"")):
            lane.is_left = True
            self._end_lane(lane, reason)

    def _end_lane(self, lane: Lane, reason: str) -> None:
        """Reads no more from a lane; the peer is gone once what it said on others was heard."""
        if lane.has_ended:
            return
        lane.has_ended = True
        with suppress(OSError, ValueError, KeyError):
            self._events.unregister(lane.socket)
        row = self._lanes[lane.peer]
        for other in row:
            self._drain(other)
        if not lane.is_left or all(other.is_left for other in row):
            self._forget(lane.peer, reason)

    def _cut(self, peer: int) -> None:
        for lane in self._lanes[peer]:
            with suppress(OSError):
                lane.socket.shutdown(socket.SHUT_RDWR)

    def _hang_up(self) -> None:
        for peer in self._lanes:
            self._say_goodbye(peer)
        self._note_end()
        self._events.close()
        for lane in self._by_fd.values():
            lane.socket.close()


def _is_local(connection: socket.socket) -> bool:
    """True if the peer is on this machine."""
    if connection.family not in (socket.AF_INET, socket.AF_INET6):
        return True
    try:
        return bool(connection.getpeername()[0] == connection.getsockname()[0])
    except OSError:
        return False  # it has gone already, as whoever reads finds out
