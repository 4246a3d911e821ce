"""What the parser has read but not yet linked: names stand for instructions and computations."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from xladev.hlo.opdef import OpDef
from xladev.hlo.shape import Shape


@dataclass(slots=True)
class Reference:
    """A name of a computation or instruction and where it was read."""

    name: str
    offset: int


@dataclass(slots=True)
class OperandDraft:
    """An operand: its name, where it was read, and its shape in the long style."""

    name: str
    offset: int
    shape: Shape | None = None


@dataclass(slots=True)
class InstructionDraft:
    """An instruction as read.

    Attributes:
        name: its name; generated where the text gave none.
        offset: where its name (or opcode) stands.
        op: its opset entry.
        shape: result shape; None where the text leaves it to inference.
        operands: what it takes.
        attrs: attribute values; computations as References or drafts.
        note: fields of its Annotations; control predecessors as References.
        unique_name: its name, made unique among the module's instructions.
    """

    name: str
    offset: int
    op: OpDef
    shape: Shape | None
    operands: list[OperandDraft]
    attrs: dict[str, Any] = field(default_factory=dict[str, Any])
    note: dict[str, Any] = field(default_factory=dict[str, Any])
    unique_name: str = ""


@dataclass(slots=True)
class ComputationDraft:
    """A computation as read.

    Attributes:
        name: its name.
        offset: where its name stands.
        instructions: in text order.
        root: index of the root instruction.
        signature: parameter (name, shape) pairs and result shape; None in the short style.
        execution_thread: empty for the main thread.
        in_place: True if it was written in an attribute, so that no name refers to it.
    """

    name: str
    offset: int
    instructions: list[InstructionDraft]
    root: int
    signature: tuple[list[tuple[str, Shape]], Shape] | None = None
    execution_thread: str = ""
    in_place: bool = False
