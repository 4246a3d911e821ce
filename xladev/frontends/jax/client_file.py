"""A compiled program as bytes: options, what clients are shown of it, and the program's own file.

Little endian: magic, SHA-256 of all that follows, length of the head (u32), head (JSON), and these
three parts. Loading one is running code: the checksum finds damage, not malice.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Sequence
from typing import Any

from xladev.client import load_compiled
from xladev.compiler.json_values import DAMAGE, number_rows, numbers, parse_json, shown, text
from xladev.compiler.program.program_file import program_from_bytes, program_pieces
from xladev.errors import FormatError, UnsupportedError
from xladev.frontends.jax.compile_options import read_options
from xladev.frontends.jax.conversion import ShownProgram
from xladev.frontends.jax.entry_interface import BufferPlacement, EntryInterface
from xladev.frontends.jax.platform_client import PlatformClient
from xladev.frontends.jax.program import JaxProgram
from xladev.frontends.jax.shardings import Shardings

MAGIC = b"XLADEVJ\4"
DIGEST_NBYTES = 32
_LENGTH = struct.Struct("<I")


def write(program: JaxProgram) -> bytes:
    """The bytes of a program.

    Raises:
        UnsupportedError: it calls Python functions, which another process has not.
    """
    if program.callbacks:
        raise UnsupportedError(
            f"{program.compiled.program.name} calls Python functions and cannot be serialized",
            why="they live in the process that traced them",
            hint="leave out pure_callback, io_callback and debug.print where a program is stored",
        )
    file = b"".join(program_pieces(program.compiled.program, is_checked=True))
    parts = (program.options, program.shown.code, file)
    sizes = [len(p) for p in parts]
    told: dict[str, Any] = {"sizes": sizes, "rows": program.rows, "form": program.shown.form}
    told |= {"parameters": _told(program.interface.parameters)}
    told |= {"results": _told(program.interface.results)}
    told |= {"shardings": _told_shardings(program.shardings)}
    head = json.dumps(told).encode()
    return sealed(b"".join((_LENGTH.pack(len(head)), head, *parts)))


def sealed(content: bytes) -> bytes:
    """A file's bytes, with magic and checksum before them."""
    return b"".join((MAGIC, hashlib.sha256(content).digest(), content))


def read(client: PlatformClient, data: bytes) -> JaxProgram:
    """The program that `write` wrote, on devices of ``client``.

    Raises:
        FormatError: damaged, or made by another version, or for another platform.
    """
    try:
        head, (options, code, file) = _split(data)
        rows = tuple(tuple(row) for row in number_rows(head["rows"]))
        shown_program = ShownProgram(text(head["form"]), code)
        interface = EntryInterface(_places(head["parameters"]), _places(head["results"]))
        shardings = _shardings(head["shardings"])
    except (struct.error, *DAMAGE) as error:
        raise FormatError("damaged serialized executable", why=shown(error)) from error
    compiled = load_compiled(program_from_bytes(file, is_checked=True), client.platform, rows)
    return JaxProgram(
        compiled, shown_program, options, rows, interface,
        shardings=shardings, is_portable=read_options(options).is_portable, is_own=client.is_own,
    )  # fmt: skip


def _told(given: Sequence[BufferPlacement]) -> list[list[int]]:
    return [[place.kind, *place.order] for place in given]


def _places(rows: Any) -> tuple[BufferPlacement, ...]:
    return tuple(BufferPlacement(tuple(order), kind) for kind, *order in number_rows(rows))


def _told_shardings(given: Shardings | None) -> list[list[str]] | None:
    if given is None:
        return None
    return [[part.hex() for part in side] for side in (given.parameters, given.results)]


def _shardings(told: Any) -> Shardings | None:
    if told is None:
        return None
    parameters, results = (tuple(bytes.fromhex(text(part)) for part in side) for side in told)
    return Shardings(parameters, results)


def _split(data: bytes) -> tuple[dict[str, Any], tuple[bytes, bytes, bytes]]:
    if not data.startswith(MAGIC):
        raise FormatError("these bytes are no executable of xladev's PJRT plugin")
    start = len(MAGIC) + DIGEST_NBYTES
    if hashlib.sha256(memoryview(data)[start:]).digest() != data[len(MAGIC) : start]:
        raise FormatError("damaged serialized executable", why="its checksum does not match")
    (length,) = _LENGTH.unpack_from(data, start)
    at = start + _LENGTH.size
    head = parse_json(data[at : at + length])
    at += length
    parts: list[bytes] = []
    for size in numbers(head["sizes"]):
        parts.append(data[at : at + size])
        at += size
    if at != len(data) or len(parts) != 3:
        raise FormatError("damaged serialized executable", why="it is cut or too long")
    return head, (parts[0], parts[1], parts[2])
