"""A Program: what a module compiles to once it is split between platforms.

Procedures hold thunks, thunks work on slots, and each region of instructions that one platform runs
is an Executable. A program is immutable, printable, and saved whole (`program_file.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, fields

from xladev.compiler.executable import Executable
from xladev.compiler.program.thunks import THUNK_KINDS, Slots, Thunk
from xladev.compiler.signature import Signature
from xladev.hlo.shape import Shape

_KIND_NAMES = {kind: name for name, kind in THUNK_KINDS.items()}


@dataclass(frozen=True, slots=True)
class Slot:
    """One array leaf, token or hidden size that a procedure passes between thunks.

    Attributes:
        shape: with the layout that it has there.
        platform: index into `Program.platforms`.
    """

    shape: Shape
    platform: int = 0


@dataclass(frozen=True, slots=True)
class Procedure:
    """A computation, compiled.

    Attributes:
        name: name of the computation.
        slots: what its thunks work on.
        parameters: slots that the caller fills: leaves of all parameters, then hidden sizes.
        results: slots that the caller takes: leaves of the result, then hidden sizes.
        thunks: in an order where what is read was written before.
    """

    name: str
    slots: tuple[Slot, ...]
    parameters: Slots
    results: Slots
    thunks: tuple[Thunk, ...]


@dataclass(frozen=True, slots=True)
class ConstantData:
    """A constant that thunks use: packed bytes of one array."""

    shape: Shape
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Fallback:
    """An instruction that the target refused.

    Attributes:
        instruction: its name.
        opcode: its opcode.
        platform: where it runs instead.
        reason: what the target's compiler said.
    """

    instruction: str
    opcode: str
    platform: str
    reason: str

    def __str__(self) -> str:
        return f"{self.instruction} ({self.opcode}) runs on {self.platform}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Program:
    """A compiled module.

    Attributes:
        signature: the outside: shapes, aliasing, replicas; its platform is the target.
        platforms: names of the platforms that take part, the target first.
        executables: regions, and what the evaluator runs.
        constants: constants that thunks use.
        procedures: callees before callers; the last one is the entry.
        donors: argument numbers whose buffers the program may reuse if they are donated.
        instruction_counts: number of instructions by platform name.
        fallbacks: what the target refused, with reasons.
        work_counts: floating-point operations by platform name, each body of a loop counted once
            (`xladev/hlo/work.py`).
    """

    signature: Signature
    platforms: tuple[str, ...]
    executables: tuple[Executable, ...]
    constants: tuple[ConstantData, ...]
    procedures: tuple[Procedure, ...]
    donors: tuple[int, ...] = ()
    instruction_counts: tuple[tuple[str, int], ...] = ()
    fallbacks: tuple[Fallback, ...] = ()
    work_counts: tuple[tuple[str, int], ...] = ()

    @property
    def name(self) -> str:
        """Name of the module."""
        return self.signature.name

    @property
    def entry(self) -> Procedure:
        """The procedure that is run."""
        return self.procedures[-1]

    @property
    def device_count(self) -> int:
        """Devices that one execution takes."""
        return self.signature.num_replicas * self.signature.num_partitions

    def region_counts(self) -> dict[str, int]:
        """Number of executables by platform name."""
        return dict(Counter(e.signature.platform for e in self.executables))

    def __str__(self) -> str:
        return "\n".join(_lines(self)) + "\n"


def _lines(program: Program) -> Iterator[str]:
    signature = program.signature
    shapes = ", ".join(map(str, signature.parameters))
    yield f"program {program.name} ({shapes}) -> {signature.result}"
    yield f"  platforms {', '.join(program.platforms)}"
    for name, count in program.instruction_counts:
        yield f"  {count} instructions on {name}"
    for fallback in program.fallbacks:
        yield f"  fallback: {fallback}"
    for number, executable in enumerate(program.executables):
        mine, nbytes = executable.signature, executable.nbytes
        yield f"executable {number}: {mine.name} on {mine.platform}, {nbytes} bytes"
    for number, constant in enumerate(program.constants):
        yield f"constant {number}: {constant.shape}"
    for number, procedure in enumerate(program.procedures):
        yield from _procedure_lines(program, number, procedure)


def _procedure_lines(program: Program, number: int, procedure: Procedure) -> Iterator[str]:
    yield f"procedure {number}: {procedure.name} {_slots(procedure.parameters)}"
    for at, slot in enumerate(procedure.slots):
        yield f"  s{at} = {slot.shape} on {program.platforms[slot.platform]}"
    for thunk in procedure.thunks:
        yield f"  {thunk_text(thunk)}"
    yield f"  return {_slots(procedure.results)}"


def thunk_text(thunk: Thunk) -> str:
    """One line that shows a thunk."""
    shown = []
    for f in fields(thunk):
        value = getattr(thunk, f.name)
        if f.name == "needs" and not value:
            continue
        if f.name in ("arguments", "results") and not (value and isinstance(value[0], tuple)):
            value = _slots(value)
        shown.append(f"{f.name}={value}")
    return f"{_KIND_NAMES[type(thunk)]} {' '.join(shown)}"


def _slots(slots: Slots) -> str:
    return "(" + ", ".join(f"s{s}" for s in slots) + ")"
