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
    """

    tensor: Tensor
    dims: FactorDims
    factors: dict[int, Atoms]
    overflow: frozenset[int]
    is_operand: bool


def spread_basic(grid: Grid, edge: Edge, spread: SpreadOf) -> bool:
    """Spreads what no member contradicts; True if a member grew.

    For each factor: the longest list of atoms that all members have the beginning of, cut where in
    some member one of its atoms is used otherwise.
    """
    changed = False
    for factor in _factors(edge, spread):
        seen = _seen(grid, edge)
        atoms = _agreed(seen, factor, spread(edge, factor))
        for member in seen:
            if factor in member.factors:
                atoms = _free(grid, edge, member, factor, atoms)
        changed |= _update(grid, edge, seen, factor, atoms)
    return changed


def spread_aggressive(grid: Grid, edge: Edge, spread: SpreadOf) -> bool:
    """Spreads to each member what this one does not contradict; True if a member grew.

    Factors cut into more parts come first, so that of two that want the same atoms the one that is
    cut more gets them.
    """
    seen = _seen(grid, edge)
    agreed = {f: _agreed(seen, f, spread(edge, f)) for f in _factors(edge, spread)}
    order = sorted(agreed, key=lambda f: -grid.count(agreed[f]))
    changed = False
    for factor in order:
        for number in range(len(seen)):
            member = _seen(grid, edge)[number]
            if factor in member.factors:
                atoms = _free(grid, edge, member, factor, agreed[factor])
                changed |= _update(grid, edge, [member], factor, atoms)
    return changed


def _factors(edge: Edge, spread: SpreadOf) -> list[int]:
    rule = edge.rule
    every = range(len(rule.sizes))
    return [f for f in every if f not in rule.blocked and spread(edge, f) is not Spread.NONE]


def _seen(grid: Grid, edge: Edge) -> list[_Seen]:
    found: list[_Seen] = []
    for number, tensor in enumerate(edge.members):
        if tensor is None:
            continue
        dims = edge.rule.tensors[number]
        factors = project(grid, dims, edge.rule.sizes, tensor.dims)
        present = {f for d in dims for f in d}
        own = {f: factors[f] for f in present}
        placed = {a for atoms in own.values() for a in atoms}
        overflow = frozenset(a for atoms in tensor.dims for a in atoms if a not in placed)
        found.append(_Seen(tensor, dims, own, overflow, number < len(edge.operands)))
    return found


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
