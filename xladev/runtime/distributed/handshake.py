"""Who connects proves that it knows the job's secret, and both sides tell who they are.

Each side sends a nonce; each answers with HMAC-SHA256, under the shared secret, of both nonces, its
side and what it says of itself. Nothing of a peer is believed before that. Messages are JSON of at
most `MOST_NBYTES`, with their length before them.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import socket
import struct
from typing import Any

from xladev import __version__
from xladev.errors import ProcessError

MAGIC = b"XLADEVP1"
MOST_NBYTES = 1 << 16
_LENGTH = struct.Struct("<I")
_NONCE_NBYTES, _DIGEST_NBYTES = 32, 32

Hello = dict[str, Any]


def greet(connection: socket.socket, secret: bytes, hello: Hello, where: str) -> Hello:
    """The connecting side; what the other says of itself.

    Raises:
        ProcessError: the other is no xladev, knows another secret, or refuses.
        OSError: the connection broke, or the other was silent for its time limit.
    """
    nonce = secrets.token_bytes(_NONCE_NBYTES)
    theirs = _opening(connection, where)
    connection.sendall(MAGIC + nonce)
    _send(connection, secret, b"client" + theirs + nonce, hello)
    answer = _receive(connection, secret, b"server" + nonce + theirs, where)
    if "refused" in answer:
        raise ProcessError(
            str(answer["refused"]), where=where, why="the process there refuses this one"
        )
    return answer


def welcome(connection: socket.socket, secret: bytes, where: str) -> tuple[Hello, bytes]:
    """The accepting side; what the other says of itself, and what to `answer` with.

    Raises:
        ProcessError: the other is no xladev, or knows another secret.
        OSError: as in `greet`.
    """
    nonce = secrets.token_bytes(_NONCE_NBYTES)
    connection.sendall(MAGIC + nonce)
    theirs = _opening(connection, where)
    hello = _receive(connection, secret, b"client" + nonce + theirs, where)
    return hello, b"server" + theirs + nonce


def answer(connection: socket.socket, secret: bytes, context: bytes, hello: Hello) -> None:
    """Ends the accepting side's part; a hello with ``refused`` says why there is no connection."""
    _send(connection, secret, context, hello)


def send_message(connection: socket.socket, secret: bytes, context: bytes, value: Any) -> None:
    """One more message on a connection that was greeted."""
    _send(connection, secret, context, {"value": value})


def receive_message(connection: socket.socket, secret: bytes, context: bytes, where: str) -> Any:
    """The message that `send_message` sent.

    Raises:
        ProcessError: it is damaged.
        OSError: as in `greet`.
    """
    return _receive(connection, secret, context, where)["value"]


def version_problem(hello: Hello) -> str | None:
    """Why the other cannot take part; None if nothing is known against it."""
    if hello.get("version") != __version__:
        return f"a process runs xladev {hello.get('version')}, another one {__version__}"
    return None


def _opening(connection: socket.socket, where: str) -> bytes:
    data = _exactly(connection, len(MAGIC) + _NONCE_NBYTES, where)
    if not data.startswith(MAGIC):
        raise ProcessError("who is at the other end is no xladev", where=where, why=repr(data[:16]))
    return data[len(MAGIC) :]


def _send(connection: socket.socket, secret: bytes, context: bytes, hello: Hello) -> None:
    text = json.dumps(hello).encode()
    digest = hmac.new(secret, context + text, hashlib.sha256).digest()
    connection.sendall(digest + _LENGTH.pack(len(text)) + text)


def _receive(connection: socket.socket, secret: bytes, context: bytes, where: str) -> Hello:
    head = _exactly(connection, _DIGEST_NBYTES + _LENGTH.size, where)
    (length,) = _LENGTH.unpack(head[_DIGEST_NBYTES:])
    if length > MOST_NBYTES:
        raise ProcessError("a greeting is too long", where=where, why=f"{length} bytes")
    text = _exactly(connection, length, where)
    digest = hmac.new(secret, context + text, hashlib.sha256).digest()
    if not hmac.compare_digest(digest, head[:_DIGEST_NBYTES]):
        raise ProcessError(
            "a process of this job has another secret",
            where=where,
            why="its answer does not fit the secret of this process",
            hint="give all processes the same XLADEV_SECRET, or look who else uses the port",
        )
    hello: Hello = json.loads(text)
    return hello


def _exactly(connection: socket.socket, nbytes: int, where: str) -> bytes:
    data = bytearray()
    while len(data) < nbytes:
        piece = connection.recv(nbytes - len(data))
        if not piece:
            raise ProcessError(
                "a connection ended while processes greeted each other",
                where=where,
                why="the other side has another secret, failed, or is no xladev",
                hint="give all processes the same XLADEV_SECRET, and look at their messages",
            )
        data += piece
    return bytes(data)
