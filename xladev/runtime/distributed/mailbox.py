"""Messages to and from all peers, whatever carries them. Who waits reads.

What arrives is written where its receiver wants it, or kept until somebody asks. No thread stands
between the wire and the waiter.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import Counter, OrderedDict, deque
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress

import numpy as np

from xladev.errors import ProcessError
from xladev.runtime.distributed.inquiry import Inquiry, pack_waits, unpack_waits
from xladev.runtime.distributed.lane import Incoming
from xladev.runtime.distributed.messages import (
    ASK,
    FAILED,
    GOODBYE,
    MOST_REASON,
    RUN_NBYTES,
    WAITS,
    Header,
)
from xladev.runtime.distributed.transport import Data, JointWork, Progress

_REMEMBERED_FAILURES = 256
WORD_S = 1.0
"""How long a peer may take to accept a goodbye, a question or an answer, in seconds."""
NO_TAG, NO_CHECK = bytes(24), bytes(8)
_SHORTEST_S, _LONGEST_S = 1e-4, 5e-3
"""Between two looks at work that goes another way."""

Key = tuple[int, bytes]
"""A peer and a tag."""


class Mailbox(ABC):
    """Sends and receives messages. Thread-safe.

    Args:
        names: of each peer, for errors.
        timeout_s: how long a message is waited for, or a peer that takes nothing, in seconds.
        own: the number of this process, by which peers know it.
    """

    def __init__(self, names: Mapping[int, str], timeout_s: float, own: int | None = None) -> None:
        self.names = names
        self.timeout_s = timeout_s
        self._own = own
        self._guard = threading.RLock()
        self._changed = threading.Condition(self._guard)
        self._has_reader = False
        self._posted: dict[Key, memoryview] = {}
        self._messages: dict[Key, Incoming] = {}
        self._failed: OrderedDict[bytes, str] = OrderedDict()
        self._lost: dict[int, str] = {}
        self.sent_nbytes: Counter[int] = Counter()
        self._trouble = ""
        self._awaited: Counter[int] = Counter()
        self._questions: deque[int] = deque()
        self._answers: dict[int, list[int]] = {}
        self._is_closed = False

    # The wire

    @property
    @abstractmethod
    def _peers(self) -> Collection[int]:
        """All other processes."""

    @abstractmethod
    def _send_data(self, peer: int, tag: bytes, check: bytes, view: bytes | memoryview) -> None:
        """See `send`; what waits meanwhile reads."""

    @abstractmethod
    def _send_failure(self, peer: int, run: bytes, text: bytes) -> None:
        """Tells a peer that a run failed."""

    @abstractmethod
    def _send_word(self, peer: int, kind: int, text: bytes = b"", busy: object = None) -> None:
        """A short message that is not worth waiting for.

        Args:
            peer: to whom.
            kind: of message.
            text: of it.
            busy: a connection that this thread is sending on; nothing is sent there.
        """

    @abstractmethod
    def _read_some(self, timeout_s: float) -> bool:
        """Reads what has come; False if nothing does in time. For one thread at a time."""

    @abstractmethod
    def _cut(self, peer: int) -> None:
        """Ends the connections to a peer."""

    @abstractmethod
    def _hang_up(self) -> None:
        """Says goodbye and closes everything."""

    # Sending

    def send(self, peer: int, tag: bytes, check: bytes, data: Data) -> None:
        """Sends a message; returns when the system has it.

        Raises:
            ProcessError: the peer is gone, or takes nothing for the time limit.
        """
        try:
            view = data if isinstance(data, bytes) else memoryview(data).cast("B")
            self._send_data(peer, tag, check, view)
            with self._guard:
                self.sent_nbytes[peer] += len(view)
        except ProcessError as error:
            self._trouble = f"{error.what} ({error.why})"
            raise

    # Receiving

    def swap(
        self, peers: Sequence[int], tag: bytes, check: bytes, data: Data, what: str
    ) -> dict[int, memoryview]:
        """Sends each peer the same; what each sends under the same tag, which is not to be written.

        Raises:
            ProcessError: see `send` and `receive`.
        """
        for peer in peers:
            self.send(peer, tag, check, data)
        return {peer: self.receive(peer, tag, check, what) for peer in peers}

    def post(self, peer: int, tag: bytes, into: memoryview) -> None:
        """Says where a message is to be written that is waited for later."""
        with self._guard:
            if (peer, tag) not in self._messages:
                self._posted[peer, tag] = into

    def receive(self, peer: int, tag: bytes, check: bytes, what: str) -> memoryview:
        """Waits for a message; its bytes, where `post` said if that came first.

        Raises:
            ProcessError: the peer is gone, failed, disagrees, or did not send in time.
        """
        try:
            message = self._wait((peer, tag), what)
            self._trouble = ""
        except ProcessError as error:
            self._trouble = f"{error.what} ({error.why})"
            raise
        if message.check != check:
            raise ProcessError(
                f"processes disagree on {what}",
                where=self.names[peer],
                why="it calls another collective under this name, or with other shapes",
                hint="all processes must run the same program on the same shapes",
            )
        return message.into

    def _wait(self, key: Key, what: str) -> Incoming:
        left, deadline = self.timeout_s, time.monotonic() + self.timeout_s
        inquiry: Inquiry | None = None
        reads = False
        self._note_waiting((key[0],), 1)
        try:
            while True:
                found = self._turn(key, left, reads)
                if isinstance(found, Incoming):
                    return found
                reads = found
                if reads:
                    self._read_some(left)
                left = deadline - time.monotonic()
                if reads and (left <= 0 or self._questions):
                    self._end_reading()
                    reads = False
                    self._answer()
                if left <= 0:
                    inquiry = inquiry or Inquiry(key[0], self._own)
                    left = self._inquire(inquiry, what)
        finally:
            with self._guard:
                self._awaited[key[0]] -= 1
                self._posted.pop(key, None)
                if reads:
                    self._end_reading()

    def _turn(self, key: Key, left_s: float, reads: bool) -> Incoming | bool:
        """The message if it is here; else whether this thread reads.

        Who finds no reader is it, until its own message has come or it has to send a word. Others
        wait here.
        """
        with self._guard:
            message = self._taken(key)
            if message is not None:
                return message
            self._check_run(key[1][:RUN_NBYTES])
            self._check_peer(key[0])
            if reads or not self._has_reader:
                self._has_reader = True
                return True
            self._changed.wait(left_s)
            return False

    def _listen(self, timeout_s: float) -> None:
        """Reads what comes, or waits while another thread does."""
        with self._guard:
            if self._has_reader:
                self._changed.wait(timeout_s)
                return
            self._has_reader = True
        try:
            self._read_some(timeout_s)
        finally:
            self._end_reading()
        self._answer()

    def _note_waiting(self, peers: Sequence[int], by: int) -> None:
        """Counts what this process waits for from peers, for those who ask."""
        with self._guard:
            for peer in peers:
                self._awaited[peer] += by

    # Work that goes another way

    def attend(
        self, peers: Sequence[int], runs: Sequence[bytes], work: JointWork, what: str
    ) -> None:
        """Waits for work that is done with peers by another way, and reads meanwhile.

        A peer may be through with it, and gone, before it is seen to be done here.

        Raises:
            ProcessError: a peer is gone, one of the runs failed, there was trouble, or the work did
                not end within the time limit once it was under way.
        """
        awaited: Sequence[int] = ()
        deadline, trouble, pause = float("inf"), "", _SHORTEST_S
        was_alone = False
        inquiry = Inquiry(peers[0], self._own)
        try:
            while (progress := work.progress()) is not Progress.DONE:
                is_alone = self._check_all(peers, runs)
                now = time.monotonic()
                if progress is Progress.UNDER_WAY and not awaited:
                    awaited, deadline = peers, min(deadline, now + self.timeout_s)
                    self._note_waiting(peers, 1)
                if not trouble and (trouble := work.trouble()):
                    deadline = now + WORD_S  # in which somebody may say why
                if awaited and is_alone and not was_alone:
                    was_alone, deadline = True, min(deadline, now + WORD_S)
                left = pause = min(2 * pause, _LONGEST_S)
                if now > deadline:
                    for peer in peers:
                        self._check_peer(peer)
                    if trouble:
                        raise ProcessError(f"{what} failed between processes", why=trouble)
                    left = min(pause, self._inquire(inquiry, what))
                self._listen(left)
        except ProcessError as error:
            self._trouble = f"{error.what} ({error.why})"
            raise
        finally:
            self._note_waiting(awaited, -1)

    def _check_all(self, peers: Sequence[int], runs: Sequence[bytes]) -> bool:
        """True if one of the peers is gone.

        Raises:
            ProcessError: one of the runs failed, or this process has left the job.
        """
        with self._guard:
            for run in runs:
                self._check_run(run)
            if self._is_closed:
                self._check_peer(peers[0])
            return any(peer in self._lost for peer in peers)

    def has_failed(self, run: bytes) -> bool:
        """True if a run failed here or, as far as can be read now, elsewhere."""
        while run not in self._failed and self._become_reader():
            try:
                if not self._read_some(0):
                    break
            finally:
                self._end_reading()
        self._answer()
        return run in self._failed

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
            if left is not None and not (answer and inquiry.take(answer, self._peers)):
                raise inquiry.error(what, self.timeout_s, self.names, bool(answer))
            self._check_peer(inquiry.asked)
            self._send_word(inquiry.asked, ASK)
            inquiry.start_waiting(self.timeout_s)

    def _answer(self, busy: object = None) -> None:
        """Tells those who asked whom this process waits for."""
        while self._questions:
            with suppress(IndexError, ProcessError):
                peer = self._questions.popleft()
                waits = [p for p, count in list(self._awaited.items()) if count > 0]
                self._send_word(peer, WAITS, pack_waits(waits), busy)

    def _taken(self, key: Key) -> Incoming | None:
        message = self._messages.get(key)
        return self._messages.pop(key) if message is not None and message.is_whole else None

    # Reading: one thread at a time

    def _become_reader(self) -> bool:
        with self._guard:
            if self._has_reader:
                return False
            self._has_reader = True
            return True

    def _end_reading(self) -> None:
        with self._guard:
            self._has_reader = False
            self._changed.notify_all()

    def _place(self, peer: int, header: Header) -> Incoming:
        """The message that a chunk is of.

        Raises:
            ProcessError: it is longer or shorter than before.
        """
        key = (peer, header.tag)
        with self._guard:
            message = self._messages.get(key)
            if message is None:
                into = self._posted.pop(key, None)
                if into is None or len(into) != header.total:
                    into = np.empty(header.total, np.uint8).data
                message = self._messages[key] = Incoming(header.total, header.check, into)
        if message.total != header.total:
            raise ProcessError("a message changed its size on its way")
        return message

    def _put(self, peer: int, header: Header, data: memoryview) -> None:
        """Takes a message that has come as a whole; nobody writes to its bytes from now on."""
        with self._guard:
            into = self._posted.pop((peer, header.tag), None)
            if into is not None and len(into) == len(data):
                into[:] = data
            else:
                into = data
            if header.tag[:RUN_NBYTES] not in self._failed:
                message = Incoming(header.total, header.check, into, header.total)
                self._messages[peer, header.tag] = message
            self._changed.notify_all()

    def _expected(self, peer: int, header: Header, into: memoryview) -> Incoming:
        """A message of which nothing has come yet, where it will be written."""
        with self._guard:
            message = Incoming(header.total, header.check, into)
            self._messages[peer, header.tag] = message
        return message

    def _arrived(self, peer: int, header: Header, message: Incoming) -> None:
        """A chunk is there."""
        with self._guard:
            message.received += header.nbytes
            if message.is_whole and header.tag[:RUN_NBYTES] in self._failed:
                self._messages.pop((peer, header.tag), None)
            self._changed.notify_all()

    def _hear(self, peer: int, header: Header, data: bytes) -> str | None:
        """Takes a message that is no data; for a goodbye, why the peer is gone."""
        text = data.decode(errors="replace")
        if header.kind == FAILED:
            self._note_failure(header.tag[:RUN_NBYTES], f"{self.names[peer]}: {text}")
        elif header.kind == ASK:
            self._questions.append(peer)
        elif header.kind == WAITS:
            self._answers[peer] = unpack_waits(data)
        elif header.kind == GOODBYE:
            return f"it left the job{f' after this: {text}' if text else ''}"
        return None

    # Failures

    def lose(self, peer: int, reason: str) -> None:
        """Makes every exchange with a peer fail, those that wait and those to come."""
        self._forget(peer, reason)
        self._cut(peer)

    def fail_run(self, run: bytes, reason: str) -> None:
        """Notes that an execution failed here, and tells every peer that still listens."""
        self._note_failure(run, reason)
        for peer in self._peers:
            if peer not in self._lost:
                with suppress(ProcessError):
                    self._send_failure(peer, run, reason.encode()[:MOST_REASON])

    def _note_failure(self, run: bytes, reason: str) -> None:
        with self._guard:
            self._failed.setdefault(run, reason)
            if len(self._failed) > _REMEMBERED_FAILURES:
                self._failed.popitem(last=False)
            for key in [k for k, m in self._messages.items() if k[1][:RUN_NBYTES] == run]:
                if self._messages[key].is_whole:
                    del self._messages[key]
            self._changed.notify_all()

    def _forget(self, peer: int, reason: str) -> None:
        with self._guard:
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
        """Says goodbye, and after what error it is if one came last; closes all connections."""
        if not self._is_closed:
            self._hang_up()

    def _say_goodbye(self, peer: int) -> None:
        with suppress(ProcessError):
            self._send_word(peer, GOODBYE, self._trouble.encode()[:MOST_REASON])

    def _note_end(self) -> None:
        with self._guard:
            self._is_closed = True
            self._changed.notify_all()
