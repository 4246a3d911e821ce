"""Marks: how a program's native code says what it has just done, while anybody traces.

One call after each step, of a function that looks whether anybody wants to know. Whoever does puts
the address of a record into the word `TRACE`; its first field is the function to call,
``void mark(ptr record, i64 step, ptr program)``. A step's mark is the number of its operation.
"""

from __future__ import annotations

from xladev.codegen.llvm import I1, I64, PTR, VOID, FunctionBuilder, ModuleBuilder, Parameter, Value

TRACE = "xladev_trace"
"""The word that programs import: the address of a record, or null."""

BEGIN, END, COPY = -1, -2, -3
"""Marks that are no numbers of operations: a program begins, it ends, bytes were copied."""

HELP, HELPED = -4, -5
"""Marks of the pool's threads: one begins to work on somebody's kernel, it has done so."""

PART, PART_ENDED = -6, -7
"""Marks of a fork: some thread begins with a part of the program, it has ended it."""

PROGRAM_WORD = 2
"""Where the context of a launch on several devices has the address that marks come from."""

_MARK = "xladev.mark"


def define_marks(module: ModuleBuilder, program: Value | None) -> None:
    """Defines the function that `emit_mark` calls.

    Args:
        module: of the program.
        program: an address that no other program has; None: the launch's context tells it
            (`PROGRAM_WORD`), for the code is that of several devices.
    """
    parameters = [Parameter(PTR, "record"), Parameter(I64, "step"), Parameter(PTR, "context")]
    b = module.function(_MARK, VOID, parameters, linkage="internal", attributes="noinline")
    record, step, context = b.arguments
    with b.when(b.emit(I1, f"icmp ne {record}, null")):
        function = b.load(PTR, record)
        if program is None:
            program = b.load(PTR, b.element_address(context, PROGRAM_WORD, PTR))
        b.do(f"call void {function.text}({record}, {step}, {program})")
    b.ret()


def load_record(b: FunctionBuilder) -> Value:
    """The record at this moment, for `emit_mark`."""
    return b.load(PTR, b.module.external_word(TRACE))


def emit_mark(
    b: FunctionBuilder, record: Value, mark: int, context: Value, *, asks_first: bool
) -> None:
    """Says what was done, if anybody wants to know.

    Args:
        b: where to.
        record: of `load_record`.
        mark: what was done.
        context: of the launch.
        asks_first: whether to look before the call: faster if nobody does, and more code.
    """
    if not asks_first:
        b.call_void(_MARK, record, b.const(I64, mark), context)
        return
    with b.when(b.emit(I1, f"icmp ne {record}, null")):
        b.call_void(_MARK, record, b.const(I64, mark), context)
