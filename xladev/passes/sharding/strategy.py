"""How shardings spread along one edge: the basic and the aggressive strategy.

Source: `BasicFactorPropagation` and `AggressiveFactorPropagation` of Shardy, in terms of atoms.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from xladev.hlo.sharding.factors import Tensor as FactorDims
from xladev.hlo.sharding.factors import project
from xladev.hlo.sharding.grid import Atoms, Grid
from xladev.passes.sharding.tensors import Edge, Spread, Tensor

SpreadOf = Callable[[Edge, int], Spread]
"""From where a factor of an edge may spread."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """One member of an edge, by factors.

    Attributes:
        tensor: the member.
        dims: the factors of its dimensions.
        factors: the atoms of each factor that it has.
        overflow: atoms of its dimensions that no factor has.
        is_operand: on which side it is.
        changes: how often the tensor had grown.
    """

    tensor: Tensor
    dims: FactorDims
    factors: dict[int, Atoms]
    overflow: frozenset[int]
    is_operand: bool
    changes: int


class Views:
    """The members of edges by factors; one is made anew only after its tensor grew.

    Args:
        grid: of the devices.
    """

    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        self._made: dict[Edge, tuple[_Seen, ...]] = {}

    def of(self, edge: Edge) -> tuple[_Seen, ...]:
        """Those of an edge that there are, operands first, as they are now."""
        made = self._made.get(edge)
        if made is None:
            made = self._made[edge] = tuple(_all_seen(self.grid, edge))
        elif any(member.changes != member.tensor.changes for member in made):
            made = self._made[edge] = tuple(self._again(edge, made))
        return made

    def _again(self, edge: Edge, made: Sequence[_Seen]) -> Iterator[_Seen]:
        for m in made:
            is_same = m.changes == m.tensor.changes
            yield m if is_same else _seen(self.grid, edge, m.tensor, m.dims, m.is_operand)


def spread_basic(views: Views, edge: Edge, spread: SpreadOf) -> bool:
    """Spreads what no member contradicts; True if a member grew.

    For each factor: the longest list of atoms that all members have the beginning of, cut where in
    some member one of its atoms is used otherwise.
    """
    changed = False
    for factor in _factors(edge, spread):
        seen = views.of(edge)
        atoms = _agreed(seen, factor, spread(edge, factor))
        for member in seen:
            if factor in member.factors:
                atoms = _free(views.grid, edge, member, factor, atoms)
        changed |= _update(views.grid, edge, seen, factor, atoms)
    return changed


def spread_aggressive(views: Views, edge: Edge, spread: SpreadOf) -> bool:
    """Spreads to each member what this one does not contradict; True if a member grew.

    Factors cut into more parts come first, so that of two that want the same atoms the one that is
    cut more gets them.
    """
    grid, seen = views.grid, views.of(edge)
    agreed = {f: _agreed(seen, f, spread(edge, f)) for f in _factors(edge, spread)}
    order = sorted(agreed, key=lambda f: -grid.count(agreed[f]))
    changed = False
    for factor in order:
        for number in range(len(seen)):
            member = views.of(edge)[number]
            if factor in member.factors:
                atoms = _free(grid, edge, member, factor, agreed[factor])
                changed |= _update(grid, edge, [member], factor, atoms)
    return changed


def _factors(edge: Edge, spread: SpreadOf) -> list[int]:
    rule = edge.rule
    every = range(len(rule.sizes))
    return [f for f in every if f not in rule.blocked and spread(edge, f) is not Spread.NONE]


def _all_seen(grid: Grid, edge: Edge) -> Iterator[_Seen]:
    for number, tensor in enumerate(edge.members):
        if tensor is not None:
            dims = edge.rule.tensors[number]
            yield _seen(grid, edge, tensor, dims, number < len(edge.operands))


def _seen(grid: Grid, edge: Edge, tensor: Tensor, dims: FactorDims, is_operand: bool) -> _Seen:
    factors = project(grid, dims, edge.rule.sizes, tensor.dims)
    present = {f for d in dims for f in d}
    own = {f: factors[f] for f in present}
    placed = {a for atoms in own.values() for a in atoms}
    overflow = frozenset(a for atoms in tensor.dims for a in atoms if a not in placed)
    return _Seen(tensor, dims, own, overflow, is_operand, tensor.changes)


def _agreed(seen: Sequence[_Seen], factor: int, spread: Spread) -> Atoms:
    """The longest list of atoms that all sources have the beginning of."""
    lists = [
        member.factors[factor]
        for member in seen
        if factor in member.factors and _is_source(member, spread)
    ]
    if not lists:
        return ()
    longest = max(lists, key=len)
    for other in lists:
        longest = longest[: max(_common(longest, other), _whole(longest, other))]
    return longest


def _is_source(member: _Seen, spread: Spread) -> bool:
    if spread is Spread.BOTH:
        return True
    return member.is_operand == (spread is Spread.FORWARD)


def _common(a: Atoms, b: Atoms) -> int:
    return next(
        (n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b))
    )


def _whole(longest: Atoms, other: Atoms) -> int:
    """All of it, where the other is its beginning."""
    return len(longest) if longest[: len(other)] == other else 0


def _free(grid: Grid, edge: Edge, member: _Seen, factor: int, atoms: Atoms) -> Atoms:
    """The beginning of some atoms by which a member's factor can be cut."""
    used = {a for f, own in member.factors.items() if f != factor for a in own}
    used |= member.overflow | member.tensor.replicated
    length = 0
    while length < len(atoms) and atoms[length] not in used:
        length += 1
    return _fitting(grid, edge, member, factor, atoms[:length])


def _fitting(grid: Grid, edge: Edge, member: _Seen, factor: int, atoms: Atoms) -> Atoms:
    """A dimension of several factors is cut evenly; one of a single factor may have padding."""
    size = edge.rule.sizes[factor]
    dim = next(d for d in member.dims if factor in d)
    if len(dim) == 1:
        return atoms
    while atoms and size % grid.count(atoms):
        atoms = atoms[:-1]
    return atoms


def _update(grid: Grid, edge: Edge, seen: Collection[_Seen], factor: int, atoms: Atoms) -> bool:
    changed = False
    for member in seen:
        now = member.factors.get(factor)
        if now is None or len(atoms) <= len(now) or atoms[: len(now)] != now:
            continue
        changed |= _grow(grid, edge, member, factor, atoms)
    return changed


def _grow(grid: Grid, edge: Edge, member: _Seen, factor: int, atoms: Atoms) -> bool:
    """Cuts the dimension of a factor further; what lies behind a factor not cut up ends."""
    d = next(d for d, factors in enumerate(member.dims) if factor in factors)
    if not member.tensor.is_open[d] or member.overflow & {*member.tensor.dims[d]}:
        return False
    joined = tuple(_joined(grid, edge, member, d, factor, atoms))
    before = member.tensor.dims[d]
    if len(joined) <= len(before) or joined[: len(before)] != before:
        return False
    member.tensor.cut(d, joined)
    return True


def _joined(
    grid: Grid, edge: Edge, member: _Seen, d: int, factor: int, atoms: Atoms
) -> Iterator[int]:
    for f in member.dims[d]:
        own = atoms if f == factor else member.factors[f]
        yield from own
        if grid.count(own) != edge.rule.sizes[f]:
            return
