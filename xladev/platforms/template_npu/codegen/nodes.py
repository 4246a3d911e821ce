"""Nodes: what one tile of a stage is computed from, in terms of loads and vector instructions.

A node's value is an array over the iteration variables of its stage; it is stored only over those
that it depends on, so that a bias is loaded once and read with a stride of zero.

What a vendor replaces: nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xladev.platforms.template_npu.codegen.command_list import TrackedBytes


@dataclass(frozen=True, slots=True)
class Array:
    """A row-major array in DRAM.

    Attributes:
        window: where it is.
        offset: of its first byte in the window.
    """

    window: TrackedBytes
    offset: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One value of a stage.

    Attributes:
        type: number of its element type.
        depends: for each iteration variable, whether the value depends on it.
        operands: values it is computed from.
    """

    type: int
    depends: tuple[bool, ...]
    operands: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class ConstantNode(Node):
    """A number, given by its bits."""

    bits: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Iota(Node):
    """``start`` plus the sum of each iteration variable times its ``step``, in s32 or u32."""

    start: int = 0
    steps: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Load(Node):
    """Elements of an array in DRAM; ``position`` and ``steps`` count elements.

    With an operand (s32), that is added to the position of each element; negative gives zero.
    """

    array: Array = Array(TrackedBytes(0))
    position: int = 0
    steps: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class OperationNode(Node):
    """A vector instruction on the operands, with a number in the word."""

    opcode: str = ""
    function: str = ""
    imm: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Input(Node):
    """A value that is in the scratchpad before the nodes are run; ``name`` tells it apart."""

    name: object = None


def union(parts: Sequence[tuple[bool, ...]], rank: int) -> tuple[bool, ...]:
    """What any of these depends on."""
    return tuple(any(p[j] for p in parts) for j in range(rank))


def reachable(roots: Sequence[Node]) -> tuple[Node, ...]:
    """The nodes that roots are computed from, operands first; iterative."""
    order: dict[Node, None] = {}
    stack: list[tuple[Node, int]] = [(root, 0) for root in reversed(roots)]
    while stack:
        node, at = stack.pop()
        if node in order:
            continue
        if at < len(node.operands):
            stack += [(node, at + 1), (node.operands[at], 0)]
        else:
            order[node] = None
    return tuple(order)
