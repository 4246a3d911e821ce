"""The payload of a CPU executable: microkernels that programs share, and object code.

Constants are the executable's blobs.
"""

from __future__ import annotations

import json
import struct
from dataclasses import astuple, dataclass

from xladev.compiler.json_values import DAMAGE, numbers, parse_json, shown
from xladev.errors import FormatError
from xladev.platforms.cpu.codegen.exchange import ExchangePlan

_LENGTH = struct.Struct("<Q")
_EXCHANGE_WANTS = struct.Struct("<QQ")
ALIGNMENT = 64
_PARALLEL, _LOOPS, _LIBRARY, _EXCHANGE, _FORKS = 1, 2, 4, 8, 16
"""What code imports besides microkernels."""


@dataclass(frozen=True, slots=True)
class MicrokernelCode:
    """A function that programs share; an executable brings it for processes without.

    Attributes:
        symbol: its name.
        code: an object file that exports it.
    """

    symbol: str
    code: bytes

    def to_bytes(self) -> bytes:
        """Symbol, zero, code."""
        return self.symbol.encode() + b"\0" + self.code

    @staticmethod
    def from_bytes(data: bytes) -> MicrokernelCode:
        """What `to_bytes` wrote; UnicodeDecodeError if it is damaged."""
        symbol, _, code = data.partition(b"\0")
        return MicrokernelCode(symbol.decode(), code)


@dataclass(frozen=True, slots=True)
class CpuPayload:
    """Everything the code needs.

    Attributes:
        codes: object files, at least one; the first may be a `Bytecode`.
        is_parallel: whether they import the pool of threads.
        has_loops: whether they import what loops look for interruptions with.
        exchange: what their collectives want; None if they have none.
        library: names of functions that they import of a library of the host, such as LAPACK.
        microkernels: what else they import.
        operations: what their kernels stand for, packed.
        has_forks: whether they import what runs parts of a program at once.
    """

    codes: tuple[bytes, ...]
    is_parallel: bool = False
    microkernels: tuple[MicrokernelCode, ...] = ()
    operations: bytes = b""
    has_loops: bool = False
    library: tuple[str, ...] = ()
    exchange: ExchangePlan | None = None
    has_forks: bool = False

    def to_bytes(self) -> bytes:
        """Length of the numbers; numbers (JSON); microkernels; code; operations.

        The numbers: 1 if parallel, plus 2 if there are loops, plus 4 if functions of a library are
        called, whose names then come before the operations, plus 8 if there are collectives, whose
        devices and bytes then come before the operations too, plus 16 if there are forks; how many
        microkernels and files, and the sizes of all.
        """
        microkernels = (p.to_bytes() for p in self.microkernels)
        library = ["\n".join(self.library).encode()] if self.library else []
        wants = [] if self.exchange is None else [_EXCHANGE_WANTS.pack(*astuple(self.exchange))]
        blocks = [*microkernels, *self.codes, *library, *wants, self.operations]
        imports = _PARALLEL * self.is_parallel | _LOOPS * self.has_loops
        imports |= _LIBRARY * bool(self.library) | _EXCHANGE * (self.exchange is not None)
        imports |= _FORKS * self.has_forks
        counts = [imports, len(self.microkernels), len(self.codes)]
        sizes = json.dumps([*counts, *map(len, blocks)]).encode()
        return b"".join([_LENGTH.pack(len(sizes)), sizes, *blocks])

    @staticmethod
    def from_bytes(data: bytes) -> CpuPayload:
        """What `to_bytes` wrote; a FormatError if it is damaged."""
        try:
            (length,) = _LENGTH.unpack_from(data)
            at = _LENGTH.size + length
            blocks: list[memoryview] = []
            imports, count, files, *sizes = numbers(parse_json(data[_LENGTH.size : at]))
            view = memoryview(data)
            for nbytes in sizes:
                blocks.append(view[at : at + nbytes])
                at += nbytes
            microkernels = tuple(MicrokernelCode.from_bytes(bytes(b)) for b in blocks[:count])
            codes = tuple(map(bytes, blocks[count : count + files]))
            named, rest = (1 if imports & _LIBRARY else 0), count + files
            library = tuple(bytes(b"".join(blocks[rest : rest + named])).decode().split())
            wants = blocks[rest + named :][: 1 if imports & _EXCHANGE else 0]
            exchange = ExchangePlan(*_EXCHANGE_WANTS.unpack(wants[0])) if wants else None
            (operations,) = blocks[rest + named + len(wants) :]
        except (struct.error, *DAMAGE) as e:
            raise FormatError("damaged CPU executable", why=shown(e)) from e
        if at > len(data):
            raise FormatError("damaged CPU executable", why="its code is truncated")
        if not codes:
            raise FormatError("damaged CPU executable", why="it has no code")
        work = bytes(operations)
        is_parallel, has_loops = bool(imports & _PARALLEL), bool(imports & _LOOPS)
        return CpuPayload(
            codes=codes,
            is_parallel=is_parallel,
            microkernels=microkernels,
            operations=work,
            has_loops=has_loops,
            library=library,
            exchange=exchange,
            has_forks=bool(imports & _FORKS),
        )
