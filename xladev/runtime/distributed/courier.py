"""Messages to and from all peers. Who waits reads: no thread stands between socket and waiter.

A message is cut into chunks, which large ones spread over all connections to a peer. What arrives
is written where its receiver wants it, or kept until somebody asks. Whoever cannot send reads in
the meantime, so that processes that all send do not wait for each other.
"""

from __future__ import annotations

import select
import socket
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from xladev.errors import ProcessError
from xladev.runtime.distributed.messages import (
    CHUNK_NBYTES,
    DATA,
    FAILED,
    GOODBYE,
    HEADER,
    MOST_REASON,
    RUN_NBYTES,
    Header,
    read_header,
)
from xladev.runtime.distributed.transport import Data

_ONE_LANE_NBYTES = 1 << 18
_REMEMBERED_FAILURES = 256
_LEAST_POLL_S = 0.05
_NO_TAG, _NO_CHECK = bytes(24), bytes(8)

Key = tuple[int, bytes]
"""A peer and a tag."""


@dataclass(slots=True)
class _Incoming:
    """A message on its way here."""

    total: int
    check: bytes
    into: memoryview
    received: int = 0

    @property
    def is_whole(self) -> bool:
        return self.received == self.total


@dataclass(slots=True)
class _Lane:
    """One connection."""

    peer: int
    socket: socket.socket
    lock: threading.Lock = field(default_factory=threading.Lock)
    head: bytearray = field(default_factory=lambda: bytearray(HEADER.size))
    position: int = 0
    header: Header | None = None
    target: memoryview | None = None
    message: _Incoming | None = None


class Courier:
    """Sends and receives messages. Thread-safe.

    Args:
        connections: of each peer, authenticated.
        names: of each peer, for errors.
        timeout_s: how long a message is waited for, or a peer that takes nothing, in seconds.
    """

    def __init__(
        self,
        connections: Mapping[int, Sequence[socket.socket]],
        names: Mapping[int, str],
        timeout_s: float,
    ) -> None:
        self.names = names
        self.timeout_s = timeout_s
        self._lanes = {p: [_Lane(p, s) for s in given] for p, given in connections.items()}
        self._by_fd = {lane.socket.fileno(): lane for row in self._lanes.values() for lane in row}
        self._events = select.epoll()
        for fd, lane in self._by_fd.items():
            lane.socket.setblocking(False)
            self._events.register(fd, select.EPOLLIN)
        self._changed = threading.Condition()
        self._has_reader = False
        self._posted: dict[Key, memoryview] = {}
        self._messages: dict[Key, _Incoming] = {}
        self._failed: OrderedDict[bytes, str] = OrderedDict()
        self._lost: dict[int, str] = {}
        self._is_closed = False

    # Sending

    def send(self, peer: int, tag: bytes, check: bytes, data: Data) -> None:
        """Sends a message; returns when the system has it.

        Raises:
            ProcessError: the peer is gone, or takes nothing for the time limit.
        """
        view = memoryview(data).cast("B")
        total, lanes = len(view), self._lanes[peer]
        step = CHUNK_NBYTES if total > _ONE_LANE_NBYTES else max(total, 1)
        for number, offset in enumerate(range(0, max(total, 1), step)):
            chunk = view[offset : offset + step]
            header = Header(DATA, tag, check, total, offset, len(chunk))
            self._send_chunk(lanes[number % len(lanes)], header, chunk)

    def _send_chunk(self, lane: _Lane, header: Header, chunk: memoryview) -> None:
        deadline = time.monotonic() + self.timeout_s
        with lane.lock:
            head, sent = header.pack(), 0
            size = len(head) + len(chunk)
            while sent < size:
                self._check_peer(lane.peer)
                rest = (head[sent:], chunk) if sent < len(head) else (chunk[sent - len(head) :],)
                try:
                    sent += lane.socket.sendmsg(rest)
                except BlockingIOError:
                    self._wait_to_send(lane, deadline)
                except OSError as error:
                    self.lose(lane.peer, f"the connection broke: {error}")

    def _wait_to_send(self, lane: _Lane, deadline: float) -> None:
        """Reads what is there, or waits until something can be sent or read."""
        if time.monotonic() > deadline:
            self.lose(lane.peer, f"it took nothing for {self.timeout_s:g} s")
            return
        is_reader = self._become_reader()
        try:
            if is_reader and self._read_some(0):
                return
            poll = select.poll()
            poll.register(lane.socket, select.POLLOUT)
            if is_reader:
                poll.register(self._events.fileno(), select.POLLIN)
            poll.poll(1e3 * _LEAST_POLL_S)
        finally:
            if is_reader:
                self._end_reading()

    # Receiving

    def post(self, peer: int, tag: bytes, into: memoryview) -> None:
        """Says where a message is to be written that is waited for later."""
        with self._changed:
            if (peer, tag) not in self._messages:
                self._posted[peer, tag] = into

    def receive(self, peer: int, tag: bytes, check: bytes, what: str) -> memoryview:
        """Waits for a message; its bytes, where `post` said if that came first.

        Raises:
            ProcessError: the peer is gone, failed, disagrees, or did not send in time.
        """
        key, deadline = (peer, tag), time.monotonic() + self.timeout_s
        try:
            message = self._wait(key, deadline, what)
        finally:
            with self._changed:
                self._posted.pop(key, None)
        if message.check != check:
            raise ProcessError(
                f"processes disagree on {what}",
                where=self.names[peer],
                why="it calls another collective under this name, or with other shapes",
                hint="all processes must run the same program on the same shapes",
            )
        return message.into

    def _wait(self, key: Key, deadline: float, what: str) -> _Incoming:
        while True:
            with self._changed:
                message = self._taken(key)
                if message is not None:
                    return message
                self._check_run(key[1][:RUN_NBYTES])
                self._check_peer(key[0])
                left = deadline - time.monotonic()
                if left <= 0:
                    raise self._late(key[0], what)
                if self._has_reader:
                    self._changed.wait(left)
                    continue
                self._has_reader = True
            try:
                self._read_some(left)
            finally:
                self._end_reading()

    def _taken(self, key: Key) -> _Incoming | None:
        message = self._messages.get(key)
        return self._messages.pop(key) if message is not None and message.is_whole else None

    def _late(self, peer: int, what: str) -> ProcessError:
        return ProcessError(
            f"{what} waited {self.timeout_s:g} s for {self.names[peer]}",
            why="it did not come to it: it hangs, is stopped, or runs something else",
            hint="if it is just slow, raise XLADEV_COLLECTIVE_TIMEOUT_S",
        )

    # Reading: one thread at a time

    def _become_reader(self) -> bool:
        with self._changed:
            if self._has_reader:
                return False
            self._has_reader = True
            return True

    def _end_reading(self) -> None:
        with self._changed:
            self._has_reader = False
            self._changed.notify_all()

    def _read_some(self, timeout_s: float) -> bool:
        """Reads from the connections that have something; False if none has in time."""
        ready = self._events.poll(min(timeout_s, 1.0))
        for fd, _ in ready:
            self._read_lane(self._by_fd[fd])
        return bool(ready)

    def _read_lane(self, lane: _Lane) -> None:
        try:
            while self._read_piece(lane):
                pass
        except BlockingIOError:
            return
        except (OSError, ProcessError) as error:
            self._end_lane(lane, str(error))

    def _read_piece(self, lane: _Lane) -> bool:
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

    def _target(self, lane: _Lane, header: Header) -> memoryview:
        if header.kind != DATA:
            return memoryview(bytearray(header.nbytes))
        key = (lane.peer, header.tag)
        with self._changed:
            message = self._messages.get(key)
            if message is None:
                into = self._posted.pop(key, None)
                if into is None or len(into) != header.total:
                    into = memoryview(bytearray(header.total))
                message = self._messages[key] = _Incoming(header.total, header.check, into)
        if message.total != header.total:
            raise ProcessError("a message changed its size on its way")
        lane.message = message
        return message.into[header.offset : header.offset + header.nbytes]

    def _end_chunk(self, lane: _Lane, header: Header) -> None:
        target, message = lane.target, lane.message
        lane.header = lane.target = lane.message = None
        if message is not None:
            with self._changed:
                message.received += header.nbytes
                if message.is_whole and header.tag[:RUN_NBYTES] in self._failed:
                    self._messages.pop((lane.peer, header.tag), None)
                self._changed.notify_all()
            return
        reason = bytes(target or b"").decode(errors="replace")
        if header.kind == FAILED:
            self._note_failure(header.tag[:RUN_NBYTES], f"{self.names[lane.peer]}: {reason}")
        elif header.kind == GOODBYE:
            self._forget(lane.peer, "it left the job")

    def _end_lane(self, lane: _Lane, reason: str) -> None:
        with suppress(OSError, ValueError, KeyError):
            self._events.unregister(lane.socket)
        self._forget(lane.peer, reason)

    # Failures

    def lose(self, peer: int, reason: str) -> None:
        """Makes every exchange with a peer fail, those that wait and those to come."""
        self._forget(peer, reason)
        for lane in self._lanes[peer]:
            with suppress(OSError):
                lane.socket.shutdown(socket.SHUT_RDWR)

    def fail_run(self, run: bytes, reason: str) -> None:
        """Notes that an execution failed here, and tells every peer that still listens."""
        self._note_failure(run, reason)
        text = memoryview(reason.encode()[:MOST_REASON])
        header = Header(FAILED, run + _NO_TAG[RUN_NBYTES:], _NO_CHECK, len(text), 0, len(text))
        self._tell_all(header, text)

    def _tell_all(self, header: Header, text: memoryview) -> None:
        for peer, lanes in self._lanes.items():
            if peer not in self._lost:
                with suppress(ProcessError):
                    self._send_chunk(lanes[0], header, text)

    def _note_failure(self, run: bytes, reason: str) -> None:
        with self._changed:
            self._failed.setdefault(run, reason)
            if len(self._failed) > _REMEMBERED_FAILURES:
                self._failed.popitem(last=False)
            for key in [k for k, m in self._messages.items() if k[1][:RUN_NBYTES] == run]:
                if self._messages[key].is_whole:
                    del self._messages[key]
            self._changed.notify_all()

    def _forget(self, peer: int, reason: str) -> None:
        with self._changed:
            self._lost.setdefault(peer, reason)
            self._changed.notify_all()

    def _check_peer(self, peer: int) -> None:
        reason = self._lost.get(peer)
        if reason is not None or self._is_closed:
            raise ProcessError(
                f"{self.names[peer]} is gone",
                why=reason or "this process has left the job",
                hint="look at the messages of that process, and start the job again",
            )

    def _check_run(self, run: bytes) -> None:
        reason = self._failed.get(run)
        if reason is not None:
            raise ProcessError("an execution failed in another process", why=reason)

    def close(self) -> None:
        """Says goodbye and closes all connections."""
        if self._is_closed:
            return
        self._tell_all(Header(GOODBYE, _NO_TAG, _NO_CHECK, 0, 0, 0), memoryview(b""))
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._events.close()
        for lane in self._by_fd.values():
            lane.socket.close()
