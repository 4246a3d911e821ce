"""The port where a process waits for the others; closed once all have come."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Collection
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any

from xladev import __version__
from xladev.errors import ProcessError
from xladev.runtime.distributed.handshake import Hello, answer, version_problem, welcome

_GREETING_S = 10.0
_MOST_GREETED = 64
_POLL_S = 0.1


class Listener:
    """Accepts authenticated connections on one interface.

    Strangers are refused and noted: garbage on the port ends nothing.

    Args:
        host, port: where; port 0 means any that is free.
        secret: of the job.
        index, count, job: of this process; peers must say the same of the job.

    Raises:
        ProcessError: the port is taken, or the host is not this machine's.
    """

    def __init__(
        self, host: str, port: int, secret: bytes, index: int, count: int, job: str
    ) -> None:
        self._secret = secret
        self._own = {"index": index, "count": count, "job": job, "version": __version__}
        self._arrived: SimpleQueue[tuple[Hello, socket.socket] | str | ProcessError] = SimpleQueue()
        self._kept: list[tuple[Hello, socket.socket]] = []
        self._refused: list[str] = []
        self._refusal: str | None = None
        self._is_open = True
        self._slots = threading.Semaphore(_MOST_GREETED)
        self._greeted: dict[threading.Thread, socket.socket] = {}
        self._socket = _bound(host, port)
        self._thread = threading.Thread(target=self._listen, name="xladev-listener", daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        """Where it listens, as ``host:port``."""
        host, port, *_ = self._socket.getsockname()
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def accept(
        self, purpose: str, missing: Collection[int], deadline: float
    ) -> tuple[Hello, socket.socket]:
        """The next connection for a purpose, from one of the processes that are missing.

        Raises:
            ProcessError: none comes in time; one of another version, job or number comes.
        """
        while True:
            for at, (hello, connection) in enumerate(self._kept):
                if hello["purpose"] == purpose:
                    del self._kept[at]
                    if hello["index"] not in missing:
                        connection.close()
                        raise ProcessError(f"process {hello['index']} came twice")
                    return hello, connection
            self._take(missing, deadline)

    def _take(self, missing: Collection[int], deadline: float) -> None:
        try:
            found = self._arrived.get(timeout=max(deadline - time.monotonic(), 0.0))
        except Empty:
            raise ProcessError(
                f"processes {sorted(missing)} did not come in time",
                where=self.address,
                why="; ".join(self._refused[-3:]) or "nothing was heard of them",
                hint="start them, with the address and the secret of this job",
            ) from None
        if isinstance(found, ProcessError):
            raise found
        if isinstance(found, str):
            self._refused.append(found)
        else:
            self._kept.append(found)

    def refuse(self, reason: str, count: int, limit_s: float) -> None:
        """Tells those who still come why there is no job: so many, for a limited time."""
        self._refusal = reason
        deadline = time.monotonic() + limit_s
        with suppress(Empty):
            while count > 0:
                found = self._arrived.get(timeout=max(deadline - time.monotonic(), 0.0))
                if isinstance(found, tuple):
                    found[1].close()
                count -= not isinstance(found, str)

    def close(self) -> None:
        """Listens no more."""
        self._is_open = False
        self._thread.join()
        self._socket.close()
        for thread, connection in list(self._greeted.items()):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            thread.join()
        for _, connection in self._kept:
            connection.close()
        with suppress(Empty):
            while True:
                found = self._arrived.get_nowait()
                if isinstance(found, tuple):
                    found[1].close()

    def _listen(self) -> None:
        self._socket.settimeout(_POLL_S)
        while self._is_open:
            with suppress(OSError):
                connection, place = self._socket.accept()
                while not self._slots.acquire(timeout=_POLL_S):
                    if not self._is_open:
                        connection.close()
                        return
                work = (connection, f"{place[0]}:{place[1]}")
                thread = threading.Thread(target=self._greet, args=work, daemon=True)
                self._greeted[thread] = connection
                thread.start()

    def _greet(self, connection: socket.socket, where: str) -> None:
        try:
            connection.settimeout(_GREETING_S)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            hello, context = welcome(connection, self._secret, where)
            problem = self._problem(hello)
            answer(
                connection, self._secret, context, {"refused": problem} if problem else self._own
            )
        except (OSError, ProcessError, ValueError, AttributeError) as error:
            connection.close()
            text = error.what if isinstance(error, ProcessError) else str(error)
            self._arrived.put(f"{where} was refused: {text}")
        else:
            self._end_greeting(hello, connection, problem, where)
        finally:
            self._greeted.pop(threading.current_thread(), None)
            self._slots.release()

    def _end_greeting(
        self, hello: Hello, connection: socket.socket, problem: str | None, where: str
    ) -> None:
        if problem is None:
            self._arrived.put((hello, connection))
            return
        connection.close()
        self._arrived.put(ProcessError(problem, where=f"process {hello.get('index')} ({where})"))

    def _problem(self, hello: Hello) -> str | None:
        index, count = hello.get("index"), int(str(self._own["count"]))
        if problem := version_problem(hello) or self._refusal:
            return problem
        if hello.get("count") != count or hello.get("job") != self._own["job"]:
            theirs = hello.get("count")
            return f"a process is of a job of {theirs} processes, this one of {count}"
        if not isinstance(index, int) or not 0 <= index < count or index == self._own["index"]:
            return f"a process says that it is number {index}, which is taken or out of range"
        return None


def _bound(host: str, port: int) -> socket.socket:
    problem: Any = None
    with suppress(socket.gaierror):
        for family, _, _, _, place in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            made = socket.socket(family, socket.SOCK_STREAM)
            try:
                made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                made.bind(place)
                made.listen(128)
            except OSError as error:
                made.close()
                problem = error
            else:
                return made
    raise ProcessError(
        f"this process cannot listen at {host}:{port}",
        why=str(problem or "there is no such host"),
        hint="the port is taken by another program, or the host is another machine: name a free "
        "port of the machine where process 0 runs",
    )
