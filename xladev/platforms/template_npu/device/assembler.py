"""Assembler and disassembler: command lists as text and back, for people and for fault reports.

A line is ``OPCODE[.FUNCTION].TYPE[>RESULT] (COUNTS) OPERAND=ADDRESS:[STRIDES]... SCALAR=VALUE...
wait=S>=V,... signal=S``; what follows ``#`` is a comment. Operands and numbers that are all zero
may be left out.

What a vendor replaces: nothing, if their tools disassemble; fault reports read better with one.
"""

from __future__ import annotations

import re
import struct

from xladev.platforms.template_npu.device import isa
from xladev.platforms.template_npu.device.isa import Instruction, Opcode, Operand

_LINE = re.compile(r"(?P<name>[\w.>]+)\s*(\((?P<counts>[^)]*)\))?(?P<rest>.*)")
_FIELD = re.compile(r"(\w+)=(\S+)")
_OPERAND = re.compile(r"(-?\w+)(?::\[([^\]]*)\])?$")


class AssemblyError(ValueError):
    """Text that is no instruction, with its line number."""


def disassemble(code: bytes) -> str:
    """Text of a command list, a line for each word."""
    return "\n".join(disassemble_word(word) for word in isa.words_of(code))


def disassemble_word(word: bytes) -> str:
    """One word as a line."""
    instruction = isa.decode(word) if len(word) == isa.WORD_NBYTES else None
    if instruction is None:
        return f"# no instruction: {word[:16].hex()}"
    return instruction_text(instruction)


def instruction_text(i: Instruction) -> str:
    """One instruction as a line."""
    form = isa.FORMATS[i.opcode.format]
    parts = [_head(i), f"({', '.join(map(str, i.counts))})"]
    for name, operand in zip(form.operands, i.operands, strict=True):
        if operand.address or any(operand.strides):
            strides = ",".join(map(str, operand.strides))
            parts.append(f"{name}={operand.address:#x}:[{strides}]")
    parts += [f"{n}={v}" for n, v in zip(form.scalars, i.scalars, strict=True) if v]
    if i.waits:
        parts.append("wait=" + ",".join(f"{s}>={v}" for s, v in i.waits))
    if i.signal != isa.NO_SEMAPHORE:
        parts.append(f"signal={i.signal}")
    return " ".join(parts)


def _head(i: Instruction) -> str:
    name = i.opcode.name
    if i.opcode.functions:
        known = i.function < len(i.opcode.functions)
        name += f".{i.function_name if known else i.function}"
    name += f".{_type_name(i.type)}"
    return name if i.result == i.type else f"{name}>{_type_name(i.result)}"


def _type_name(number: int) -> str:
    return isa.TYPES[number].name if number < len(isa.TYPES) else str(number)


def assemble(text: str) -> bytes:
    """The command list that `disassemble` shows so.

    Raises:
        AssemblyError: a line that is no instruction.
    """
    code: list[bytes] = []
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.split("#", 1)[0].strip()
        if not stripped:
            continue
        try:
            code.append(isa.encode(_parse(stripped)))
        except (ValueError, KeyError, IndexError, struct.error) as e:
            raise AssemblyError(f"line {number}: {stripped!r}: {e}") from e
    return b"".join(code)


def _parse(line: str) -> Instruction:
    found = _LINE.match(line)
    if found is None:
        raise AssemblyError("no instruction")
    opcode, function, type_, result = _parse_head(found["name"])
    counts = _numbers(found["counts"] or "1,1,1,1")
    fields = dict(_FIELD.findall(found["rest"]))
    form = isa.FORMATS[opcode.format]
    operands = tuple(_parse_operand(fields.pop(n, "0"), form.strides) for n in form.operands)
    scalars = tuple(int(fields.pop(n, "0"), 0) for n in form.scalars)
    waits = tuple(_parse_wait(w) for w in fields.pop("wait", "").split(",") if w)
    signal = int(fields.pop("signal", str(isa.NO_SEMAPHORE)))
    if fields or len(counts) != isa.LOOP_COUNT:
        raise AssemblyError(f"bad counts or unknown fields {sorted(fields)}")
    a, b, c, d = counts
    return Instruction(
        opcode, function, type_, result, (a, b, c, d), operands, scalars, signal, waits
    )


def _parse_head(name: str) -> tuple[Opcode, int, int, int]:
    head, _, result = name.partition(">")
    mnemonic, *words = head.split(".")
    opcode = isa.BY_NAME[mnemonic]
    function = 0
    if opcode.functions:
        word = words.pop(0)
        function = int(word) if word.isdigit() else opcode.functions.index(word)
    (type_name,) = words
    type_ = _type_number(type_name)
    return opcode, function, type_, _type_number(result) if result else type_


def _type_number(name: str) -> int:
    return int(name) if name.isdigit() else isa.TYPE_NUMBERS[name]


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(word, 0) for word in text.split(",") if word.strip())


def _parse_operand(text: str, strides: int) -> Operand:
    found = _OPERAND.match(text)
    if found is None:
        raise AssemblyError(f"no operand: {text!r}")
    given = _numbers(found[2]) if found[2] else (0,) * strides
    if len(given) != strides:
        raise AssemblyError(f"{text!r} has {len(given)} strides, not {strides}")
    return Operand(int(found[1], 0), given)


def _parse_wait(text: str) -> tuple[int, int]:
    semaphore, value = text.split(">=")
    return int(semaphore), int(value)
