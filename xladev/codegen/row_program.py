"""Row programs: kernels that reduce rows of an array and go on with each, which stays in the cache.

A softmax reduces a row twice and writes it once. Its values are *full*, of the array's dimensions,
or *row* values, one for each row; only reductions make row values of full ones, only broadcasts
full values of row values. A value's level is the number of reductions that must be done before it
is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

from xladev.codegen.reductions import reduction_of
from xladev.hlo.ir import HloComputation, HloInstruction

LEAST_ROW = 32
"""Elements of the innermost dimension below which vectors along all of memory are better."""
MOST_NBYTES = 1 << 16
"""Bytes of a row in the widest of its types; longer ones would not stay in the cache."""

_STORE_FROM = 8
"""Cost of an element from which it is kept for a later pass over the row."""


@dataclass(frozen=True, slots=True)
class RowSpace:
    """The rows of an array.

    Attributes:
        dims: of full values.
        kept: how many of them, from the outermost on, count rows; the others are reduced.
    """

    dims: tuple[int, ...]
    kept: int

    @property
    def row(self) -> tuple[int, ...]:
        """Dimensions of one row."""
        return self.dims[self.kept :]

    def is_full(self, i: HloInstruction) -> bool:
        """True for an array of the whole space."""
        return i.shape.is_array and i.shape.dims == self.dims

    def is_row_value(self, i: HloInstruction) -> bool:
        """True for an array with an element for each row, whether or not dimensions of 1 follow."""
        kept, ones = self.dims[: self.kept], (1,) * len(self.row)
        return i.shape.is_array and i.shape.dims in (kept, kept + ones)

    def may_compute(self, i: HloInstruction) -> bool:
        """True for what a row program of this space may contain, whatever its operands are."""
        if self.is_full(i):
            return i.op.elementwise or i.opcode == "broadcast"
        if not self.is_row_value(i):
            return False
        if i.opcode == "reduce":
            return (
                self.is_full(i.operands[0]) and row_space(i) == self and reduction_of(i) is not None
            )
        return i.op.elementwise or (i.opcode == "reshape" and self.is_row_value(i.operands[0]))

    def may_read(self, reader: HloInstruction, value: HloInstruction) -> bool:
        """True if ``reader`` may use a value of the same row program."""
        if reader.opcode == "broadcast":
            return self.is_row_value(value) and reader["dimensions"] == tuple(range(self.kept))
        if reader.opcode == "reduce":
            return value is reader.operands[0] and value is not reader.operands[1]
        if self.is_full(reader):
            return self.is_full(value)
        return reader.opcode == "reshape" or value.shape.dims == reader.shape.dims


def row_space(reduce: HloInstruction) -> RowSpace | None:
    """The rows that a reduce reduces; None if they are no rows, or too short or too long."""
    if reduce.opcode != "reduce" or len(reduce.operands) != 2:
        return None
    shape = reduce.operands[0].shape
    kept = shape.rank - len(reduce["dimensions"])
    row = shape.dims[kept:]
    reduced = tuple(sorted(reduce["dimensions"]))
    if not kept or not reduced or reduced != tuple(range(kept, shape.rank)) or not shape.size:
        return None
    if row[-1] < LEAST_ROW or prod(row) * max(shape.element_type.host_nbytes, 4) > MOST_NBYTES:
        return None
    return RowSpace(shape.dims, kept)


@dataclass(frozen=True, slots=True)
class Phase:
    """One pass over a row.

    Attributes:
        reductions: what it reduces.
        stores: full values that it keeps for later passes.
    """

    reductions: tuple[HloInstruction, ...]
    stores: tuple[HloInstruction, ...]


class RowProgram:
    """The passes of a kernel over each row.

    Attributes:
        space: its rows.
        root: its result, a full value or a row value.
        levels: of all instructions that belong to rows.
    """

    def __init__(self, space: RowSpace, computation: HloComputation) -> None:
        self.space = space
        self.root = computation.root
        self.levels: dict[HloInstruction, int] = {}
        for i in computation.instructions:
            level = max((self.levels.get(o, 0) for o in i.operands), default=0)
            self.levels[i] = level + (i.opcode == "reduce")
        self._costs: dict[HloInstruction, int] = {}

    @cached_property
    def phases(self) -> tuple[Phase, ...]:
        """All passes that reduce; a last one for a full result is not among them."""
        reductions = [i for i in self.levels if i.opcode == "reduce"]
        steps = [
            tuple(i for i in reductions if self.levels[i] == n + 1) for n in range(self._count())
        ]
        goals = [tuple(f.operands[0] for f in step) for step in steps]
        goals.append((self.root,) if self.space.is_full(self.root) else ())
        stored: set[HloInstruction] = set()
        phases: list[Phase] = []
        for n, step in enumerate(steps):
            costly = {v for v in self._visited(goals[n], stored) if self._cost(v) >= _STORE_FROM}
            known = stored | costly
            later = [v for goal in goals[n + 1 :] for v in self._reached(goal, known)]
            stores = tuple(v for v in self.levels if v in later and v not in stored)
            stored.update(stores)
            phases.append(Phase(step, stores))
        return tuple(phases)

    def row_values(self, level: int) -> list[HloInstruction]:
        """What is known of each row after so many passes, reductions apart."""
        return [
            i
            for i, at in self.levels.items()
            if at == level and i.opcode not in ("reduce", "parameter") and i.shape.rank
            and self.space.is_row_value(i)
        ]  # fmt: skip

    def read_by_rows(self) -> set[HloInstruction]:
        """Parameters that are read in the row at hand alone, and no more once it is written."""
        full = {i for i in self.levels if i.opcode == "parameter" and self.space.is_full(i)}
        for i in self.levels:
            if i.opcode != "reduce" and not (i.op.elementwise and self.space.is_full(i)):
                full.difference_update(i.operands)
        return full - {self.root}

    def _count(self) -> int:
        return max((at for i, at in self.levels.items() if i.opcode == "reduce"), default=0)

    def _operands(self, i: HloInstruction) -> Iterable[HloInstruction]:
        return (o for o in i.operands if self.space.is_full(o) and i.opcode != "reduce")

    def _visited(
        self, goals: Sequence[HloInstruction], known: set[HloInstruction]
    ) -> set[HloInstruction]:
        """Full values that a pass computes, where some are known."""
        found: set[HloInstruction] = set()
        pending = list(goals)
        while pending:
            i = pending.pop()
            if i in found or i in known or i.opcode == "parameter":
                continue
            found.add(i)
            pending += self._operands(i)
        return found

    def _reached(
        self, goals: Sequence[HloInstruction], known: set[HloInstruction]
    ) -> set[HloInstruction]:
        """Those of the known values that a pass reads."""
        visited = self._visited(goals, known)
        read = {o for i in visited for o in self._operands(i)}
        return known & (read | set(goals))

    def _cost(self, i: HloInstruction) -> int:
        """Roughly, instructions for one element from what is in memory."""
        if i not in self._costs:
            self._costs[i] = _own_cost(i) + sum(self._cost(o) for o in self._operands(i))
        return self._costs[i]


def _own_cost(i: HloInstruction) -> int:
    """Its expense; 1 for what is not expensive, and for an element that is read."""
    if not i.op.elementwise:
        return int(i.opcode == "parameter")
    return i.op.expense if i.op.is_expensive else 1


def row_program(computation: HloComputation) -> RowProgram | None:
    """The passes over rows of a kernel; None for a kernel of another kind."""
    inner = [i for i in computation.instructions if i.opcode == "reduce"]
    if not inner or (len(inner) == 1 and inner[0] is computation.root):
        return None
    if computation.root.opcode == "tuple":
        return None
    space = row_space(inner[0])
    if space is None or not all(_belongs(space, i) for i in computation.instructions):
        return None
    return RowProgram(space, computation)


def _belongs(space: RowSpace, i: HloInstruction) -> bool:
    if i.opcode in ("parameter", "constant") or not i.shape.rank:
        return True
    if not space.may_compute(i):
        return i.opcode in ("broadcast", "iota", "constant")
    return True
