"""The kernel of a call of LAPACK: one matrix of the stack after the other, or groups of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import lru_cache

from xladev.codegen.arrays import IrArray
from xladev.codegen.index import IndexValue
from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.llvm import PTR, VOID, FunctionBuilder, ModuleBuilder, Parameter, Value
from xladev.platforms.cpu.codegen.build import KernelBuild
from xladev.platforms.cpu.codegen.lapack.calls import LapackCall, lapack_call_of
from xladev.platforms.cpu.codegen.lapack.lanes import OneGroup
from xladev.platforms.cpu.codegen.lapack.one_matrix import OneMatrix
from xladev.platforms.cpu.codegen.tactics import DEFAULT, Tactic
from xladev.platforms.cpu.lapack.routines import BEGIN, END


def lapack_workspace_nbytes(spec: KernelSpec, tactic: Tactic = DEFAULT) -> int:
    """Bytes of workspace for one matrix; 0 for what LAPACK does not compute."""
    del tactic
    call = lapack_call_of(spec.computation.root)
    return 0 if call is None else _workspace_nbytes(call)


@lru_cache(maxsize=1024)
def _workspace_nbytes(call: LapackCall) -> int:
    """Counted by writing the code of a matrix, or a group, which nobody runs."""
    module = ModuleBuilder("workspace")
    count = len(call.routine.ranks) + len(call.options.sizes)
    names = [*(f"a{n}" for n in range(count)), "workspace"]
    b = module.function("count", VOID, [Parameter(PTR, name) for name in names])
    *arrays, workspace = b.arguments
    return max(_emit(b, call, arrays, workspace), 64)


def _emit(b: FunctionBuilder, call: LapackCall, arrays: Sequence[Value], workspace: Value) -> int:
    """Code of a matrix or a group whose arrays are at these addresses; bytes of workspace."""
    count = len(call.routine.ranks)
    operands, results = arrays[:count], arrays[count:]
    if call.lanes > 1 and call.routine.small is not None:
        g = OneGroup(b, call.letter, operands, results, workspace)
        call.routine.small.emit(g, call.options)
        return g.used
    m = OneMatrix(b, call.letter, operands, results, workspace)
    call.routine.emit(m, call.options)
    return m.used


def emit_lapack(k: KernelBuild) -> None:
    """Calls LAPACK for each matrix, on one thread of its own; or works on groups of matrices.

    The last group overlaps the one before where matrices are left over.
    """
    call = lapack_call_of(k.root)
    if call is None:
        raise AssertionError(k.root.opcode)
    groups = -(-call.batch // call.lanes)
    with _on_one_thread(k.b) if call.lanes == 1 else nullcontext():
        if groups == 1:
            _emit_group(k, call, 0)
        else:
            private = _workspace_nbytes(call)
            k.split(groups, lambda begin, end: _part(k, call, begin, end), private_nbytes=private)


@contextmanager
def _on_one_thread(b: FunctionBuilder) -> Iterator[None]:
    for symbol in (BEGIN, END):
        b.module.declare(symbol, VOID, [])
    b.call_void(BEGIN)
    yield
    b.call_void(END)


def _part(k: KernelBuild, call: LapackCall, begin: IndexValue, end: IndexValue) -> None:
    with k.b.loop(k.e.at.value(begin), k.e.at.value(end)) as number, k.e.scope():
        first: Value = k.b.mul(number, call.lanes) if call.lanes > 1 else number
        if call.batch % call.lanes:
            first = k.b.intrinsic("smin", first, call.batch - call.lanes)
        _emit_group(k, call, first)


def _emit_group(k: KernelBuild, call: LapackCall, first: IndexValue) -> None:
    """The matrix, or the group of them, that begins with number ``first``."""
    operands = [k.e.arrays[operand][0] for operand in k.root.operands]
    places = [_place(k, array, call.batch, first) for array in (*operands, *k.results)]
    _emit(k.b, call, places, k.scratch)


def _place(k: KernelBuild, array: IrArray, batch: int, number: IndexValue) -> Value:
    nbytes = array.shape.nbytes // batch
    return k.b.byte_address(array.base, k.e.at.value(k.e.at.mul(number, nbytes)))
