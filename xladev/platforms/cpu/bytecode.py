"""Bytecode: what a program does besides its microkernels, as numbers instead of machine code.

The entry of a program, and kernels that only call microkernels, are a few additions around calls.
LLVM takes two milliseconds for them; as bytecode, which a function that ships compiled carries out
(`bytecode_runner.py`), they take none. An iteration of such a kernel's loop takes microseconds in
the microkernel that it calls, and some ten nanoseconds more in bytecode than in machine code.

An instruction is four i32: an operation and three operands, registers unless `BytecodeOperation`
says otherwise. Registers are i64; those below 0 hold what is known before the program runs. A call
is followed by the registers of its arguments, four to an instruction.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType

from xladev.errors import FormatError

MAGIC = b"XLADEVS\1"
_SIZES = struct.Struct("<8s4q")
_KNOWN = struct.Struct("<qq")


class BytecodeOperation(IntEnum):
    """What an instruction does, by its first number; its operands are ``a``, ``b`` and ``c``."""

    RETURN = 0
    MOVE = 1
    """c = a."""
    JUMP = 2
    """To instruction number a."""
    BRANCH = 3
    """To instruction number b if a is not 0, else to number c."""
    LOAD = 4
    """c = the word at address a, plus b itself."""
    ADDRESS = 5
    """c = the address of register number a."""
    CLEAR = 6
    """64 bytes at address a are set to 0."""
    COPY = 7
    """c bytes from address b to address a."""
    MARK = 8
    """Whoever traces hears that step a was done."""
    FENCE = 9
    """What was stored before is seen before what is stored after."""


BINARY: Mapping[str, int] = MappingProxyType(
    {
        name: 16 + number
        for number, name in enumerate(
            ["add", "sub", "mul", "udiv", "urem", "sdiv", "srem"]
            + ["and", "or", "xor", "smin", "smax"]
            + [f"icmp {how}" for how in ("eq", "ne", "slt", "sle", "sgt", "sge")]
        )
    }
)
"""Operations c = a op b, by LLVM's names."""

CALL = 64
"""A call of the microkernel at address a with n arguments is operation `CALL` + n."""

MOST_ARGUMENTS = 32

ARGUMENTS, RESULTS, SCRATCH = 0, 1, 2
"""Registers that hold a program's addresses when it begins."""

FIRST_FREE = 3


class OperandKind(IntEnum):
    """What a register that is known beforehand holds."""

    NUMBER = 0
    MICROKERNEL = 1
    """Address of a microkernel, by its number in the payload."""
    CONSTANT = 2
    """Address of a constant, by its number in the payload."""
    TABLE = 3
    """Address in the bytecode's own bytes."""
    KERNEL = 4
    """Address of a kernel that is machine code, by its number in `KERNELS`."""
    LIBRARY = 5
    """Address of a function of a library of the host, by its number in the payload."""


KERNELS = "xladev_kernels"
"""Array of pointers to the kernels of a program that its bytecode calls."""


@dataclass(frozen=True, slots=True)
class Bytecode:
    """A program of numbers.

    Attributes:
        instructions: i32, four to each.
        known: the registers below 0, from -1 on: what kind of value, and its number.
        registers: how many others there are.
        table: bytes that microkernels read; they are aligned as constants are.
    """

    instructions: bytes
    known: tuple[tuple[int, int], ...]
    registers: int
    table: bytes | bytearray | memoryview = b""

    @property
    def kernels(self) -> int:
        """How many kernels it calls that are machine code."""
        return max(
            (number + 1 for kind, number in self.known if kind == OperandKind.KERNEL), default=0
        )

    def to_bytes(self) -> bytes:
        """Magic, sizes, then everything in order."""
        known = b"".join(_KNOWN.pack(*each) for each in self.known)
        sizes = (len(self.instructions), len(self.known), self.registers, len(self.table))
        return b"".join([_SIZES.pack(MAGIC, *sizes), known, self.instructions, self.table])

    @staticmethod
    def from_bytes(data: bytes) -> Bytecode:
        """What `to_bytes` wrote; a FormatError if it is damaged."""
        try:
            _, code, count, registers, table = _SIZES.unpack_from(data)
            at = _SIZES.size
            known = tuple(_KNOWN.iter_unpack(data[at : at + count * _KNOWN.size]))
        except struct.error as e:
            raise FormatError("damaged CPU bytecode", why=str(e)) from e
        at += count * _KNOWN.size
        if len(known) != count or at + code + table != len(data):
            raise FormatError("damaged CPU bytecode", why=f"it has {len(data)} bytes")
        # Tables of long transforms are megabytes: they are not copied.
        table = memoryview(data)[at + code :]
        return Bytecode(data[at : at + code], known, registers, table)


def is_bytecode(code: bytes) -> bool:
    """Whether code of a payload is bytecode rather than an object file."""
    return code.startswith(MAGIC)


def packed_instructions(numbers: list[int]) -> bytes:
    """Numbers of instructions as bytecode holds them."""
    return array("i", numbers).tobytes()
