"""The transport that needs nothing installed: TCP connections between all processes."""

from __future__ import annotations

import socket
from collections.abc import Sequence

from xladev.runtime.distributed.courier import Courier
from xladev.runtime.distributed.courier_transport import CourierTransport
from xladev.runtime.distributed.listener import Listener
from xladev.runtime.distributed.meeting import call, hello_of, names_of

LANES = 2
"""Connections between two processes; large messages use all."""


class SocketTransport(CourierTransport):
    """See `Transport`.

    Args:
        rank: the number of this process.
        connections: to each other process, authenticated.
        addresses: of all processes, for errors.
        timeout_s: how long an exchange waits for a process, in seconds.
    """

    def __init__(
        self,
        rank: int,
        connections: dict[int, list[socket.socket]],
        addresses: Sequence[str],
        timeout_s: float,
    ) -> None:
        courier = Courier(connections, names_of(addresses), timeout_s, rank)
        super().__init__(rank, len(addresses), courier)


def connect_all(
    listener: Listener, addresses: Sequence[str], index: int, job: str, secret: bytes,
    deadline: float, timeout_s: float,
) -> SocketTransport:  # fmt: skip
    """Connects every two processes: the one with the higher number calls the other.

    Raises:
        ProcessError: a process does not come in time, or has another secret or version.
    """
    found: dict[int, list[socket.socket]] = {i: [] for i in range(len(addresses)) if i != index}
    try:
        hello = hello_of(index, len(addresses), job, "lane")
        for other in range(index):
            where = f"process {other} ({addresses[other]})"
            for _ in range(LANES):
                found[other].append(call(addresses[other], deadline, where, secret, hello))
        while missing := [i for i, row in found.items() if i > index and len(row) < LANES]:
            told, connection = listener.accept("lane", missing, deadline)
            found[told["index"]].append(connection)
    except BaseException:
        for row in found.values():
            for connection in row:
                connection.close()
        raise
    return SocketTransport(index, found, addresses, timeout_s)
