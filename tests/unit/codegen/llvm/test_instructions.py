"""Instructions kept as data: the same as the text, whole where all of them are of known kinds."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from xladev.codegen.llvm import (
    FLOAT,
    I1,
    I8,
    I32,
    I64,
    PTR,
    VOID,
    FunctionBuilder,
    ModuleBuilder,
    Parameter,
    constant,
)
from xladev.codegen.llvm.instructions import (
    AllocaInst,
    BinaryOperator,
    CallInst,
    CastInst,
    ConditionalBranch,
    FenceInst,
    GetElementPtrInst,
    Instruction,
    IntrinsicInst,
    Label,
    LoadInst,
    MemCpyInst,
    Other,
    PhiNode,
    ReturnInst,
    StoreInst,
    UnconditionalBranch,
)


def begin(*, keeps: bool = True) -> FunctionBuilder:
    module = ModuleBuilder("test")
    b = module.function("kernel", VOID, [Parameter(PTR, "p"), Parameter(I64, "n")])
    if keeps:
        b.keep()
    return b


def spelled(instruction: Instruction) -> str:
    """The beginning of the line that it is in LLVM's text."""
    match instruction:
        case Label(name):
            return f"{name}:"
        case AllocaInst(type_, size, align, result):
            return f"  {result} = alloca [{size} x {type_}], align {align}"
        case BinaryOperator(opcode, left, right, result):
            return f"  {result} = {opcode} {left}, {right.text}"
        case CastInst(opcode, value, type_, result):
            return f"  {result} = {opcode} {value} to {type_}"
        case GetElementPtrInst(element, base, offset, result):
            return f"  {result} = getelementptr inbounds {element}, {base}, {offset}"
        case LoadInst(type_, address, result):
            return f"  {result} = load {type_}, {address}, align "
        case StoreInst(value, address):
            return f"  store {value}, {address}, align "
        case MemCpyInst(destination, source, nbytes):
            return f"  call void @llvm.memcpy.p0.p0.i64({destination}, {source}, i64 {nbytes}, "
        case FenceInst():
            return "  fence seq_cst"
        case IntrinsicInst(name, operands, result):
            kind = operands[0].type
            listed = ", ".join(map(str, operands))
            return f"  {result} = call {kind} @llvm.{name}.{kind.mangled}({listed}"
        case CallInst(symbol, arguments):
            return f"  call void @{symbol}({', '.join(map(str, arguments))})"
        case UnconditionalBranch(target):
            return f"  br label %{target}"
        case ConditionalBranch(condition, then, otherwise):
            return f"  br {condition}, label %{then}, label %{otherwise}"
        case PhiNode(type_, edges, result):
            listed = ", ".join(f"[{value.text}, %{block}]" for value, block in edges)
            return f"  {result} = phi {type_} {listed}"
        case ReturnInst():
            return "  ret void"
        case Other():
            raise AssertionError("an instruction was not kept")


def agree(b: FunctionBuilder) -> tuple[Instruction, ...]:
    """The instructions of a function, each of which is its line of the text."""
    found, lines = b.instructions(), b.body().split("\n")
    for line, instruction in zip(lines, found, strict=True):
        assert line.startswith(spelled(instruction)), line
    return found


def write_all(b: FunctionBuilder) -> None:
    """One of each kind at least."""
    p, n = b.arguments
    stack = b.alloca(I64, 3, align=64)
    with b.carried_loop(0, n, 2, initial=(n, p)) as loop:
        place = b.byte_address(loop.values[1], b.mul(loop.index, 8))
        b.store(b.load(I64, place), b.element_address(stack, 1, I64))
        loop.carry(b.intrinsic("smin", loop.values[0], 5), place)
    with b.when(b.icmp("sgt", n, 3)):
        b.copy_bytes(p, stack, 24)
    one, _ = b.branch(b.icmp("eq", n, 1), lambda: (n, p), lambda: (constant(I64, 7), stack))
    wide = b.resize(b.icmp("ne", one, 0), I64, signed=False)
    b.fence()
    b.call_void("callee", p, wide)
    b.ret()


def test_instructions_are_their_lines() -> None:
    b = begin()
    write_all(b)
    kinds = {type(i) for i in agree(b)}
    assert kinds == set(Instruction.__args__) - {Other}


def test_keeping_changes_no_text() -> None:
    kept, plain = begin(), begin(keeps=False)
    for b in (kept, plain):
        write_all(b)
    assert str(kept.module) == str(plain.module)
    assert plain.instructions()[-1] == Other()
    assert not any(
        isinstance(i, BinaryOperator | CallInst | Label) for i in plain.instructions()[1:]
    )


def test_operands_keep_their_types() -> None:
    b = begin()
    p, n = b.arguments
    b.cast("zext", b.icmp("slt", n, 9), I64)
    b.element_address(p, n, I64)
    b.load(FLOAT, p)
    b.ret()
    _, compared, extended, address, loaded, _ = agree(b)
    assert compared == BinaryOperator("icmp slt", n, constant(I64, 9), "%v1")
    assert isinstance(extended, CastInst)
    assert extended.value.type == I1
    assert address == GetElementPtrInst(I64, p, n, "%v3")
    assert loaded == LoadInst(FLOAT, p, "%v4")


@pytest.mark.parametrize(
    "write",
    [
        lambda b: b.select(b.icmp("eq", b.arguments[1], 0), b.arguments[1], 4),
        lambda b: b.load(I64, b.arguments[0], volatile=True),
        lambda b: b.call("other", I64, b.arguments[1]),
        lambda b: b.switch(b.arguments[1], [lambda: None, lambda: None]),
        lambda b: b.do("call void @llvm.trap()"),
    ],
    ids=["select", "volatile load", "call with a result", "switch", "text"],
)
def test_nothing_is_kept_behind_another_instruction(
    write: Callable[[FunctionBuilder], object],
) -> None:
    b = begin()
    b.load(I64, b.arguments[0])
    write(b)
    b.store(b.arguments[1], b.arguments[0])
    b.ret()
    found = b.instructions()
    assert found.count(Other()) == 1
    assert found[-1] == Other()
    assert found[1] == LoadInst(I64, b.arguments[0], "%v1")
    assert not any(isinstance(i, StoreInst | ReturnInst) for i in found)


def test_an_attempt_that_is_forgotten_leaves_nothing() -> None:
    b = begin()
    p, n = b.arguments
    b.load(I64, p)
    mark = b.mark()
    b.alloca(I8)
    b.add(n, 1)
    b.select(b.icmp("eq", n, 0), n, 4)
    b.add(n, 2)
    b.reset(mark)
    b.store(n, p)
    b.ret()
    assert [type(i) for i in agree(b)] == [Label, LoadInst, StoreInst, ReturnInst]


def test_an_attempt_behind_another_instruction_keeps_nothing() -> None:
    b = begin()
    p, n = b.arguments
    b.select(b.icmp("eq", n, 0), n, 4)
    mark = b.mark()
    b.add(n, 1)
    b.reset(mark)
    b.store(n, p)
    b.ret()
    assert [type(i) for i in b.instructions()] == [Label, BinaryOperator, Other]


def test_a_function_written_meanwhile_is_another_one() -> None:
    b = begin()
    p, n = b.arguments
    b.load(I64, p)
    inner = b.module.function("inner", VOID)
    with b.writing(inner):
        b.alloca(I32)
        b.call_void("callee")
        b.ret()
    b.store(n, p)
    b.ret()
    assert [type(i) for i in agree(b)] == [Label, LoadInst, StoreInst, ReturnInst]
    assert inner.instructions()[-1] == Other()
