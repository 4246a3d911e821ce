"""Checks a Program: every number names something, and slots are written once, before use.

A program read from a file is checked before anything of it is run.
"""

from __future__ import annotations

from xladev.compiler.program import Procedure, Program, thunk_text
from xladev.compiler.thunks import (
    Call,
    Collective,
    Conditional,
    Constant,
    Evaluate,
    RunExecutable,
    Thunk,
    While,
    reads,
    writes,
)
from xladev.errors import FormatError

MAX_NESTING = 100
"""Deepest nesting of loops, branches and calls that the SDK runs."""


def nesting(program: Program) -> int:
    """How deep procedures call each other; 1 if there is only the entry."""
    depths: list[int] = []
    for procedure in program.procedures:
        below = (depths[c] for thunk in procedure.thunks for c in _callees(thunk))
        depths.append(1 + max(below, default=0))
    return max(depths, default=0)


def _callees(thunk: Thunk) -> tuple[int, ...]:
    match thunk:
        case While():
            return (thunk.condition, thunk.body)
        case Conditional():
            return thunk.branches
        case Call():
            return (thunk.procedure,)
        case _:
            return ()


def check_program(program: Program) -> None:
    """Checks a whole program.

    Raises:
        FormatError: with the procedure at fault as its place.
    """
    if not program.procedures:
        raise FormatError(f"program {program.name!r} has no procedure")
    if not program.platforms:
        raise FormatError(f"program {program.name!r} names no platform")
    for number, procedure in enumerate(program.procedures):
        _check_procedure(program, number, procedure)
    _check_entry(program)
    if nesting(program) > MAX_NESTING:
        raise FormatError(f"program {program.name!r} is nested {nesting(program)} deep")


def _check_entry(program: Program) -> None:
    entry, signature = program.entry, program.signature
    for slots, shapes in (
        (entry.parameters, signature.argument_shapes),
        (entry.results, signature.result_shapes),
    ):
        if tuple(entry.slots[s].shape for s in slots) != shapes:
            raise FormatError(f"program {program.name!r} and its signature disagree")
    if not all(0 <= d < len(signature.argument_shapes) for d in program.donors):
        raise FormatError(f"program {program.name!r} donates an argument that is not there")


def _check_procedure(program: Program, number: int, procedure: Procedure) -> None:
    where = f"procedure {procedure.name!r}"
    if not all(0 <= slot.platform < len(program.platforms) for slot in procedure.slots):
        raise FormatError("a slot names a platform that is not there", where=where)
    written = set(procedure.parameters)
    if len(written) != len(procedure.parameters):
        raise FormatError("two parameters share a slot", where=where)
    for thunk in procedure.thunks:
        _check_slots(thunk, written, where)
        _check_numbers(program, number, procedure, thunk, where)
    if not written >= set(procedure.results):
        raise FormatError("a result is never written", where=where)
    if not written <= set(range(len(procedure.slots))):
        raise FormatError("a slot is used that is not there", where=where)


def _check_slots(thunk: Thunk, written: set[int], where: str) -> None:
    results = writes(thunk)
    if not written >= set(reads(thunk)):
        raise FormatError("a slot is read before it is written", where=where, why=thunk_text(thunk))
    if written & set(results) or len(set(results)) != len(results):
        raise FormatError("a slot is written twice", where=where, why=thunk_text(thunk))
    written.update(results)


def _check_numbers(
    program: Program, number: int, procedure: Procedure, thunk: Thunk, where: str
) -> None:
    match thunk:
        case RunExecutable() | Evaluate():
            good = _fits_executable(program, thunk)
        case Constant():
            good = 0 <= thunk.constant < len(program.constants)
        case While():
            good = _fits(program, number, thunk.body, thunk.arguments, thunk.results) and _fits(
                program, number, thunk.condition, thunk.arguments, (0,)
            )
        case Conditional():
            rows = zip(thunk.branches, thunk.arguments, strict=False)
            good = len(thunk.branches) == len(thunk.arguments) > 0 and all(
                _fits(program, number, branch, row, thunk.results) for branch, row in rows
            )
        case Call():
            good = _fits(program, number, thunk.procedure, thunk.arguments, thunk.results)
        case Collective():
            good = thunk.reducer is None or 0 <= thunk.reducer < len(program.executables)
        case _:
            good = True
    if not good:
        raise FormatError("a thunk does not fit what it runs", where=where, why=thunk_text(thunk))


def _fits_executable(program: Program, thunk: RunExecutable | Evaluate) -> bool:
    if not 0 <= thunk.executable < len(program.executables):
        return False
    signature = program.executables[thunk.executable].signature
    return len(signature.argument_shapes) == len(thunk.arguments) and len(
        signature.result_shapes
    ) == len(thunk.results)


def _fits(
    program: Program,
    caller: int,
    callee: int,
    arguments: tuple[int, ...],
    results: tuple[int, ...],
) -> bool:
    """True if the callee comes before its caller and takes and gives as many slots."""
    if not 0 <= callee < caller:
        return False
    procedure = program.procedures[callee]
    return len(procedure.parameters) == len(arguments) and len(procedure.results) == len(results)
