"""One of the connections between two processes, and a message on its way."""

from __future__ import annotations

import socket
import threading
from dataclasses import dataclass, field

from xladev.runtime.distributed.messages import HEADER, Header


@dataclass(slots=True)
class Incoming:
    """A message on its way here."""

    total: int
    check: bytes
    into: memoryview
    received: int = 0

    @property
    def is_whole(self) -> bool:
        """True if all of it has come."""
        return self.received == self.total


@dataclass(slots=True)
class Lane:
    """One connection, and what of a chunk has been read from it.

    Attributes:
        has_ended: nothing more is read from it.
        is_left: the peer said goodbye on it.
    """

    peer: int
    socket: socket.socket
    lock: threading.Lock = field(default_factory=threading.Lock)
    head: bytearray = field(default_factory=lambda: bytearray(HEADER.size))
    position: int = 0
    header: Header | None = None
    target: memoryview | None = None
    message: Incoming | None = None
    has_ended: bool = False
    is_left: bool = False
