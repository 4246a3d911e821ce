"""Program <-> bytes: one file, without pickle, checked before anything of it is used.

File, little endian: magic (8 bytes), format version (u32), length of the index (u64), SHA-256 of
everything after it (32 bytes), index (JSON, UTF-8), then the executables' files and the constants'
bytes one after another, with the lengths that the index gives. After the index and each executable
are zeros up to the next multiple of `BLOB_ALIGNMENT` bytes.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from xladev.compiler.executable import Executable, Piece, content_digest, padding
from xladev.compiler.json_values import (
    DAMAGE,
    flag,
    number,
    number_rows,
    numbers,
    parse_json,
    shown,
    text,
)
from xladev.compiler.program.program import ConstantData, Fallback, Procedure, Program, Slot
from xladev.compiler.program.program_check import check_program
from xladev.compiler.program.thunks import THUNK_KINDS, Thunk
from xladev.compiler.shape_json import shape_from_json, shape_to_json
from xladev.compiler.signature import Signature
from xladev.errors import FormatError, XladevError

MAGIC = b"XLADEVP\0"
PROGRAM_VERSION = 5
"""Version of the file and of the thunks in it; another one is refused."""

_HEAD = struct.Struct("<IQ")
_NO_DIGEST = bytes(32)
_HEADER_NBYTES = len(MAGIC) + _HEAD.size + len(_NO_DIGEST)
_KIND_NAMES = {kind: name for name, kind in THUNK_KINDS.items()}


def program_to_bytes(program: Program) -> bytes:
    """The file's bytes."""
    return b"".join(program_pieces(program))


def program_pieces(program: Program, *, is_checked: bool = False) -> tuple[Piece, ...]:
    """The file's bytes in pieces, one after another: what is long is not copied.

    Args:
        program: what to write.
        is_checked: true where something larger has a checksum of them; their own is then zeros.
    """
    executables = [e.pieces(is_checked=True) for e in program.executables]
    constants = [c.data for c in program.constants]
    index = _index(program) | {
        "executables": [sum(map(len, pieces)) for pieces in executables],
        "constants": [[shape_to_json(c.shape), len(c.data)] for c in program.constants],
    }
    described = json.dumps(index, sort_keys=True, separators=(",", ":")).encode()
    body: list[Piece] = [described, padding(_HEADER_NBYTES + len(described))]
    for pieces, nbytes in zip(executables, index["executables"], strict=True):
        body += [*pieces, padding(nbytes)]
    body += constants
    head = _HEAD.pack(PROGRAM_VERSION, len(described))
    return (MAGIC, head, _NO_DIGEST if is_checked else content_digest(head, *body), *body)


def program_from_bytes(data: bytes | memoryview, *, is_checked: bool = False) -> Program:
    """The program that `program_to_bytes` wrote, checked.

    Args:
        data: the file's bytes.
        is_checked: true where the checksum of something larger was right for them.

    Raises:
        FormatError: no such file, another version, truncated or damaged.
    """
    try:
        return _read(memoryview(data), is_checked)
    except FormatError as error:
        error.at(f"a program file of {len(data)} bytes")
        raise


def _read(view: memoryview, is_checked: bool) -> Program:
    index_nbytes = _check_header(view, is_checked)
    body = view[_HEADER_NBYTES:]
    try:
        index = parse_json(bytes(body[:index_nbytes]))
        program = _program(index, _Blobs(view, _HEADER_NBYTES + index_nbytes))
        check_program(program)
    except FormatError:
        raise
    except (*DAMAGE, XladevError) as e:
        raise FormatError("damaged program", why=shown(e)) from e
    return program


def is_program(data: bytes) -> bool:
    """True if ``data`` begins like a program's file."""
    return data[: len(MAGIC)] == MAGIC


def _check_header(view: memoryview, is_checked: bool) -> int:
    """Length of the index."""
    if not is_program(bytes(view[: len(MAGIC)])):
        raise FormatError("this is no xladev program", why="its first bytes are not the magic")
    if len(view) < _HEADER_NBYTES:
        raise FormatError("program is truncated", why="its header is incomplete")
    head = bytes(view[len(MAGIC) : len(MAGIC) + _HEAD.size])
    version, index_nbytes = _HEAD.unpack(head)
    if version != PROGRAM_VERSION:
        raise FormatError(
            f"program of format version {version}",
            why=f"this xladev reads version {PROGRAM_VERSION}",
            hint="compile the program again",
        )
    digest = view[_HEADER_NBYTES - len(_NO_DIGEST) : _HEADER_NBYTES]
    if not is_checked and content_digest(head, view[_HEADER_NBYTES:]) != digest:
        raise FormatError("program is truncated or damaged", why="its checksum does not match")
    return int(index_nbytes)


class _Blobs:
    """Reads blobs one after another."""

    def __init__(self, view: memoryview, at: int) -> None:
        self._view = view
        self._at = at + len(padding(at))

    def take_padded(self, nbytes: Any) -> memoryview:
        """The next blob, which has zeros behind it."""
        blob = self.take(nbytes)
        self._at += len(padding(self._at))
        return blob

    def take(self, nbytes: Any) -> memoryview:
        """The next blob."""
        end = self._at + number(nbytes)
        if end > len(self._view):
            raise FormatError("program is truncated", why="a blob reaches beyond its end")
        blob = self._view[self._at : end]
        self._at = end
        return blob

    def finish(self) -> None:
        """Checks that nothing is left."""
        if self._at != len(self._view):
            raise FormatError("program has a tail", why=f"{len(self._view) - self._at} bytes more")


def _index(program: Program) -> dict[str, Any]:
    return {
        "signature": program.signature.to_json(),
        "platforms": list(program.platforms),
        "procedures": [_procedure_to_json(p) for p in program.procedures],
        "donors": list(program.donors),
        "instruction_counts": [list(c) for c in program.instruction_counts],
        "work_counts": [list(c) for c in program.work_counts],
        "fallbacks": [[f.instruction, f.opcode, f.platform, f.reason] for f in program.fallbacks],
    }


def _program(index: Mapping[str, Any], blobs: _Blobs) -> Program:
    executables = tuple(
        Executable.from_bytes(blobs.take_padded(n), is_checked=True) for n in index["executables"]
    )
    constants = tuple(
        ConstantData(shape_from_json(shape), bytes(blobs.take(n)))
        for shape, n in index["constants"]
    )
    blobs.finish()
    return Program(
        Signature.from_json(index["signature"]),
        tuple(map(text, index["platforms"])),
        executables,
        constants,
        tuple(map(_procedure_from_json, index["procedures"])),
        donors=tuple(map(number, index["donors"])),
        instruction_counts=tuple((text(n), number(c)) for n, c in index["instruction_counts"]),
        fallbacks=tuple(Fallback(*map(text, row)) for row in index["fallbacks"]),
        work_counts=tuple((text(n), number(c)) for n, c in index["work_counts"]),
    )


def _procedure_to_json(procedure: Procedure) -> dict[str, Any]:
    return {
        "name": procedure.name,
        "slots": [[shape_to_json(s.shape), s.platform] for s in procedure.slots],
        "parameters": list(procedure.parameters),
        "results": list(procedure.results),
        "thunks": [_thunk_to_json(t) for t in procedure.thunks],
    }


def _procedure_from_json(data: Mapping[str, Any]) -> Procedure:
    return Procedure(
        text(data["name"]),
        tuple(Slot(shape_from_json(s), number(p)) for s, p in data["slots"]),
        tuple(map(number, data["parameters"])),
        tuple(map(number, data["results"])),
        tuple(map(_thunk_from_json, data["thunks"])),
    )


def _thunk_to_json(thunk: Thunk) -> list[Any]:
    return [_KIND_NAMES[type(thunk)], *(getattr(thunk, f.name) for f in fields(thunk))]


def _thunk_from_json(data: Any) -> Thunk:
    kind = THUNK_KINDS[text(data[0])]
    names = fields(kind)
    if len(names) != len(data) - 1:
        raise ValueError(f"{data!r} has another number of fields than {kind.__name__}")
    values = {f.name: _READERS[str(f.type)](v) for f, v in zip(names, data[1:], strict=True)}
    return kind(**values)


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "bool": flag,
    "int": number,
    "int | None": lambda v: None if v is None else number(v),
    "str": text,
    "Slots": numbers,
    "tuple[int, ...]": numbers,
    "tuple[Slots, ...]": number_rows,
    "tuple[tuple[int, ...], ...]": number_rows,
    "tuple[tuple[int, int], ...]": number_rows,
}
"""How a thunk's field is read, by its annotation."""
