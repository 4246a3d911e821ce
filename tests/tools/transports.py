"""Transports of processes that are threads here: connected by pairs of sockets."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from xladev.runtime.distributed.sockets import LANES, SocketTransport


def connected(count: int, timeout_s: float = 20.0) -> list[SocketTransport]:
    """So many transports, each connected with each other."""
    rows: list[dict[int, list[socket.socket]]] = [{} for _ in range(count)]
    for a in range(count):
        for b in range(a):
            pairs = [socket.socketpair() for _ in range(LANES)]
            rows[a][b] = [pair[0] for pair in pairs]
            rows[b][a] = [pair[1] for pair in pairs]
    names = [f"host:{i}" for i in range(count)]
    return [SocketTransport(i, rows[i], names, timeout_s) for i in range(count)]


def in_threads(jobs: Sequence[Callable[[], Any]]) -> list[Any]:
    """What each gives, all at once; an exception stands for itself."""
    with ThreadPoolExecutor(len(jobs)) as pool:
        futures = [pool.submit(job) for job in jobs]
        return [f.exception() or f.result() for f in futures]
