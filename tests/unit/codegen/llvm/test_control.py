"""Functions built from structured control flow compute what they say."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.codegen.jit import compile_function, run
from xladev.codegen.llvm import (
    DOUBLE,
    FLOAT,
    I32,
    I64,
    PTR,
    VOID,
    FunctionBuilder,
    ModuleBuilder,
    Parameter,
    TargetTraits,
    Value,
    vector,
)
from xladev.errors import CompileError


def begin(name: str = "kernel", *extra: Parameter) -> tuple[ModuleBuilder, FunctionBuilder]:
    module = ModuleBuilder("test")
    return module, module.function(name, VOID, [Parameter(PTR, "out"), *extra])


def finish(module: ModuleBuilder, b: FunctionBuilder, out: np.ndarray, *arguments: int) -> None:
    b.ret()
    run(compile_function(module, "kernel"), out, *arguments)


def test_loop_counts_by_steps_and_may_run_never() -> None:
    module, b = begin("kernel", Parameter(I64, "n"))
    with b.loop(1, b.arguments[1], 3) as i:
        b.store(i, b.element_address(b.arguments[0], i, I64))
    b.ret()
    function = compile_function(module, "kernel")
    out = np.zeros(8, np.int64)
    run(function, out, 8)
    assert out.tolist() == [0, 1, 0, 0, 4, 0, 0, 7]
    run(function, out, 1)
    assert out.tolist() == [0, 1, 0, 0, 4, 0, 0, 7]


def test_nested_loops_carry_values() -> None:
    module, b = begin()
    with b.carried_loop(0, 4, initial=(b.const(I64, 0),)) as rows:
        with b.carried_loop(0, 5, initial=rows.values) as columns:
            product = b.mul(rows.index, columns.index)
            columns.carry(b.add(columns.values[0], product))
        rows.carry(*columns.values)
    b.store(rows.values[0], b.arguments[0])
    out = np.zeros(1, np.int64)
    finish(module, b, out)
    assert out[0] == sum(i * j for i in range(4) for j in range(5))


def test_while_loop_and_branch() -> None:
    """Steps of the Collatz sequence from 27."""
    module, b = begin()

    def step(now: tuple[Value, ...]) -> tuple[Value, ...]:
        n, count = now
        odd = b.icmp("ne", b.and_(n, 1), 0)
        after = b.branch(odd, lambda: [b.add(b.mul(n, 3), 1)], lambda: [b.lshr(n, 1)])
        return after[0], b.add(count, 1)

    start = (b.const(I64, 27), b.const(I64, 0))
    _, count = b.while_loop(start, lambda now: b.icmp("ne", now[0], 1), step)
    b.store(count, b.arguments[0])
    out = np.zeros(1, np.int64)
    finish(module, b, out)
    assert out[0] == 111


def test_when() -> None:
    module, b = begin()
    for index, flag in enumerate((0, 1)):
        with b.when(b.icmp("eq", b.const(I64, flag), 1)):
            b.store(b.const(I64, 7), b.element_address(b.arguments[0], index, I64))
    out = np.zeros(2, np.int64)
    finish(module, b, out)
    assert out.tolist() == [0, 7]


def test_by_lane_applies_scalar_code_to_vectors() -> None:
    module, b = begin()
    numbers = b.cast("uitofp", b.lane_numbers(4), DOUBLE)
    squares = b.by_lane(lambda v: [b.fmul(v[0], v[0])], [numbers], [DOUBLE])[0]
    b.store(squares, b.arguments[0])
    out = np.zeros(4)
    finish(module, b, out)
    assert out.tolist() == [0, 1, 4, 9]


def test_lanes_are_split_spread_and_shuffled() -> None:
    module, b = begin()
    numbers = b.lane_numbers(4, I64)
    reverse = b.shuffle(numbers, numbers, (3, 2, 1, 0))
    spread = b.splat(b.extract(reverse, 1), 4)
    b.store(b.add(b.mul(spread, 10), reverse), b.arguments[0])
    out = np.zeros(4, np.int64)
    finish(module, b, out)
    assert out.tolist() == [23, 22, 21, 20]


def test_shared_functions_are_defined_once_per_type() -> None:
    module, b = begin()
    calls: list[str] = []

    def twice(inner: FunctionBuilder, values: tuple[Value, ...]) -> Value:
        calls.append(values[0].type.text)
        return inner.fadd(values[0], values[0])

    for type_ in (FLOAT, FLOAT, vector(FLOAT, 4)):
        b.call_shared("twice", type_, [b.const(type_, 1.0)], twice)
    b.ret()
    assert calls == ["float", "<4 x float>"]
    assert str(module).count("define internal") == 2
    compile_function(module, "kernel")


def test_shared_functions_of_several_results() -> None:
    module, b = begin()
    pair = b.call_shared_many(
        "swap", (I64, I64), [b.const(I64, 1), b.const(I64, 2)], lambda _, v: (v[1], v[0])
    )
    for index, value in enumerate(pair):
        b.store(value, b.element_address(b.arguments[0], index, I64))
    out = np.zeros(2, np.int64)
    finish(module, b, out)
    assert out.tolist() == [2, 1]


def test_tables_and_stack() -> None:
    module, b = begin()
    table = b.table("primes", I32, (2, 3, 5, 7))
    assert b.table("primes", I32, (2, 3, 5, 7)) == table
    slot = b.alloca(I32, 4)
    b.store(b.load(I32, b.element_address(table, 2, I32)), b.byte_address(slot, 4))
    b.store(b.load(I32, b.byte_address(slot, 4)), b.arguments[0])
    out = np.zeros(1, np.int32)
    finish(module, b, out)
    assert out[0] == 5


def test_alias_scopes_and_attributes_parse() -> None:
    module = ModuleBuilder("test", TargetTraits(function_attributes=("nounwind",)))
    pointers = [Parameter(PTR, name, "noalias align 64") for name in ("x", "y")]
    b = module.function("kernel", VOID, pointers)
    own, other = module.alias_scopes(2)
    loaded = b.load(FLOAT, b.arguments[0], align=64, metadata=own)
    b.store(loaded, b.arguments[1], metadata=other)
    b.ret()
    compile_function(module, "kernel")
    assert "!alias.scope" in str(module) and "noalias align 64 %x" in str(module)


def test_fast_math_flags_are_those_given() -> None:
    module, b = begin()
    x = b.const(FLOAT, 2.0)
    for emit in (b.fadd, b.fsub, b.fmul, b.fdiv):
        emit(x, x)
        emit(x, 1.0, "nsz contract")
    b.ret()
    for word in ("fadd", "fsub", "fmul", "fdiv"):
        assert f"= {word} float 0x" in str(module)
        assert f"= {word} nsz contract float 0x" in str(module)
    compile_function(module, "kernel")


class TestMisuse:
    def test_operand_types_must_agree(self) -> None:
        _, b = begin()
        with pytest.raises(CompileError, match="add of i64 and i32"):
            b.add(b.const(I64, 1), b.const(I32, 1))

    def test_two_numbers_have_no_type(self) -> None:
        _, b = begin()
        with pytest.raises(CompileError, match="two Python numbers"):
            b.add(1, 2)

    def test_block_without_end(self) -> None:
        _, b = begin()
        with pytest.raises(CompileError, match="no terminator"):
            b.body()

    def test_block_with_two_ends(self) -> None:
        _, b = begin()
        b.ret()
        with pytest.raises(CompileError, match="two terminators"):
            b.ret()

    def test_wrong_return_type(self) -> None:
        _, b = begin()
        with pytest.raises(CompileError, match="returns i64, declared void"):
            b.ret(b.const(I64, 1))

    def test_function_defined_twice(self) -> None:
        module, _ = begin()
        with pytest.raises(CompileError, match="twice"):
            module.function("kernel", VOID)

    def test_loop_without_carry(self) -> None:
        _, b = begin()
        with (
            pytest.raises(CompileError, match=r"carry\(\)"),
            b.carried_loop(0, 1, initial=(b.const(I64, 0),)),
        ):
            pass


def test_lines_that_will_be_written_come_nearest() -> None:
    module, b = begin()
    b.prefetch(b.arguments[0], is_near=False)
    b.prefetch(b.arguments[0], is_written=True)
    b.ret()
    asked = [line for line in str(module).splitlines() if "call void @llvm.prefetch" in line]
    assert [line.split("(")[1] for line in asked] == [
        "ptr %out, i32 0, i32 2, i32 1)",
        "ptr %out, i32 1, i32 3, i32 1)",
    ]


def test_a_table_is_known_by_its_symbol() -> None:
    module, b = begin()
    address = b.table("t", I64, (3, -4))
    table = module.table_of(address.symbol)
    assert table is not None
    assert (table.element, table.numbers) == (I64, (3, -4))
    module.constant_bytes("bytes", b"abc")
    assert module.table_of("bytes") is module.table_of("other") is None
