"""Kernels as part of bytecode: what has a place there, and what leaves it as it was."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.unit.codegen.llvm.test_instructions import agree
from tests.unit.platforms.cpu.test_bytecode import PROGRAMS
from xladev.client import compile as compile_for
from xladev.codegen.llvm import (
    FLOAT,
    I1,
    I32,
    I64,
    PTR,
    VOID,
    FunctionBuilder,
    ModuleBuilder,
    Parameter,
    Value,
    constant,
    vector,
)
from xladev.compiler.options import CompileOptions
from xladev.hlo.text import parse_module
from xladev.platforms.cpu import bytecode_writer as bytecode_writer
from xladev.platforms.cpu.bytecode import BINARY, CALL, FIRST_FREE, BytecodeOperation, OperandKind
from xladev.platforms.cpu.bytecode_code import BytecodeCode, NoBytecodeError, Place
from xladev.platforms.cpu.bytecode_kernel import write_kernel

Write = Callable[[FunctionBuilder], object]
BASE = FIRST_FREE
_P = Value("%p", PTR)


def bytecode_with(write: Write) -> BytecodeCode:
    """A kernel of a pointer, which is in register `BASE`, as bytecode."""
    module = ModuleBuilder("m")
    b = module.function("kernel", VOID, [Parameter(PTR, "p")])
    b.keep()
    write(b)
    b.ret()
    bytecode = BytecodeCode(module, registers=BASE + 1)
    write_kernel(bytecode, "kernel", [Place(BASE, 0)])
    return bytecode


def call_microkernel(b: FunctionBuilder, *arguments: Value) -> None:
    b.call_microkernel("m", arguments, lambda inner, values: None)


def known(bytecode: BytecodeCode) -> dict[int, tuple[int, int]]:
    """What the registers below 0 hold."""
    return {register: key for key, register in bytecode.known.items()}


def test_a_call_is_one_instruction_and_its_arguments() -> None:
    bytecode = bytecode_with(lambda b: call_microkernel(b, _P, constant(I64, 7)))
    operation, function, *_, first, second, _, _ = bytecode.code
    assert (operation, first) == (CALL + 2, BASE)
    assert known(bytecode)[function] == (OperandKind.MICROKERNEL, 0)
    assert known(bytecode)[second] == (OperandKind.NUMBER, 7)


def test_offsets_of_arguments_are_added_once_before_loops() -> None:
    def write(b: FunctionBuilder) -> None:
        with b.loop(0, 9):
            call_microkernel(b, b.byte_address(_P, 64), b.byte_address(_P, 64))

    bytecode = bytecode_with(write)
    operation, base, offset, made = bytecode.code[:4]
    assert (operation, base, known(bytecode)[offset]) == (
        BINARY["add"],
        BASE,
        (OperandKind.NUMBER, 64),
    )
    (at,) = [n for n in range(0, len(bytecode.code), 4) if bytecode.code[n] == CALL + 2]
    assert bytecode.code[at + 4 : at + 6] == [made, made]
    assert bytecode.code[4] != BINARY["add"]


def test_tables_are_the_words_of_memory() -> None:
    bytecode = bytecode_with(lambda b: call_microkernel(b, b.table("t", I64, (1, -2, 1 << 63))))
    words = bytecode.table[:24]
    assert words == b"".join((n % (1 << 64)).to_bytes(8, "little") for n in (1, -2, 1 << 63))
    assert len(bytecode.table) == 64
    assert (OperandKind.TABLE, 0) in bytecode.known


def test_cleared_memory_and_fences() -> None:
    def write(b: FunctionBuilder) -> None:
        b.store(constant(vector(I64, 8), 0), _P, align=8)
        b.fence()

    assert bytecode_with(write).code == [
        BytecodeOperation.CLEAR,
        BASE,
        0,
        0,
        BytecodeOperation.FENCE,
        0,
        0,
        0,
    ]


def test_what_is_known_is_worked_out() -> None:
    def write(b: FunctionBuilder) -> None:
        least = b.intrinsic("smin", constant(I64, 5), b.mul(constant(I64, 3), 4))
        call_microkernel(b, b.cast("zext", b.icmp("slt", least, 6), I64))

    bytecode = bytecode_with(write)
    assert bytecode.code[0] == CALL + 1
    assert known(bytecode)[bytecode.code[4]] == (OperandKind.NUMBER, 1)


def swap(b: FunctionBuilder) -> None:
    with b.carried_loop(0, 9, initial=(_P, b.byte_address(_P, 8))) as loop:
        loop.carry(loop.values[1], loop.values[0])


_OTHERS: dict[str, Write] = {
    "a float": lambda b: b.load(FLOAT, _P),
    "half a word": lambda b: b.load(I32, _P),
    "a volatile load": lambda b: b.load(I64, _P, volatile=True),
    "a store of a number": lambda b: b.store(constant(I64, 0), _P),
    "a store of other vectors": lambda b: b.store(constant(vector(I64, 4), 0), _P),
    "a store of ones": lambda b: b.store(constant(vector(I64, 8), 1), _P),
    "a vector": lambda b: b.add(constant(vector(I64, 2), 1), 1),
    "a narrow sum": lambda b: b.add(constant(I32, 1), 1),
    "a shift": lambda b: b.shl(b.load(I64, _P), 1),
    "an unsigned comparison": lambda b: b.icmp("ult", b.load(I64, _P), 1),
    "an intrinsic of one operand": lambda b: b.intrinsic("ctpop", b.load(I64, _P)),
    "an intrinsic of floats": lambda b: b.intrinsic("maximum", constant(FLOAT, 1.0), 2.0),
    "a sign": lambda b: b.cast("sext", b.icmp("eq", b.load(I64, _P), 1), I64),
    "a narrow cast": lambda b: b.cast("zext", b.icmp("eq", b.load(I64, _P), 1), I32),
    "elements of another size": lambda b: b.element_address(_P, 1, I32),
    "elements by a number": lambda b: b.element_address(_P, b.load(I64, _P), I64),
    "a float on the stack": lambda b: b.alloca(FLOAT),
    "a wide line": lambda b: b.alloca(I64, align=128),
    "a float for a call": lambda b: call_microkernel(b, constant(FLOAT, 1.0)),
    "a function of its own": lambda b: b.call_void("elsewhere", _P),
    "a function's address": lambda b: call_microkernel(b, Value("@kernel", PTR)),
    "a table of floats": lambda b: call_microkernel(b, b.table("t", FLOAT, (1.0,))),
    "poison": lambda b: call_microkernel(b, Value("poison", I64)),
    "a narrow minimum": lambda b: b.intrinsic("smin", constant(I32, 1), 2),
    "a far word": lambda b: b.load(I64, b.byte_address(_P, 1 << 31)),
    "a word before": lambda b: b.load(I64, b.byte_address(_P, -8)),
    "a bit for a call": lambda b: call_microkernel(b, b.icmp("eq", b.load(I64, _P), 1)),
    "one of two bits": lambda b: b.branch(
        b.icmp("eq", b.load(I64, _P), 1),
        lambda: (constant(I1, 0),),
        lambda: (constant(I1, 1),),
    ),
    "values that change places": swap,
    "a choice": lambda b: b.select(b.icmp("eq", b.load(I64, _P), 1), _P, _P),
}


@pytest.mark.parametrize("name", _OTHERS)
def test_others_stay_machine_code(name: str) -> None:
    module = ModuleBuilder("m")
    b = module.function("kernel", VOID, [Parameter(PTR, "p")])
    b.keep()
    call_microkernel(b, _P)
    _OTHERS[name](b)
    b.ret()
    bytecode = BytecodeCode(module, [1, 2, 3, 4], BASE + 1)
    with pytest.raises(NoBytecodeError):
        write_kernel(bytecode, "kernel", [Place(BASE, 0)])
    assert bytecode.code == [1, 2, 3, 4]


@pytest.mark.parametrize("name", PROGRAMS)
def test_kernels_of_bytecode_are_kept_whole(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[str] = []

    def checked(bytecode: BytecodeCode, kernel: str, arguments: object) -> None:
        agree(bytecode.module.builder(kernel))
        found.append(kernel)
        raise NoBytecodeError

    monkeypatch.setattr(bytecode_writer, "write_kernel", checked)
    compile_for(parse_module(PROGRAMS[name]), "cpu", CompileOptions(threads=1))
    assert found
