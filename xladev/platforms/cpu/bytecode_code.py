"""Instructions of bytecode as they are written: registers, and what they hold that is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xladev.codegen.llvm import I64, ModuleBuilder
from xladev.platforms.cpu.bytecode import (
    BINARY,
    CALL,
    FIRST_FREE,
    MOST_ARGUMENTS,
    Bytecode,
    BytecodeOperation,
    OperandKind,
    packed_instructions,
)
from xladev.platforms.cpu.lapack.routines import LIBRARY_PREFIX

_LINE = 8
"""Registers in 64 bytes: what is on the stack is aligned so."""

_WRAPPED = (1 << 64) - 1


class NoBytecodeError(Exception):
    """A program that is none for bytecode. Whoever writes one catches it."""


@dataclass(frozen=True, slots=True)
class Place:
    """An address: what a register holds, and bytes behind it."""

    base: int
    offset: int


Held = int | Place
"""A number that is known, or a register with an offset."""


@dataclass(slots=True)
class BytecodeCode:
    """The instructions so far, and what registers hold that are known beforehand.

    Attributes:
        module: with all kernels, for the microkernels in `ModuleBuilder.microkernels`' order.
        code: numbers of the instructions.
        registers: how many are taken.
        table: bytes that microkernels read.
        known: registers below 0, by what they hold.
    """

    module: ModuleBuilder
    code: list[int] = field(default_factory=list[int])
    registers: int = FIRST_FREE
    table: bytearray = field(default_factory=bytearray)
    known: dict[tuple[int, int], int] = field(default_factory=dict[tuple[int, int], int])
    _microkernels: dict[str, int] = field(init=False)
    _library: dict[str, int] = field(init=False)
    _tables: dict[str, int] = field(default_factory=dict[str, int])

    def __post_init__(self) -> None:
        self._microkernels = {name: n for n, name in enumerate(self.module.microkernels())}
        self._library = {name: n for n, name in enumerate(self.module.declared(LIBRARY_PREFIX))}

    def bytecode(self) -> Bytecode:
        """What was written."""
        return Bytecode(
            packed_instructions(self.code), tuple(self.known), self.registers, self.table
        )

    def call(self, function: int, arguments: Sequence[int]) -> None:
        """Calls the function at an address."""
        if len(arguments) > MOST_ARGUMENTS:
            raise NoBytecodeError
        self.do(CALL + len(arguments), function)
        self.code += [*arguments, *[0] * (-len(arguments) % 4)]

    def do(self, operation: int, a: int = 0, b: int = 0, c: int = 0) -> None:
        """Appends an instruction."""
        self.code += (operation, a, b, c)

    def mark(self, mark: int) -> None:
        """Says what was done."""
        self.do(BytecodeOperation.MARK, self.number(mark))

    def fresh(self) -> int:
        """A register that nothing has."""
        self.registers += 1
        return self.registers - 1

    def fresh_line(self, count: int) -> int:
        """The first of some registers in a row, at a multiple of 64 bytes."""
        first = -(-self.registers // _LINE) * _LINE
        self.registers = first + count
        return first

    def number(self, value: int) -> int:
        """The register of a number."""
        return self.held(OperandKind.NUMBER, value)

    def register(self, value: Held) -> int:
        """A register that holds a value, after instructions if need be."""
        if isinstance(value, int):
            return self.number(value)
        if not value.offset:
            return value.base
        made = self.fresh()
        self.do(BINARY["add"], value.base, self.number(value.offset), made)
        return made

    def function(self, symbol: str) -> int:
        """The register of the address of a microkernel, or of a library's function."""
        if symbol in self._library:
            return self.held(OperandKind.LIBRARY, self._library[symbol])
        if symbol not in self._microkernels:
            raise NoBytecodeError
        return self.held(OperandKind.MICROKERNEL, self._microkernels[symbol])

    def table_of(self, symbol: str) -> int:
        """The register of a table's address."""
        if symbol not in self._tables:
            self._tables[symbol] = len(self.table)
            self.table += self._bytes_of(symbol)
            self.table += bytes(-len(self.table) % 64)
        return self.held(OperandKind.TABLE, self._tables[symbol])

    def _bytes_of(self, symbol: str) -> bytes:
        """What a table of whole numbers, or of anything as bytes, holds."""
        data, found = self.module.bytes_of(symbol), self.module.table_of(symbol)
        if data is not None:
            return data
        if found is None or found.element != I64:
            raise NoBytecodeError
        return b"".join((int(n) & _WRAPPED).to_bytes(8, "little") for n in found.numbers)

    def held(self, kind: OperandKind, number: int) -> int:
        """The register that holds something from the beginning on."""
        key = int(kind), number
        if key not in self.known:
            self.known[key] = -len(self.known) - 1
        return self.known[key]
