"""How the processes of a job find each other: one address, or a store of keys and values."""

from __future__ import annotations

import json
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from xladev import __version__
from xladev.errors import ProcessError
from xladev.runtime.distributed.handshake import (
    greet,
    receive_message,
    send_message,
)
from xladev.runtime.distributed.listener import Listener

_CONTEXT = b"table"
_RETRY_S = 0.05
_GRACE_S = 2.0
"""Process 0 has so long to say who did not come, after it gave up."""


class KeyValueStore(ABC):
    """Bytes that processes leave for each other."""

    @abstractmethod
    def put(self, key: str, value: bytes) -> None:
        """Leaves a value."""

    @abstractmethod
    def get(self, key: str, timeout_s: float) -> bytes:
        """Waits for a value.

        Raises:
            ProcessError: nobody left it in time.
        """


def split_address(address: str) -> tuple[str, int]:
    """Host and port.

    Raises:
        ProcessError: it is not of the form ``host:port``.
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or not 0 <= int(port) < 1 << 16:
        raise ProcessError(
            f"{address!r} is no address of a process",
            why="an address is host:port",
            hint="for example 10.0.0.1:9000, of the machine where process 0 runs",
        )
    return host.strip("[]"), int(port)


def exchange_by_store(store: KeyValueStore, index: int, count: int, value: Any,
                      name: str, timeout_s: float) -> list[Any]:  # fmt: skip
    """What each process has to say, by way of a store."""
    store.put(f"{name}/{index}", json.dumps(value).encode())
    return [json.loads(store.get(f"{name}/{i}", timeout_s)) for i in range(count)]


def gather_table(
    listener: Listener, count: int, own: Any, secret: bytes, deadline: float
) -> list[Any]:
    """Process 0: waits for what each other process has to say, and tells it to all."""
    waiting: dict[int, socket.socket] = {}
    said: dict[int, Any] = {0: own}
    try:
        while len(said) < count:
            missing = [i for i in range(count) if i not in said]
            hello, connection = listener.accept("meeting", missing, deadline)
            waiting[hello["index"]], said[hello["index"]] = connection, hello["said"]
        table = [said[i] for i in range(count)]
        _tell(waiting.values(), secret, {"table": table})
    except ProcessError as error:
        _tell(waiting.values(), secret, {"failed": _said(error)})
        listener.refuse(_said(error), count - len(said), _GRACE_S)
        raise
    finally:
        for connection in waiting.values():
            connection.close()
    return table


def _tell(connections: Iterable[socket.socket], secret: bytes, message: dict[str, Any]) -> None:
    """Tells all that wait, as far as they are still there; who is not is missed later."""
    for connection in connections:
        with suppress(OSError):
            send_message(connection, secret, _CONTEXT, message)


def _said(error: ProcessError) -> str:
    return f"{error.what} ({error.why})" if error.why else error.what


def fetch_table(address: str, hello: dict[str, Any], secret: bytes, deadline: float) -> list[Any]:
    """Any other process: tells process 0 what it has to say, and is told that of all.

    Raises:
        ProcessError: process 0 does not come in time, ends, or says why the job cannot start.
    """
    first = f"process 0 ({address})"
    with call(address, deadline, first, secret, hello) as connection:
        connection.settimeout(max(deadline - time.monotonic(), 0.01) + _GRACE_S)
        try:
            told = receive_message(connection, secret, _CONTEXT, first)
        except TimeoutError as error:
            raise ProcessError("the other processes did not come in time", where=first) from error
        except OSError as error:
            raise ProcessError(f"{first} is gone", why=str(error)) from error
    if "failed" in told:
        raise ProcessError("the job could not start", where=first, why=str(told["failed"]))
    found: list[Any] = told["table"]
    return found


def connect(place: tuple[str, int], deadline: float, whom: str) -> socket.socket:
    """A connection, tried again until the other listens.

    Raises:
        ProcessError: it does not in time.
    """
    while True:
        left = deadline - time.monotonic()
        try:
            connection = socket.create_connection(place, timeout=max(left, 0.01))
        except OSError as error:
            if left <= 0 or isinstance(error, socket.gaierror):
                raise ProcessError(
                    f"{whom} cannot be reached",
                    why=str(error),
                    hint="start all processes of the job, and name the address of process 0",
                ) from error
            time.sleep(_RETRY_S)
            continue
        if connection.getsockname() == connection.getpeername():  # the system met itself
            connection.close()
            continue
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.settimeout(max(deadline - time.monotonic(), 0.01))
        return connection


def call(
    address: str, deadline: float, whom: str, secret: bytes, hello: dict[str, Any]
) -> socket.socket:
    """A connection to a process of this job, greeted.

    Raises:
        ProcessError: it cannot be reached, does not answer in time, or is no process of this job.
    """
    connection = connect(split_address(address), deadline, whom)
    try:
        greet(connection, secret, hello, whom)
    except OSError as error:
        connection.close()
        raise ProcessError(
            f"{whom} does not answer",
            why=f"{error}; perhaps another program listens there",
            hint="start all processes of the job, at a port that nothing else uses",
        ) from error
    except BaseException:
        connection.close()
        raise
    return connection


def local_host(towards: tuple[str, int]) -> str:
    """The address of this machine on the way to another one."""
    family, *_, place = socket.getaddrinfo(*towards, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, socket.SOCK_DGRAM) as probe, suppress(OSError):
        probe.connect(place)
        return str(probe.getsockname()[0])
    return "127.0.0.1"


def hello_of(index: int, count: int, job: str, purpose: str, said: Any = None) -> dict[str, Any]:
    """What a process says of itself when it connects."""
    return {
        "version": __version__, "index": index, "count": count, "job": job,
        "purpose": purpose, "said": said,
    }  # fmt: skip


def names_of(addresses: Sequence[str]) -> dict[int, str]:
    """Processes as errors call them."""
    return {i: f"process {i} ({address})" for i, address in enumerate(addresses)}
