"""One executable for a whole program, or which of its instructions stand in the way."""

from __future__ import annotations

from collections.abc import Iterator

from xladev.compiler.compile import compile_module
from xladev.compiler.executable import Executable
from xladev.compiler.options import CompileOptions
from xladev.compiler.partition.assignment import (
    COLLECTIVE_OPCODES,
    CONTROL_OPCODES,
    DEVICE_NUMBER_OPCODES,
    STRUCTURAL_OPCODES,
    CompileTarget,
)
from xladev.compiler.prepare import prepare
from xladev.compiler.program.program import Program
from xladev.compiler.program.thunks import RunExecutable
from xladev.errors import UnsupportedError, XladevError
from xladev.hlo.ir import HloModule

MOST_SHOWN = 12
"""Most instructions that an error lists."""


def whole_executable(
    module: HloModule, target: CompileTarget, options: CompileOptions
) -> Executable:
    """The one executable that a program compiles to.

    Args:
        module: the program.
        target: what to compile for.
        options: how; strict, so that nothing falls back to a host.

    Raises:
        UnsupportedError: it is for several devices, computes nothing, or the SDK or a host would
            run some of it.
        XladevError: it cannot be compiled.
    """
    header = module.header
    devices = max(header.replica_count, options.num_replicas) * max(
        header.num_partitions, options.num_partitions
    )
    if devices > 1:
        raise UnsupportedError(
            f"{module.name} runs on {devices} devices together",
            where=f"module {module.name}",
            why="an object file is for one processor",
            hint="compile the program of one replica and one partition",
        )
    _refuse_dynamic(module)
    program = compile_module(module, target, options)
    if _is_one_executable(program):
        return program.executables[0]
    if not program.executables:
        raise UnsupportedError(
            f"{module.name} computes nothing",
            where=f"module {module.name}",
            why="it has no results, or none that is an array of fixed size",
            hint="--fetch a value",
        )
    raise UnsupportedError(
        f"{module.name} is not one piece of {target.name} code",
        where=f"module {module.name}",
        why="; ".join(_obstacles(module, target, options)) or f"it is\n{program}",
        hint="--fetch results that do not need them, or --feed their values",
    )


def _is_one_executable(program: Program) -> bool:
    thunks = program.entry.thunks
    return (
        len(program.executables) == 1
        and len(program.procedures) == 1
        and len(thunks) == 1
        and isinstance(thunks[0], RunExecutable)
        and program.entry.parameters == thunks[0].arguments
        and program.entry.results == thunks[0].results
    )


def _obstacles(module: HloModule, target: CompileTarget, options: CompileOptions) -> Iterator[str]:
    """What the target refuses and the SDK runs, each with the reason."""
    try:
        ready = prepare(module, target, options)
    except XladevError:  # it was compiled: this only explains
        ready = module
    found = 0
    for instruction in ready.entry.instructions:
        if instruction.opcode in STRUCTURAL_OPCODES:
            continue
        answer = target.supports(instruction)
        if answer:
            continue
        found += 1
        if found <= MOST_SHOWN:
            opcode = instruction.opcode
            yield f"{instruction.name} ({opcode}): {_reason(opcode, answer.reason)}"
    if found > MOST_SHOWN:
        yield f"and {found - MOST_SHOWN} more"


def _refuse_dynamic(module: HloModule) -> None:
    for value in (*module.entry.parameters, module.entry.root):
        if any(leaf.is_dynamic for _, leaf in value.shape.leaves()):
            raise UnsupportedError(
                f"{value.name} is {value.shape.without_layout()}",
                where=f"module {module.name}",
                why="it has sizes that are known only when it runs; an object file has fixed ones",
                hint="export the program with fixed sizes, or --fetch results that have them",
            )


def _reason(opcode: str, reason: str) -> str:
    if opcode in COLLECTIVE_OPCODES or opcode in DEVICE_NUMBER_OPCODES:
        return "it is about several devices"
    if opcode in CONTROL_OPCODES:
        return f"Python would run it ({reason})"
    return reason
