"""The payload of a CPU executable: constants, then object code."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass

from xladev.compiler.json_values import DAMAGE, numbers, parse_json, shown
from xladev.errors import FormatError

_LENGTH = struct.Struct("<Q")
ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class CpuPayload:
    """Everything the code needs.

    Attributes:
        constants: bytes of each constant array.
        code: an object file.
        is_parallel: whether it imports the pool of threads.
    """

    constants: tuple[bytes, ...]
    code: bytes
    is_parallel: bool = False

    def to_bytes(self) -> bytes:
        """Length of the numbers; numbers (JSON): 1 if parallel, and sizes; constants; code."""
        numbers = [int(self.is_parallel), *map(len, self.constants)]
        sizes = json.dumps(numbers).encode()
        return b"".join([_LENGTH.pack(len(sizes)), sizes, *self.constants, self.code])

    @staticmethod
    def from_bytes(data: bytes) -> CpuPayload:
        """What `to_bytes` wrote; a FormatError if it is damaged."""
        try:
            (length,) = _LENGTH.unpack_from(data)
            at = _LENGTH.size + length
            constants: list[bytes] = []
            is_parallel, *sizes = numbers(parse_json(data[_LENGTH.size : at]))
            for nbytes in sizes:
                constants.append(data[at : at + nbytes])
                at += nbytes
        except (struct.error, *DAMAGE) as e:
            raise FormatError("damaged CPU executable", why=shown(e)) from e
        if at > len(data):
            raise FormatError("damaged CPU executable", why="its constants are truncated")
        return CpuPayload(tuple(constants), data[at:], bool(is_parallel))
