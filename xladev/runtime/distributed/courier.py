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
from collections import Counter, OrderedDict, deque
from collections.abc import Mapping, Sequence
from contextlib import suppress

from xladev.errors import ProcessError
from xladev.runtime.distributed.inquiry import Inquiry, pack_waits, unpack_waits
from xladev.runtime.distributed.lane import Incoming, Lane
from xladev.runtime.distributed.messages import (
    ASK,
    CHUNK_NBYTES,
    DATA,
    FAILED,
    GOODBYE,
    MOST_REASON,
    RUN_NBYTES,
    WAITS,
    Header,
    read_header,
)
from xladev.runtime.distributed.transport import Data

_ONE_LANE_NBYTES = 1 << 18
_REMEMBERED_FAILURES = 256
_LEAST_POLL_S = 0.05
_WORD_S = 1.0
"""How long a peer may take to accept a goodbye, a question or an answer, in seconds."""
_NO_TAG, _NO_CHECK = bytes(24), bytes(8)

Key = tuple[int, bytes]
"""A peer and a tag."""


class Courier:
    """Sends and receives messages. Thread-safe.

    Args:
        connections: of each peer, authenticated.
        names: of each peer, for errors.
        timeout_s: how long a message is waited for, or a peer that takes nothing, in seconds.
        own: the number of this process, by which peers know it.
    """

    def __init__(
        self,
        connections: Mapping[int, Sequence[socket.socket]],
        names: Mapping[int, str],
        timeout_s: float,
        own: int | None = None,
    ) -> None:
        self.names = names
        self._own = own
        self.timeout_s = timeout_s
        self._lanes = {p: [Lane(p, s) for s in given] for p, given in connections.items()}
        self._by_fd = {lane.socket.fileno(): lane for row in self._lanes.values() for lane in row}
        self._events = select.epoll()
        for fd, lane in self._by_fd.items():
            lane.socket.setblocking(False)
            self._events.register(fd, select.EPOLLIN)
        self._changed = threading.Condition()
        self._has_reader = False
        self._posted: dict[Key, memoryview] = {}
        self._messages: dict[Key, Incoming] = {}
        self._failed: OrderedDict[bytes, str] = OrderedDict()
        self._lost: dict[int, str] = {}
        self._trouble = ""
        self._awaited: Counter[int] = Counter()
        self._questions: deque[int] = deque()
        self._answers: dict[int, list[int]] = {}
        self._is_closed = False

    # Sending

    def send(self, peer: int, tag: bytes, check: bytes, data: Data) -> None:
        """Sends a message; returns when the system has it.

        Raises:
            ProcessError: the peer is gone, or takes nothing for the time limit.
        """
        try:
            self._send(peer, tag, check, memoryview(data).cast("B"))
        except ProcessError as error:
            self._trouble = f"{error.what} ({error.why})"
            raise

    def _send(self, peer: int, tag: bytes, check: bytes, view: memoryview) -> None:
        total, lanes = len(view), self._lanes[peer]
        step = CHUNK_NBYTES if total > _ONE_LANE_NBYTES else max(total, 1)
        for number, offset in enumerate(range(0, max(total, 1), step)):
            chunk = view[offset : offset + step]
            header = Header(DATA, tag, check, total, offset, len(chunk))
            self._send_chunk(lanes[number % len(lanes)], header, chunk)

    def _send_chunk(self, lane: Lane, header: Header, chunk: memoryview) -> None:
        with lane.lock:
            self._send_locked(lane, header, chunk, self.timeout_s)

    def _send_word(self, peer: int, lane: Lane, kind: int, text: bytes = b"") -> None:
        """A short message that is not worth waiting for; nothing where others send for long."""
        if peer in self._lost or not lane.lock.acquire(timeout=_WORD_S):
            return
        try:
            header = Header(kind, _NO_TAG, _NO_CHECK, len(text), 0, len(text))
            limit_s = min(self.timeout_s, _WORD_S)
            self._send_locked(lane, header, memoryview(text), limit_s)
        finally:
            lane.lock.release()

    def _send_locked(self, lane: Lane, header: Header, chunk: memoryview, limit_s: float) -> None:
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
        self._awaited[lane.peer] += 1
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
            self._awaited[lane.peer] -= 1
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
        self._awaited[peer] += 1
        try:
            message = self._wait(key, deadline, what)
            self._trouble = ""
        except ProcessError as error:
            self._trouble = f"{error.what} ({error.why})"
            raise
        finally:
            self._awaited[peer] -= 1
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

    def _wait(self, key: Key, deadline: float, what: str) -> Incoming:
        inquiry: Inquiry | None = None
        while True:
            with self._changed:
                message = self._taken(key)
                if message is not None:
                    return message
                self._check_run(key[1][:RUN_NBYTES])
                self._check_peer(key[0])
            left = deadline - time.monotonic()
            if left <= 0:
                inquiry = inquiry or Inquiry(key[0], self._own)
                left = self._inquire(inquiry, what)
            with self._changed:
                if key in self._messages and self._messages[key].is_whole:
                    continue
                if self._has_reader:
                    self._changed.wait(left)
                    continue
                self._has_reader = True
            try:
                self._read_some(left)
            finally:
                self._end_reading()
            self._answer()

    def _inquire(self, inquiry: Inquiry, what: str) -> float:
        """Asks whom the late one waits for; for how many seconds to wait for the answer.

        Raises:
            ProcessError: it is known who is late.
        """
        while True:
            answer = self._answers.pop(inquiry.asked, None)
            left = inquiry.left_s
            if left is not None and answer is None and left > 0:
                return left
            if left is not None and not (answer and inquiry.take(answer, self._lanes)):
                raise inquiry.error(what, self.timeout_s, self.names, bool(answer))
            self._check_peer(inquiry.asked)
            self._send_word(inquiry.asked, self._lanes[inquiry.asked][0], ASK)
            inquiry.start_waiting(self.timeout_s)

    def _answer(self, busy: Lane | None = None) -> None:
        """Tells those who asked whom this process waits for; not on a lane that is busy."""
        while self._questions:
            with suppress(IndexError, ProcessError):
                peer = self._questions.popleft()
                lane = self._lanes[peer][0]
                if lane is not busy:
                    waits = [p for p, count in list(self._awaited.items()) if count > 0]
                    self._send_word(peer, lane, WAITS, pack_waits(waits))

    def _taken(self, key: Key) -> Incoming | None:
        message = self._messages.get(key)
        return self._messages.pop(key) if message is not None and message.is_whole else None

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
        key = (lane.peer, header.tag)
        with self._changed:
            message = self._messages.get(key)
            if message is None:
                into = self._posted.pop(key, None)
                if into is None or len(into) != header.total:
                    into = memoryview(bytearray(header.total))
                message = self._messages[key] = Incoming(header.total, header.check, into)
        if message.total != header.total:
            raise ProcessError("a message changed its size on its way")
        lane.message = message
        return message.into[header.offset : header.offset + header.nbytes]

    def _end_chunk(self, lane: Lane, header: Header) -> None:
        target, message = lane.target, lane.message
        lane.header = lane.target = lane.message = None
        if message is not None:
            with self._changed:
                message.received += header.nbytes
                if message.is_whole and header.tag[:RUN_NBYTES] in self._failed:
                    self._messages.pop((lane.peer, header.tag), None)
                self._changed.notify_all()
            return
        data = bytes(target or b"")
        if header.kind == FAILED:
            reason = f"{self.names[lane.peer]}: {data.decode(errors='replace')}"
            self._note_failure(header.tag[:RUN_NBYTES], reason)
        elif header.kind == ASK:
            self._questions.append(lane.peer)
        elif header.kind == WAITS:
            self._answers[lane.peer] = unpack_waits(data)
        elif header.kind == GOODBYE:
            lane.is_left = True
            after = f" after this: {data.decode(errors='replace')}" if data else ""
            self._end_lane(lane, f"it left the job{after}")

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
        for peer, lanes in self._lanes.items():
            for lane in lanes:
                with suppress(ProcessError):
                    self._send_word(peer, lane, GOODBYE, self._trouble.encode()[:MOST_REASON])
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._events.close()
        for lane in self._by_fd.values():
            lane.socket.close()
