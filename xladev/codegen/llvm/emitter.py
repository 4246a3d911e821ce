"""The growing body of one function: lines, fresh names, the current block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Protocol

from xladev.codegen.llvm.instructions import (
    AllocaInst,
    Instruction,
    Label,
    Other,
    PhiNode,
    ReturnInst,
)
from xladev.codegen.llvm.loop_census import LoopCensus
from xladev.codegen.llvm.target import TargetTraits
from xladev.codegen.llvm.types import PTR, VOID, IrType
from xladev.codegen.llvm.values import Operand, Value, constant
from xladev.errors import CompileError


class Symbols(Protocol):
    """What a function's body asks of its module."""

    target: TargetTraits

    def declare_intrinsic(self, symbol: str, result: IrType, types: Sequence[str]) -> None:
        """Declares an intrinsic once."""
        ...

    def constant_table(
        self, name: str, element: IrType, numbers: tuple[float | int, ...], align: int = 64
    ) -> Value:
        """Address of a constant array, made once per name."""
        ...


class Mark(NamedTuple):
    """A point in the body of a function that is being written."""

    lines: int
    allocas: int
    keeps: bool
    block: str
    terminated: bool
    loops: tuple[int, int, bool, int]


_OF_FUNCTION = (
    "name", "result", "block", "loops", "_lines", "_allocas", "_terminated",
    "_keeps", "_kept", "_kept_allocas",
)  # fmt: skip
"""What an emitter knows of the function that it writes."""


class InstructionEmitter:
    """Appends instructions to a function; the base of the builders' vocabularies.

    Text is all that it makes, unless `keep` asks for instructions as data too.
    """

    def __init__(self, module: Symbols, name: str, result: IrType) -> None:
        self.module = module
        self.name = name
        self.result = result
        self.block = "entry"
        self.loops = LoopCensus()
        self._lines: list[str] = []
        self._allocas: list[str] = []
        self._keeps = False
        self._kept: list[Instruction] = []
        self._kept_allocas: list[Instruction] = []
        self._names = 0
        self._terminated = False

    def fresh(self, prefix: str = "v") -> str:
        """A name not used before in this function."""
        self._names += 1
        return f"{prefix}{self._names}"

    def emit(self, type_: IrType, instruction: str) -> Value:
        """Appends an instruction that yields a value of ``type_``."""
        self._names += 1
        name = f"%v{self._names}"
        self._lines.append(f"  {name} = {instruction}")
        return Value(name, type_)

    def do(self, instruction: str) -> None:
        """Appends an instruction that yields nothing."""
        self._lines.append(f"  {instruction}")

    def start_block(self, label: str) -> None:
        """Begins a basic block; the one before must have been terminated."""
        if not self._terminated:
            raise CompileError(f"block {self.block} has no terminator", where=f"@{self.name}")
        self._lines.append(f"{label}:")
        if self._keeps:
            self._note(Label(label))
        self.block = label
        self._terminated = False

    def terminate(self, instruction: str) -> None:
        """Ends the current block with a branch or return."""
        if self._terminated:
            raise CompileError(f"block {self.block} has two terminators", where=f"@{self.name}")
        self._lines.append(f"  {instruction}")
        self._terminated = True

    def ret(self, value: Value | None = None) -> None:
        """Returns from the function."""
        if (value.type if value else VOID) != self.result:
            raise CompileError(
                f"@{self.name} returns {value.type if value else VOID}, declared {self.result}"
            )
        self.terminate(f"ret {value}" if value else "ret void")
        if self._keeps and value is None:
            self._note(ReturnInst())

    def keep(self) -> None:
        """Asks for `instructions`, before the first one is appended."""
        self._keeps = True

    def _note(self, instruction: Instruction) -> None:
        """Says what the last line is. Nothing more is kept behind a line of which nobody did."""
        self._keeps = len(self._kept) == len(self._lines) - 1
        if self._keeps:
            self._kept.append(instruction)

    def instructions(self) -> tuple[Instruction, ...]:
        """The function as data: `Other` stands for the first instruction that was not kept."""
        rest = () if len(self._kept) == len(self._lines) else (Other(),)
        return (Label("entry"), *self._kept_allocas, *self._kept, *rest)

    def mark(self) -> Mark:
        """Where the body is now, for `reset`."""
        sizes = len(self._lines), len(self._allocas)
        return Mark(*sizes, self._keeps, self.block, self._terminated, self.loops.mark())

    def reset(self, mark: Mark) -> None:
        """Forgets what was emitted since a mark; none of its values may be used."""
        del self._lines[mark.lines :], self._allocas[mark.allocas :]
        del self._kept[mark.lines :], self._kept_allocas[mark.allocas :]
        self._keeps = mark.keeps
        self.block, self._terminated = mark.block, mark.terminated
        self.loops.reset(mark.loops)

    def enter_loop(self, trips: int) -> int:
        """Says that what follows runs so many times; the line of its first instruction."""
        self.loops.enter(trips)
        return len(self._lines)

    def leave_loop(self, first: int) -> None:
        """Ends what `enter_loop` began."""
        self.loops.leave(self._lines[first:])

    @contextmanager
    def writing(self, other: InstructionEmitter) -> Iterator[None]:
        """What is emitted until the block ends goes to the other function, under fresh names."""
        self._exchange(other)
        try:
            yield
        finally:
            self._exchange(other)

    def _exchange(self, other: InstructionEmitter) -> None:
        for name in _OF_FUNCTION:
            own = getattr(self, name)
            setattr(self, name, getattr(other, name))
            setattr(other, name, own)

    def reserve(self) -> int:
        """Reserves a line to be written later by `fill`: a phi whose latch is not known yet."""
        self._lines.append("")
        if self._keeps:
            self._note(Other())
        return len(self._lines) - 1

    def fill(self, line: int, instruction: str, phi: PhiNode) -> None:
        """Writes a line reserved before, and says what it is."""
        self._lines[line] = f"  {instruction}"
        if line < len(self._kept):
            self._kept[line] = phi

    def alloca(self, type_: IrType, count: int = 1, align: int = 16) -> Value:
        """Stack space for ``count`` elements of ``type_``, taken in the entry block."""
        name = f"%{self.fresh('stack')}"
        self._allocas.append(f"  {name} = alloca [{count} x {type_}], align {align}")
        self._kept_allocas.append(AllocaInst(type_, count, align, name))
        return Value(name, PTR)

    def const(self, type_: IrType, number: float | int) -> Value:
        """A constant of ``type_``, spread over its lanes."""
        return constant(type_, number)

    def like(self, operand: Operand, other: Value) -> Value:
        """``operand`` as a value: numbers become constants of the other operand's type."""
        return operand if isinstance(operand, Value) else constant(other.type, operand)

    def body(self) -> str:
        """The text between the braces; CompileError if the last block is open."""
        if not self._terminated:
            raise CompileError(f"block {self.block} has no terminator", where=f"@{self.name}")
        return "\n".join(["entry:", *self._allocas, *self._lines])
