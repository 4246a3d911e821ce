"""Kernels as part of a script: what has a place there, and what leaves it as it was."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.unit.codegen.llvm.test_instructions import agree
from tests.unit.platforms.cpu.test_script import PROGRAMS
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
from xladev.platforms.cpu import script_writer
from xladev.platforms.cpu.script import BINARY, CALL, FIRST_FREE, Kind, Operation
from xladev.platforms.cpu.script_code import NoScriptError, Place, ScriptCode
from xladev.platforms.cpu.script_kernel import write_kernel

Write = Callable[[FunctionBuilder], object]
BASE = FIRST_FREE
_P = Value("%p", PTR)


def script_with(write: Write) -> ScriptCode:
    """A kernel of a pointer, which lies in register `BASE`, as a script."""
    module = ModuleBuilder("m")
    b = module.function("kernel", VOID, [Parameter(PTR, "p")])
    b.keep()
    write(b)
    b.ret()
    script = ScriptCode(module, registers=BASE + 1)
    write_kernel(script, "kernel", [Place(BASE, 0)])
    return script


def call_microkernel(b: FunctionBuilder, *arguments: Value) -> None:
    b.call_procedure("m", arguments, lambda inner, values: None)


def known(script: ScriptCode) -> dict[int, tuple[int, int]]:
    """What the registers below 0 hold."""
    return {register: key for key, register in script.known.items()}


def test_a_call_is_one_instruction_and_its_arguments() -> None:
    script = script_with(lambda b: call_microkernel(b, _P, constant(I64, 7)))
    operation, function, *_, first, second, _, _ = script.code
    assert (operation, first) == (CALL + 2, BASE)
    assert known(script)[function] == (Kind.PROCEDURE, 0)
    assert known(script)[second] == (Kind.NUMBER, 7)


def test_offsets_of_arguments_are_added_once_before_loops() -> None:
    def write(b: FunctionBuilder) -> None:
        with b.loop(0, 9):
            call_microkernel(b, b.byte_address(_P, 64), b.byte_address(_P, 64))

    script = script_with(write)
    operation, base, offset, made = script.code[:4]
    assert (operation, base, known(script)[offset]) == (BINARY["add"], BASE, (Kind.NUMBER, 64))
    (at,) = [n for n in range(0, len(script.code), 4) if script.code[n] == CALL + 2]
    assert script.code[at + 4 : at + 6] == [made, made]
    assert script.code[4] != BINARY["add"]


def test_tables_are_the_words_of_memory() -> None:
    script = script_with(lambda b: call_microkernel(b, b.table("t", I64, (1, -2, 1 << 63))))
    words = script.table[:24]
    assert words == b"".join((n % (1 << 64)).to_bytes(8, "little") for n in (1, -2, 1 << 63))
    assert len(script.table) == 64
    assert (Kind.TABLE, 0) in script.known


def test_cleared_memory_and_fences() -> None:
    def write(b: FunctionBuilder) -> None:
        b.store(constant(vector(I64, 8), 0), _P, align=8)
        b.fence()

    assert script_with(write).code == [Operation.CLEAR, BASE, 0, 0, Operation.FENCE, 0, 0, 0]


def test_what_is_known_is_worked_out() -> None:
    def write(b: FunctionBuilder) -> None:
        least = b.intrinsic("smin", constant(I64, 5), b.mul(constant(I64, 3), 4))
        call_microkernel(b, b.cast("zext", b.icmp("slt", least, 6), I64))

    script = script_with(write)
    assert script.code[0] == CALL + 1
    assert known(script)[script.code[4]] == (Kind.NUMBER, 1)


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
    script = ScriptCode(module, [1, 2, 3, 4], BASE + 1)
    with pytest.raises(NoScriptError):
        write_kernel(script, "kernel", [Place(BASE, 0)])
    assert script.code == [1, 2, 3, 4]


@pytest.mark.parametrize("name", PROGRAMS)
def test_kernels_of_scripts_are_kept_whole(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[str] = []

    def checked(script: ScriptCode, kernel: str, arguments: object) -> None:
        agree(script.module.builder(kernel))
        found.append(kernel)
        raise NoScriptError

    monkeypatch.setattr(script_writer, "write_kernel", checked)
    compile_for(parse_module(PROGRAMS[name]), "cpu", CompileOptions(threads=1))
    assert found
