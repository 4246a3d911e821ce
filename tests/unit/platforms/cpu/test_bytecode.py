"""Bytecode: the same results as machine code has, the operations one by one, and their entries."""

from __future__ import annotations

import ctypes
import gc
import threading
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from xladev.client import CompiledModule
from xladev.client import compile as compile_for
from xladev.compiler.options import CompileOptions
from xladev.errors import FormatError
from xladev.hlo.ir import HloModule
from xladev.hlo.text import parse_module
from xladev.platforms.cpu import bytecode_runner as bytecode_runner
from xladev.platforms.cpu import bytecode_writer as bytecode_writer
from xladev.platforms.cpu import compiler
from xladev.platforms.cpu.bytecode import (
    BINARY,
    CALL,
    FIRST_FREE,
    MAGIC,
    MOST_ARGUMENTS,
    RESULTS,
    Bytecode,
    BytecodeOperation,
    OperandKind,
    is_bytecode,
    packed_instructions,
)
from xladev.platforms.cpu.bytecode_runner import ENTRIES, LoadedScript
from xladev.platforms.cpu.bytecode_writer import MOST_KERNELS
from xladev.platforms.cpu.payload import CpuPayload
from xladev.profiling.timeline import profile

ALONE = CompileOptions(threads=1)
_PRODUCT = "dot({}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"


def product(m: int, k: int, n: int, t: str = "f32", result: str = "") -> str:
    r = result or t
    return f"""HloModule p
ENTRY e {{ a = {t}[{m},{k}] parameter(0)  b = {t}[{k},{n}] parameter(1)
  ROOT r = {r}[{m},{n}] {_PRODUCT.format("a, b")} }}"""


PROGRAMS = {
    "product": product(130, 70, 90),
    "product of many blocks": product(500, 300, 700),
    "product of bf16": product(300, 64, 64, "bf16"),
    "product of bytes": product(64, 96, 48, "s8", "s32"),
    "two products": f"""HloModule p
ENTRY e {{ a = f32[33,64] parameter(0)  b = f32[64,64] parameter(1)
  c = f32[33,64] {_PRODUCT.format("a, b")}  ROOT r = f32[33,64] {_PRODUCT.format("c, b")} }}""",
    "results twice": f"""HloModule p
ENTRY e {{ a = f32[40,64] parameter(0)  b = f32[64,64] parameter(1)
  c = f32[40,64] {_PRODUCT.format("a, b")}  ROOT r = (f32[40,64], f32[40,64]) tuple(c, c) }}""",
    "convolution": """HloModule p
ENTRY e { a = f32[2,30,31,24] parameter(0)  b = f32[3,3,24,40] parameter(1)
  ROOT r = f32[2,30,31,40] convolution(a, b), window={size=3x3 pad=1_1x1_1},
  dim_labels=b01f_01io->b01f }""",
    "convolution past the caches": """HloModule p
ENTRY e { a = f32[8,56,56,64] parameter(0)  b = f32[1,1,64,256] parameter(1)
  ROOT r = f32[8,56,56,256] convolution(a, b), window={size=1x1}, dim_labels=b01f_01io->b01f }""",
    "sort": """HloModule p
c { a = f32[] parameter(0)  b = f32[] parameter(1)
  ROOT t = pred[] compare(a, b), direction=LT, type=TOTALORDER }
ENTRY e { x = f32[70,900] parameter(0)
  ROOT s = f32[70,900] sort(x), dimensions={1}, is_stable=true, to_apply=c }""",
}


def several(count: int) -> str:
    """As many kernels, since the sizes of all differ."""
    sizes = range(2, 2 + count)
    lines = [f"a{n} = f32[{n},7] parameter({n - 2})" for n in sizes]
    lines += [f"b{n} = f32[7,{n}] transpose(a{n}), dimensions={{1,0}}" for n in sizes]
    shapes = ", ".join(f"f32[7,{n}]" for n in sizes)
    names = ", ".join(f"b{n}" for n in sizes)
    return f"HloModule p\nENTRY e {{ {'  '.join(lines)}  ROOT r = ({shapes}) tuple({names}) }}"


MIXED = {
    "vectors": "HloModule p\nENTRY e { a = f32[80] parameter(0)  ROOT r = f32[80] add(a, a) }",
    "product and more": f"""HloModule p
ENTRY e {{ a = f32[33,64] parameter(0)  b = f32[64,64] parameter(1)
  c = f32[33,64] {_PRODUCT.format("a, b")}  d = f32[33,64] sqrt(c)
  f = f32[33,64] {_PRODUCT.format("d, b")}  ROOT r = (f32[33,64], f32[33,64]) tuple(f, d) }}""",
    "many": several(MOST_KERNELS),
}
LOOP = """HloModule p
c { s = (s32[], f32[4]) parameter(0)  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(900)  ROOT t = pred[] compare(i, n), direction=LT }
b { s = (s32[], f32[4]) parameter(0)  i = s32[] get-tuple-element(s), index=0
  k = s32[] constant(1)  j = s32[] add(i, k)  x = f32[4] get-tuple-element(s), index=1
  y = f32[4] cosine(x)  ROOT r = (s32[], f32[4]) tuple(j, y) }
ENTRY e { q = f32[4] parameter(0)  z = s32[] constant(0)  t = (s32[], f32[4]) tuple(z, q)
  l = (s32[], f32[4]) while(t), condition=c, body=b
  ROOT r = f32[4] get-tuple-element(l), index=1 }"""


def code_of(made: CompiledModule) -> bytes:
    (executable,) = made.program.executables
    return CpuPayload.from_bytes(executable.payload).codes[0]


def values(module: HloModule, seed: int = 5) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    shapes = [p.shape for p in module.entry.parameters]
    return [(rng.standard_normal(s.dims) * 9).astype(s.element_type.numpy) for s in shapes]


def results(made: CompiledModule, arguments: list[np.ndarray]) -> list[bytes]:
    got = made(*arguments)
    return [np.asarray(each).tobytes() for each in (got if isinstance(got, tuple) else (got,))]


@pytest.mark.parametrize("name", PROGRAMS)
def test_bytecode_give_the_bits_of_machine_code(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = parse_module(PROGRAMS[name])
    arguments = values(module)
    bytecode = compile_for(module, "cpu", ALONE)
    assert is_bytecode(code_of(bytecode))
    assert not Bytecode.from_bytes(code_of(bytecode)).kernels
    monkeypatch.setattr(compiler, "bytecode_of", lambda *_: None)
    machine = compile_for(module, "cpu", ALONE)
    assert not is_bytecode(code_of(machine))
    want = results(machine, arguments)
    assert results(bytecode, arguments) == want
    assert any(any(each) for each in want)


@pytest.mark.parametrize(
    ("text", "level"),
    [(PROGRAMS["product"], 0), (several(MOST_KERNELS + 1), 2), (LOOP, 2)],
    ids=["no optimisation", "many kernels", "a loop"],
)
def test_other_programs_are_machine_code(text: str, level: int) -> None:
    options = CompileOptions(threads=1, optimization_level=level)
    assert not is_bytecode(code_of(compile_for(parse_module(text), "cpu", options)))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", MIXED)
def test_a_bytecode_calls_kernels_that_are_machine_code(
    name: str, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, options = parse_module(MIXED[name]), CompileOptions(threads=threads)
    arguments = values(module)
    bytecode = compile_for(module, "cpu", options)
    assert Bytecode.from_bytes(code_of(bytecode)).kernels
    monkeypatch.setattr(compiler, "bytecode_of", lambda *_: None)
    machine = compile_for(module, "cpu", options)
    assert not is_bytecode(code_of(machine))
    assert results(bytecode, arguments) == results(machine, arguments)


def test_a_longer_program_is_machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bytecode_writer, "MOST_INSTRUCTIONS", 4)
    made = compile_for(parse_module(PROGRAMS["product"]), "cpu", ALONE)
    assert not is_bytecode(code_of(made))


def test_bytecode_are_traced_like_machine_code() -> None:
    module = parse_module(PROGRAMS["two products"])
    made, arguments = compile_for(module, "cpu", ALONE), values(module)
    with profile() as timeline:
        made(*arguments)
    kernels = [e for e in timeline.events if e.category == "kernel"]
    assert [e.args["hlo_op"] for e in kernels] == ["c", "r"]


# The function that carries them out

_ENTRY = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)
_OUT, _AT, _X = FIRST_FREE, FIRST_FREE + 1, FIRST_FREE + 2


def run(instructions: Sequence[int], known: Sequence[tuple[int, int]], **more: object) -> int:
    """What register `_X` holds at the end, as the bytecode's only result."""
    tail = [BytecodeOperation.LOAD, RESULTS, 0, _OUT, BytecodeOperation.ADDRESS, _X, 0, _AT]
    known = [*known, (OperandKind.NUMBER, 8)]
    tail += [BytecodeOperation.COPY, _OUT, _AT, -len(known), BytecodeOperation.RETURN, 0, 0, 0]
    bytecode = Bytecode(packed_instructions([*instructions, *tail]), tuple(known), _X + 1)
    loaded = LoadedScript(Bytecode.from_bytes(bytecode.to_bytes()), **more)  # type: ignore[arg-type]
    out = ctypes.c_int64(0)
    table = (ctypes.c_void_p * 1)(ctypes.addressof(out))
    assert _ENTRY(loaded.entry)(None, None, table, None) == 0
    return out.value


_MEANING: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
    "udiv": lambda a, b: a // b, "urem": lambda a, b: a % b,
    "sdiv": lambda a, b: int(a / b), "srem": lambda a, b: a - b * int(a / b),
    "and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b,
    "smin": min, "smax": max,
    "icmp eq": lambda a, b: a == b, "icmp ne": lambda a, b: a != b,
    "icmp slt": lambda a, b: a < b, "icmp sle": lambda a, b: a <= b,
    "icmp sgt": lambda a, b: a > b, "icmp sge": lambda a, b: a >= b,
}  # fmt: skip


@pytest.mark.parametrize("name", BINARY)
def test_operations_are_those_of_llvm(name: str) -> None:
    for a, b in ((7, 3), (3, 7), (5, 5), (1 << 40, 12), (-4, 9), (-4, -9)):
        if min(a, b) < 0 and name in ("udiv", "urem"):
            continue
        known = [(OperandKind.NUMBER, a), (OperandKind.NUMBER, b)]
        got = run([BINARY[name], -1, -2, _X], known, microkernels=(), constants=())
        assert got == _MEANING[name](a, b), (a, b)


@pytest.mark.parametrize("condition", [0, 1, 5])
def test_a_branch_goes_one_of_two_ways(condition: int) -> None:
    known = [(OperandKind.NUMBER, n) for n in (condition, 70, 80)]
    code = [
        BytecodeOperation.BRANCH,
        -1,
        1,
        3,
        BytecodeOperation.MOVE,
        -2,
        0,
        _X,
        BytecodeOperation.JUMP,
        4,
        0,
        0,
    ]
    code += [BytecodeOperation.MOVE, -3, 0, _X]
    assert run(code, known, microkernels=(), constants=()) == (70 if condition else 80)


def test_constants_and_clearing() -> None:
    known = [(OperandKind.CONSTANT, 1)]
    load = [BytecodeOperation.LOAD, -1, 8, _X]
    constants = (b"abc", bytes(8) + (41).to_bytes(8, "little") + bytes(64))
    assert run(load, known, microkernels=(), constants=constants) == 41
    clear = [BytecodeOperation.CLEAR, -1, 0, 0]
    assert run([*clear, *load], known, microkernels=(), constants=constants) == 0


@pytest.mark.parametrize("count", [0, 1, 4, 5, 13, MOST_ARGUMENTS])
def test_calls_pass_all_arguments_in_order(count: int) -> None:
    seen: list[tuple[int, ...]] = []
    kind = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * count)
    function = kind(lambda *arguments: seen.append(arguments))
    address = ctypes.cast(function, ctypes.c_void_p).value
    known = [(OperandKind.MICROKERNEL, 0), *((OperandKind.NUMBER, 100 + n) for n in range(count))]
    arguments = [-2 - n for n in range(count)] + [0] * (-count % 4)
    code = [CALL + count, -1, 0, 0, *arguments, BytecodeOperation.MOVE, -1, 0, _X]
    assert run(code, known, microkernels=(address,), constants=()) == address
    assert seen == [tuple(range(100, 100 + count))]


@pytest.mark.parametrize("kept", [0, 8, 30, 60, -1])
def test_a_damaged_bytecode_is_refused(kept: int) -> None:
    data = code_of(compile_for(parse_module(PROGRAMS["product"]), "cpu", ALONE))
    assert Bytecode.from_bytes(data).to_bytes() == data
    assert data.startswith(MAGIC)
    with pytest.raises(FormatError, match="bytecode"):
        Bytecode.from_bytes(data[:kept])


def test_a_bytecode_that_names_what_is_not_there_is_refused() -> None:
    made = compile_for(parse_module(PROGRAMS["product"]), "cpu", ALONE)
    bytecode = Bytecode.from_bytes(code_of(made))
    for kind, number in (
        (OperandKind.MICROKERNEL, 99),
        (OperandKind.CONSTANT, 7),
        (OperandKind.KERNEL, 0),
        (9, 0),
    ):
        bad = Bytecode(bytecode.instructions, (*bytecode.known, (kind, number)), bytecode.registers)
        with pytest.raises(FormatError, match="bytecode"):
            LoadedScript(bad, (1, 2, 3), ())


# Entries


def test_more_programs_than_one_object_has_entries_for() -> None:
    module = parse_module(product(8, 16, 32))
    arguments = values(module)
    made = [compile_for(module, "cpu", ALONE) for _ in range(ENTRIES + 3)]
    assert is_bytecode(code_of(made[0]))
    assert len({tuple(results(each, arguments)) for each in made}) == 1


def test_an_entry_that_nobody_calls_any_more_is_used_again() -> None:
    bytecode = Bytecode(packed_instructions([BytecodeOperation.RETURN, 0, 0, 0]), (), FIRST_FREE)
    loaded = LoadedScript(bytecode, (), ())
    entry = loaded.entry
    del loaded
    gc.collect()
    assert entry in [address for address, _ in bytecode_runner._ENTRIES._free]


def test_a_bytecode_may_be_freed_while_more_entries_are_linked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    entries = bytecode_runner._Entries()
    linked: list[tuple[int, int]] = [(1, 1), (2, 2)]

    def freed_meanwhile() -> list[tuple[int, int]]:
        giver = threading.Thread(target=entries.give, args=((3, 3),), daemon=True)
        giver.start()
        giver.join(10)
        assert not giver.is_alive(), "a finalizer that this thread ran would wait for ever"
        return linked

    monkeypatch.setattr(bytecode_runner, "_linked_entries", freed_meanwhile)
    assert {entries.take() for _ in range(3)} == {(1, 1), (2, 2), (3, 3)}


def test_threads_may_run_one_bytecode_at_a_time_each() -> None:
    module = parse_module(PROGRAMS["product"])
    made = compile_for(module, "cpu", ALONE)
    cases = [values(module, seed) for seed in range(3)]
    want = [results(made, case) for case in cases]
    wrong: list[int] = []

    def work(number: int) -> None:
        for _ in range(30):
            if results(made, cases[number]) != want[number]:
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(len(cases))]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
    assert not wrong
