"""What propagation works on: tensors, whose shardings grow, and edges, along which they spread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import takewhile

from xladev.hlo.sharding.factors import FactorRule
from xladev.hlo.sharding.grid import Atoms, Grid


@dataclass(slots=True, eq=False)
class Tensor:
    """An array whose sharding may grow.

    Attributes:
        sizes: its dimensions.
        dims: the atoms that cut each of them.
        is_open: for each dimension, may it be cut further.
        replicated: atoms that must not cut it.
        later: for dimensions whose sharding counts from a later round on, this round and sharding.
        changes: how often it grew.
    """

    sizes: tuple[int, ...]
    dims: list[Atoms]
    is_open: list[bool]
    replicated: frozenset[int] = frozenset()
    later: dict[int, tuple[int, Atoms, bool]] = field(default_factory=dict)
    changes: int = 0

    def cut(self, dimension: int, atoms: Atoms) -> None:
        """Cuts a dimension by other atoms than before."""
        self.dims[dimension] = atoms
        self.changes += 1

    def begin_round(self, number: int) -> None:
        """Lets dimensions count whose round has come, if what they are cut by is still free."""
        for d, (since, atoms, is_open) in list(self.later.items()):
            if since > number:
                continue
            used = {a for other, own in enumerate(self.dims) if other != d for a in own}
            self.cut(d, () if used & {*atoms} else atoms)
            self.is_open[d] = is_open
            del self.later[d]

    def postpone(self, priorities: Sequence[int]) -> None:
        """Takes away the sharding of dimensions that count from a later round on."""
        for d, since in enumerate(priorities):
            if since > 0:
                self.later[d] = since, self.dims[d], self.is_open[d]
                self.dims[d], self.is_open[d] = (), False


class Spread(Enum):
    """From where a sharding may spread along an edge."""

    NONE = "nowhere"
    FORWARD = "from operands"
    BACKWARD = "from results"
    BOTH = "from all"


@dataclass(frozen=True, slots=True, eq=False)
class Edge:
    """An instruction, or a flow of data, as propagation sees it.

    Attributes:
        rule: its factors.
        operands: its operands; None for those through which nothing spreads.
        results: its results.
        opcode: what it is.
        is_used_once: True if one instruction at most uses its results.
        limit: where shardings may spread from at most.
    """

    rule: FactorRule
    operands: tuple[Tensor | None, ...]
    results: tuple[Tensor | None, ...]
    opcode: str
    is_used_once: bool = True
    limit: Spread = Spread.BOTH

    @property
    def members(self) -> tuple[Tensor | None, ...]:
        """Operands, then results."""
        return (*self.operands, *self.results)

    @property
    def state(self) -> int:
        """A number that rises when a member grows; -1 if nothing can spread from any."""
        members = [m for m in self.members if m is not None]
        if not any(any(m.dims) for m in members):
            return -1
        return sum(m.changes for m in members)


@dataclass(frozen=True, slots=True, eq=False)
class Border:
    """The border of a manual region: the outer sharding is manual atoms, then the inner one.

    Attributes:
        outer: the whole array.
        inner: the array within the region.
        manual: for each dimension the manual atoms that cut it.
    """

    outer: Tensor
    inner: Tensor
    manual: tuple[Atoms, ...]

    def agree(self) -> bool:
        """Lets each side grow as the other did; True if one did.

        What already cuts another dimension of a side does not cut this one too.
        """
        changed = False
        for d, manual in enumerate(self.manual):
            count = len(manual)
            if self.outer.dims[d][:count] != manual:
                continue
            inside, within = self.outer.dims[d][count:], self.inner.dims[d]
            changed |= self._grow(self.inner, d, within, inside)
            changed |= self._grow(self.outer, d, inside, within)
        return changed

    def _grow(self, side: Tensor, d: int, now: Atoms, other: Atoms) -> bool:
        """Cuts a dimension further by what the other side has beyond that; True if it did."""
        if other[: len(now)] != now or not side.is_open[d]:
            return False
        used = {a for n, own in enumerate(side.dims) if n != d for a in own}
        more = tuple(takewhile(lambda a: a not in used, other[len(now) :]))
        if more:
            side.cut(d, side.dims[d] + more)
        return bool(more)


def longest_even(grid: Grid, size: int, atoms: Sequence[int]) -> Atoms:
    """The longest beginning of some atoms that is of whole axes and cuts into even parts.

    Frameworks know neither parts of axes nor parts of unequal size.
    """
    for length in range(len(atoms), 0, -1):
        first = tuple(atoms[:length])
        is_of_axes = not any(ref.size for ref in grid.axes(first))
        if is_of_axes and size % grid.count(first) == 0:
            return first
    return ()


def longest_used(grid: Grid, size: int, atoms: Sequence[int]) -> Atoms:
    """The longest beginning of some atoms that makes no more parts than there are elements."""
    for length in range(len(atoms), 0, -1):
        if grid.count(atoms[:length]) <= size:
            return tuple(atoms[:length])
    return ()
