"""Instructions as data: what a builder keeps beside its text, for those who write another form.

Only what takes part in calls of other functions has a class: addresses, whole numbers, loops. A
function with anything else is known up to there.
"""

from __future__ import annotations

from typing import NamedTuple

from xladev.codegen.llvm.types import IrType
from xladev.codegen.llvm.values import Value


class Label(NamedTuple):
    """A basic block begins."""

    name: str


class AllocaInst(NamedTuple):
    """Stack space for ``size`` elements at a multiple of ``align`` bytes."""

    type: IrType
    size: int
    align: int
    result: str


class BinaryOperator(NamedTuple):
    """``result = opcode left, right``; ``icmp slt`` and ``add nsw`` are opcodes too."""

    opcode: str
    left: Value
    right: Value
    result: str


class CastInst(NamedTuple):
    """``result = opcode value to type``."""

    opcode: str
    value: Value
    type: IrType
    result: str


class GetElementPtrInst(NamedTuple):
    """The address ``offset`` elements after ``base``."""

    element: IrType
    base: Value
    offset: Value
    result: str


class LoadInst(NamedTuple):
    """Reads a value of ``type``."""

    type: IrType
    address: Value
    result: str


class StoreInst(NamedTuple):
    """Writes a value."""

    value: Value
    address: Value


class MemCpyInst(NamedTuple):
    """Copies ``nbytes`` bytes."""

    destination: Value
    source: Value
    nbytes: int


class FenceInst(NamedTuple):
    """What was stored before is seen before what is stored after."""


class IntrinsicInst(NamedTuple):
    """A call of ``llvm.<name>`` for the type of its operands."""

    name: str
    operands: tuple[Value, ...]
    result: str


class CallInst(NamedTuple):
    """A call of a function that returns nothing."""

    symbol: str
    arguments: tuple[Value, ...]


class UnconditionalBranch(NamedTuple):
    """Goes on at a block."""

    target: str


class ConditionalBranch(NamedTuple):
    """Goes on at one of two blocks."""

    condition: Value
    then: str
    otherwise: str


class PhiNode(NamedTuple):
    """The value of the edge by which its block was entered; ``edges`` are values and blocks."""

    type: IrType
    edges: tuple[tuple[Value, str], ...]
    result: str


class ReturnInst(NamedTuple):
    """Returns nothing."""


class Other(NamedTuple):
    """Any other instruction; nothing is kept behind it."""


Instruction = (
    Label | AllocaInst | BinaryOperator | CastInst | GetElementPtrInst | LoadInst | StoreInst
    | MemCpyInst | FenceInst | IntrinsicInst | CallInst | UnconditionalBranch | ConditionalBranch
    | PhiNode | ReturnInst | Other
)  # fmt: skip
