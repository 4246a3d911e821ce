"""What packing is told: the layout of the right operand, and which part of it is wanted."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from xladev.codegen.llvm import Value


class Order(Enum):
    """How the right operand is laid out in memory."""

    ROWS = "rows"
    """Neighbours are neighbouring columns."""
    COLUMNS = "columns"
    """Neighbours are neighbouring steps."""
    APART = "apart"
    """Neither."""
    PANELS = "panels"
    """As packing would leave it: in panels as wide as a tile, filled with zeros."""


class PanelArguments(NamedTuple):
    """What packing is called with; strides in bytes.

    Attributes:
        panel: where to pack.
        source: first element.
        positions: number of positions.
        position: from one position to the next in the source.
        steps: number of steps at each position.
        step: from one step to the next in the source.
        column: from one column to the next there.
        columns: number of columns.
    """

    panel: Value
    source: Value
    positions: Value
    position: Value
    steps: Value
    step: Value
    column: Value
    columns: Value
