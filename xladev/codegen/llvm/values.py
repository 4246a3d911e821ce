"""SSA values and the exact spelling of constants."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

from xladev.codegen.llvm.types import IrType
from xladev.errors import CompileError


@dataclass(frozen=True, slots=True)
class Value:
    """An SSA value or constant: its spelling, such as ``%v7`` or ``42``, and its type."""

    text: str
    type: IrType

    def __str__(self) -> str:
        return f"{self.type.text} {self.text}"

    @property
    def lanes(self) -> int:
        """Length of the vector; 1 for a scalar."""
        return self.type.lanes

    @property
    def number(self) -> int | None:
        """The whole number or null pointer that a constant is; None for any other value."""
        if self.text in _WORDS:
            return _WORDS[self.text]
        is_number = self.text.lstrip("-").isdecimal()
        return int(self.text) if is_number else None

    @property
    def symbol(self) -> str:
        """Name of the global whose address it is; empty for any other value."""
        return self.text[1:] if self.text.startswith("@") else ""


_WORDS: Mapping[str, int] = MappingProxyType({"null": 0, "true": 1, "false": 0})


Operand = Value | float | int
"""What arithmetic accepts: a value, or a Python number spread over the other operand's type."""


def constant(type_: IrType, number: float | int) -> Value:
    """A constant of any float or integer type, spread over all lanes.

    Floats are rounded to the type (nearest even) and spelled in hexadecimal, so no digit is lost;
    integers wrap to the type's width.
    """
    if type(number) is int and type_.lanes == 1:
        return _whole(type_, number)
    return Value(_spread(type_, _scalar_text(type_, number)), type_)


@lru_cache(1 << 12)
def _whole(type_: IrType, number: int) -> Value:
    """A constant that programs repeat: a size, an offset."""
    return Value(_scalar_text(type_, number), type_)


def from_bits(type_: IrType, pattern: int) -> Value:
    """The float constant with a bit pattern; the way to spell NaNs and infinities exactly."""
    layout = {"float": ("<I", "<f"), "double": ("<Q", "<d")}[type_.element]
    number = struct.unpack(layout[1], struct.pack(layout[0], pattern))[0]
    return Value(_spread(type_, _hex_double(number)), type_)


def poison(type_: IrType) -> Value:
    """A value of no content, to insert lanes into."""
    return Value("poison", type_)


def _spread(type_: IrType, text: str) -> str:
    return text if type_.lanes == 1 else f"splat ({type_.element} {text})"


def _scalar_text(type_: IrType, number: float | int) -> str:
    if type_.is_integer:
        return _integer_text(type_, number)
    if type_.element == "double":
        return _hex_double(float(number))
    if type_.element == "float":
        return _hex_double(_round_to_float(float(number)))
    if type_.element == "half":
        return f"0xH{struct.unpack('<H', struct.pack('<e', number))[0]:04X}"
    raise CompileError(f"no constants of LLVM type {type_}", hint="use an integer, float or double")


def _integer_text(type_: IrType, number: float | int) -> str:
    if not isinstance(number, int):
        raise CompileError(f"constant {number!r} is not an integer", where=f"type {type_}")
    if type_.bits == 1:
        return "true" if number & 1 else "false"
    half = 1 << (type_.bits - 1)
    return str(((number + half) & (2 * half - 1)) - half)


def _hex_double(number: float) -> str:
    return f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}"


def _round_to_float(number: float) -> float:
    try:
        return float(struct.unpack("<f", struct.pack("<f", number))[0])
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")
