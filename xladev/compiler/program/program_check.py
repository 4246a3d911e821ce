"""Checks a Program: every number names something, and slots are written once, before use.

A program read from a file is checked before anything of it is run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xladev.compiler.program.program import Procedure, Program, thunk_text
from xladev.compiler.program.thunks import (
    Call,
    Collective,
    CollectiveDone,
    CollectiveStart,
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
from xladev.hlo.physical import physical_nbytes
from xladev.hlo.shape import Shape

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
    place = f"program {program.name!r}"
    if not program.procedures:
        raise FormatError(f"program {program.name!r} has no procedure", where=place)
    if not program.platforms:
        raise FormatError(f"program {program.name!r} names no platform", where=place)
    for number, procedure in enumerate(program.procedures):
        _check_procedure(program, number, procedure)
    _check_entry(program)
    if nesting(program) > MAX_NESTING:
        raise FormatError(
            f"program {program.name!r} is nested {nesting(program)} deep", where=place
        )


def _check_entry(program: Program) -> None:
    entry, signature = program.entry, program.signature
    for slots, shapes in (
        (entry.parameters, signature.argument_shapes),
        (entry.results, signature.result_shapes),
    ):
        if tuple(entry.slots[s].shape for s in slots) != shapes:
            raise FormatError(
                f"program {program.name!r} and its signature disagree",
                where=f"program {program.name!r}",
            )
    if not all(0 <= d < len(signature.argument_shapes) for d in program.donors):
        raise FormatError(
            f"program {program.name!r} donates an argument that is not there",
            where=f"program {program.name!r}",
        )


def _check_procedure(program: Program, number: int, procedure: Procedure) -> None:
    where = f"procedure {procedure.name!r}"
    if not all(0 <= slot.platform < len(program.platforms) for slot in procedure.slots):
        raise FormatError("a slot names a platform that is not there", where=where)
    written = set(procedure.parameters)
    if len(written) != len(procedure.parameters):
        raise FormatError("two parameters share a slot", where=where)
    _check_range(procedure, written, where)
    begun: dict[str, CollectiveStart] = {}
    for thunk in procedure.thunks:
        _check_slots(procedure, thunk, written, where)
        _check_pairs(thunk, begun, where)
        _check_numbers(program, number, procedure, thunk, where)
    if begun:
        raise FormatError(
            "a collective is begun and never ended", where=where, why=", ".join(begun)
        )
    if not written >= set(procedure.results):
        raise FormatError("a result is never written", where=where)


def _check_range(procedure: Procedure, slots: Iterable[int], where: str) -> None:
    if not all(0 <= slot < len(procedure.slots) for slot in slots):
        raise FormatError("a slot is used that is not there", where=where)


def _check_slots(procedure: Procedure, thunk: Thunk, written: set[int], where: str) -> None:
    results = writes(thunk)
    _check_range(procedure, results, where)
    if not written >= set(reads(thunk)):
        raise FormatError("a slot is read before it is written", where=where, why=thunk_text(thunk))
    if written & set(results) or len(set(results)) != len(results):
        raise FormatError("a slot is written twice", where=where, why=thunk_text(thunk))
    written.update(results)


def _check_pairs(thunk: Thunk, begun: dict[str, CollectiveStart], where: str) -> None:
    """Each start is followed by one end, of the same slots."""
    match thunk:
        case CollectiveStart():
            if thunk.name in begun:
                raise FormatError("a collective is begun twice", where=where, why=thunk_text(thunk))
            begun[thunk.name] = thunk
        case CollectiveDone():
            start = begun.pop(thunk.name, None)
            if start is None or (start.arguments, start.results) != (
                thunk.arguments, thunk.results
            ):  # fmt: skip
                raise FormatError(
                    "a collective is ended that was not begun", where=where, why=thunk_text(thunk)
                )
        case _:
            pass


def _check_numbers(
    program: Program, number: int, procedure: Procedure, thunk: Thunk, where: str
) -> None:
    def fits(callee: int, arguments: Sequence[int], results: Sequence[int] | None) -> bool:
        if not 0 <= callee < number:
            return False
        return _fits(procedure, program.procedures[callee], arguments, results)

    match thunk:
        case RunExecutable():
            places = range(len(thunk.arguments))
            good = _fits_executable(program, procedure, thunk) and (
                len(thunk.needs) in (0, len(thunk.results))
                and all(n in places for row in thunk.needs for n in row)
            )
        case Evaluate():
            good = _fits_executable(program, procedure, thunk)
        case Constant():
            good = 0 <= thunk.constant < len(program.constants) and _same_sizes(
                procedure, (thunk.result,), [program.constants[thunk.constant].shape]
            )
        case While():
            good = fits(thunk.body, thunk.arguments, thunk.results) and fits(
                thunk.condition, thunk.arguments, None
            )
        case Conditional():
            rows = zip(thunk.branches, thunk.arguments, strict=False)
            good = len(thunk.branches) == len(thunk.arguments) > 0 and all(
                fits(branch, row, thunk.results) for branch, row in rows
            )
        case Call():
            good = fits(thunk.procedure, thunk.arguments, thunk.results)
        case Collective():
            good = thunk.reducer is None or 0 <= thunk.reducer < len(program.executables)
        case _:
            good = True
    if not good:
        raise FormatError("a thunk does not fit what it runs", where=where, why=thunk_text(thunk))


def _fits_executable(
    program: Program, procedure: Procedure, thunk: RunExecutable | Evaluate
) -> bool:
    if not 0 <= thunk.executable < len(program.executables):
        return False
    signature = program.executables[thunk.executable].signature
    return _same_sizes(procedure, thunk.arguments, signature.argument_shapes) and _same_sizes(
        procedure, thunk.results, signature.result_shapes
    )


def _fits(
    caller: Procedure,
    callee: Procedure,
    arguments: Sequence[int],
    results: Sequence[int] | None,
) -> bool:
    """True if the callee takes and gives what the caller has; no results mean one predicate."""
    taken = [callee.slots[s].shape for s in callee.parameters]
    given = [callee.slots[s].shape for s in callee.results]
    if not _same_sizes(caller, arguments, taken):
        return False
    if results is None:
        return len(given) == 1 and physical_nbytes(given[0]) == 1
    return _same_sizes(caller, results, given)


def _same_sizes(procedure: Procedure, slots: Sequence[int], shapes: Sequence[Shape]) -> bool:
    """True if there is a slot for each shape, with a buffer of its size."""
    return len(slots) == len(shapes) and all(
        physical_nbytes(procedure.slots[slot].shape) == physical_nbytes(shape)
        for slot, shape in zip(slots, shapes, strict=True)
    )
