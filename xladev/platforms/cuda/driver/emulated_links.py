"""Connections between the ranks of an emulated NCCL communicator: sockets of this machine.

A unique id is the address of whoever made it, and a number that only those know who were given it.
There the ranks tell their own addresses, and learn those of all. Each rank has one thread, which
connects it, then reads and writes; nobody who calls a rank waits for another.
"""

from __future__ import annotations

import secrets
import selectors
import socket
import struct
import threading
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field

from xladev.platforms.cuda.driver.ranks import (
    IN_PROGRESS,
    REMOTE_ERROR,
    SUCCESS,
    UNIQUE_ID_NBYTES,
)

INVALID_USAGE = 5
_HOST = "127.0.0.1"
_ID = struct.Struct("<8s16sH")
_MAGIC = b"emunccl1"
_JOIN = struct.Struct("<16sIIH")
"""Of whoever connects: the number of the id; its rank, how many there are, its port."""
_FRAME = struct.Struct("<BQQ8s")
"""Kind, number, bytes that follow, and what is compared."""
COLLECTIVE, POINT_TO_POINT, GOODBYE = range(3)
_PIECE = 1 << 18
_LINGER_S = 2.0

Key = tuple[int, int, int]
"""A peer, a kind, and the number of a message."""


def new_id() -> tuple[bytes, socket.socket]:
    """A unique id, and the socket that whoever has it is to be met at."""
    listener = _listening()
    made = _ID.pack(_MAGIC, secrets.token_bytes(16), listener.getsockname()[1])
    return made.ljust(UNIQUE_ID_NBYTES, b"\0"), listener


def _listening() -> socket.socket:
    return socket.create_server((_HOST, 0))


@dataclass(slots=True)
class _Link:
    """The connection to one peer."""

    peer: int
    socket: socket.socket
    incoming: bytearray = field(default_factory=bytearray)
    outgoing: deque[memoryview] = field(default_factory=deque)
    has_left: bool = False


class Links:
    """The connections of one rank. Thread-safe.

    Args:
        unique_id: of the communicator.
        rank, size: this one, and how many there are.
        meeting: where all meet, if this process made the id and no other rank of it took that on.
    """

    def __init__(
        self, unique_id: bytes, rank: int, size: int, meeting: socket.socket | None
    ) -> None:
        _, self._cookie, self._port = _ID.unpack(unique_id[: _ID.size])
        self._rank, self._size = rank, size
        self._meeting = meeting
        self._lock = threading.Lock()
        self._links: dict[int, _Link] = {}
        self._messages: dict[Key, tuple[bytes, bytes]] = {}
        self._opened: set[socket.socket] = {meeting} if meeting else set()
        self._wake, self._woken = socket.socketpair()
        self._opened |= {self._wake, self._woken}
        self._is_over = False
        self._is_leaving = False
        self.state = IN_PROGRESS
        self._thread = threading.Thread(target=self._work, name="emulated-nccl", daemon=True)
        self._thread.start()

    @property
    def is_over(self) -> bool:
        """True if it was aborted or closed."""
        return self._is_over

    def send(self, peer: int, kind: int, number: int, check: bytes, data: bytes) -> None:
        """Sends a message some time; to itself at once."""
        with self._lock:
            if peer == self._rank:
                self._messages[peer, kind, number] = check, data
            elif peer in self._links:
                head = _FRAME.pack(kind, number, len(data), check)
                self._links[peer].outgoing.append(memoryview(head + data))
        self._rouse()

    def has(self, key: Key) -> bool:
        """True if a message has come."""
        return key in self._messages

    def take(self, key: Key) -> tuple[bytes, bytes]:
        """A message that has come: what is compared, and what it says."""
        with self._lock:
            return self._messages.pop(key)

    def refuse(self) -> None:
        """Notes that ranks do different things."""
        self.state = INVALID_USAGE

    def abort(self) -> None:
        """Ends all connections at once."""
        self._is_over = True
        self._shut()
        self._thread.join(_LINGER_S)

    def close(self) -> None:
        """Sends what is left, says goodbye, and ends."""
        self._is_leaving = True
        for peer in list(self._links):
            self.send(peer, GOODBYE, 0, bytes(8), b"")
        self._thread.join(_LINGER_S)
        self.abort()

    def _rouse(self) -> None:
        with suppress(OSError):
            self._wake.send(b"\0")

    def _shut(self) -> None:
        self._rouse()
        for each in list(self._opened):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    # The thread

    def _work(self) -> None:
        try:
            self._connect()
            self.state = SUCCESS
            self._exchange()
        except (OSError, EOFError, struct.error):
            if not self._is_over:
                self.state = REMOTE_ERROR
        finally:
            for each in self._opened:
                each.close()

    def _connect(self) -> None:
        own = self._open(_listening())
        ports = self._met(own.getsockname()[1])
        for peer in range(self._rank):
            made = self._open(socket.create_connection((_HOST, ports[peer])))
            made.sendall(_JOIN.pack(self._cookie, self._rank, self._size, 0))
            self._links[peer] = _Link(peer, made)
        while len(self._links) < self._size - 1:
            made, peer, _ = self._accepted(own)
            self._links[peer] = _Link(peer, made)
        own.close()

    def _open(self, made: socket.socket) -> socket.socket:
        self._opened.add(made)
        if self._is_over:
            raise EOFError
        return made

    def _accepted(self, listener: socket.socket) -> tuple[socket.socket, int, int]:
        """A rank that connects: its connection, number and port; strangers are turned away."""
        while True:
            made = self._open(listener.accept()[0])
            cookie, rank, size, port = _JOIN.unpack(_exactly(made, _JOIN.size))
            if cookie == self._cookie and size == self._size:
                return made, rank, port
            made.close()

    def _met(self, own: int) -> tuple[int, ...]:
        """The ports of all ranks."""
        table = struct.Struct(f"<{self._size}H")
        if self._meeting is None:
            asked = self._open(socket.create_connection((_HOST, self._port)))
            asked.sendall(_JOIN.pack(self._cookie, self._rank, self._size, own))
            found = table.unpack(_exactly(asked, table.size))
            asked.close()
            return found
        ports, waiting = {self._rank: own}, []
        while len(ports) < self._size:
            made, rank, port = self._accepted(self._meeting)
            waiting.append(made)
            ports[rank] = port
        row = tuple(ports[rank] for rank in range(self._size))
        for made in waiting:
            made.sendall(table.pack(*row))
            made.close()
        self._meeting.close()
        return row

    def _exchange(self) -> None:
        """Reads and writes until all is said."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._woken, selectors.EVENT_READ)
            for link in self._links.values():
                link.socket.setblocking(False)
                selector.register(link.socket, selectors.EVENT_READ, link)
            while not self._is_over and not self._is_done():
                with self._lock:
                    for link in self._links.values():
                        wanted = 0 if link.has_left else selectors.EVENT_READ
                        wanted |= selectors.EVENT_WRITE if link.outgoing else 0
                        _watch(selector, link, wanted)
                for key, mask in selector.select():
                    if key.data is None:
                        self._woken.recv(_PIECE)
                    else:
                        self._serve(key.data, mask)

    def _is_done(self) -> bool:
        return self._is_leaving and not any(link.outgoing for link in self._links.values())

    def _serve(self, link: _Link, mask: int) -> None:
        if mask & selectors.EVENT_WRITE:
            with self._lock:
                first = link.outgoing[0]
            sent = link.socket.send(first[:_PIECE])
            with self._lock:
                link.outgoing[0] = first[sent:]
                if sent == len(first):
                    link.outgoing.popleft()
        if mask & selectors.EVENT_READ:
            data = link.socket.recv(_PIECE)
            if not data and not link.has_left and not self._is_leaving:
                raise EOFError
            link.incoming += data
            link.has_left = link.has_left or not data
            self._read(link)

    def _read(self, link: _Link) -> None:
        while len(link.incoming) >= _FRAME.size:
            kind, number, nbytes, check = _FRAME.unpack_from(link.incoming)
            if len(link.incoming) < _FRAME.size + nbytes:
                return
            data = bytes(link.incoming[_FRAME.size : _FRAME.size + nbytes])
            del link.incoming[: _FRAME.size + nbytes]
            if kind == GOODBYE:
                link.has_left = True
            else:
                with self._lock:
                    self._messages[link.peer, kind, number] = check, data


def _watch(selector: selectors.BaseSelector, link: _Link, wanted: int) -> None:
    """Makes a selector look for these events of a connection."""
    known = selector.get_map().get(link.socket)
    if known is None and wanted:
        selector.register(link.socket, wanted, link)
    elif known is not None and not wanted:
        selector.unregister(link.socket)
    elif known is not None and known.events != wanted:
        selector.modify(link.socket, wanted, link)


def _exactly(connection: socket.socket, nbytes: int) -> bytes:
    data = b""
    while len(data) < nbytes:
        piece = connection.recv(nbytes - len(data))
        if not piece:
            raise EOFError
        data += piece
    return data
