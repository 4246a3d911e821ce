"""How an instruction is divided among devices: by which atoms each factor is cut.

Its operands lie in some way, and its result is wanted in some way; what fits neither is moved. Each
candidate is a division that one of them suggests, and the one that moves fewest bytes is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from xladev.hlo.shape import Shape
from xladev.hlo.sharding.axis_sharding import AxisSharding
from xladev.hlo.sharding.factors import (
    FactorKind,
    FactorRule,
    Tensor,
    consistent,
    project,
    unproject,
)
from xladev.hlo.sharding.grid import Atoms, Grid
from xladev.passes.spmd.reshard import moved_bytes

Wanted = AxisSharding | None


@dataclass(frozen=True, slots=True)
class Division:
    """A way to divide an instruction.

    Attributes:
        factors: the atoms that cut each factor.
        operands: how the operands must be cut.
        results: how the results come out, before partial ones are added up.
        partial: atoms along which the results are parts of a sum.
    """

    factors: tuple[Atoms, ...]
    operands: tuple[AxisSharding, ...]
    results: tuple[AxisSharding, ...]
    partial: Atoms


@dataclass(frozen=True, slots=True)
class Question:
    """What is to be divided.

    Attributes:
        grid: of the devices.
        rule: the factors of the instruction.
        shapes: of the operands, then of the results, all whole.
        given: how operands are cut.
        wanted: how results are wanted; None where it does not matter.
        may_cut: whether the code for the instruction can do with a cut of this factor.
        free: numbers of operands that each device can make in any cut.
        also: how each operand lies elsewhere: cuts of values that it was moved from.
    """

    grid: Grid
    rule: FactorRule
    shapes: tuple[Shape, ...]
    given: tuple[Wanted, ...]
    wanted: tuple[Wanted, ...]
    may_cut: Callable[[int, Atoms], bool]
    free: frozenset[int] = frozenset()
    also: tuple[tuple[AxisSharding, ...], ...] = ()

    def best(self) -> Division:
        """The division that moves fewest bytes, and of these the one with the smallest parts."""
        candidates = dict.fromkeys(self._candidates())
        return min(map(self._division, candidates), key=self._cost)

    def _candidates(self) -> Iterator[tuple[Atoms, ...]]:
        operands = list(zip(self.rule.operands, self.given, strict=True))
        results = list(zip(self.rule.results, self.wanted, strict=True))
        for order in ([*results, *operands], [*operands, *results]):
            made = self._merged(order)
            yield made
            yield from self._exchanged(*order[0], made)
        for number in range(1, len(operands)):
            yield self._merged([operands[number], *operands, *results])
        yield self._merged([])

    def _exchanged(
        self, tensor: Tensor, sharding: Wanted, made: tuple[Atoms, ...]
    ) -> Iterator[tuple[Atoms, ...]]:
        """Cuts of a tensor that its factors must not have, along other factors instead.

        Args:
            tensor: its factors.
            sharding: how it is cut.
            made: what its factors may have of that.
        """
        if sharding is None or sharding.grid != self.grid:
            return
        sizes, now = self.rule.sizes, list(made)
        used = {a for atoms in now for a in atoms}
        rest = [a for a in sharding.atoms if a not in used]
        if not rest:
            return
        for factor in sorted(self._shared(tensor), key=lambda f: -sizes[f]):
            for atom in list(rest):
                more = (*now[factor], atom)
                if sizes[factor] % self.grid.count(more) == 0 and self.may_cut(factor, more):
                    now[factor] = more
                    rest.remove(atom)
        if not rest:
            yield tuple(consistent(self.grid, self.rule.tensors, sizes, now))

    def _shared(self, tensor: Tensor) -> list[int]:
        """Factors of an array that each device may have a part of alone."""
        kinds = self.rule.kinds
        return [f for factors in tensor for f in factors if kinds[f] is FactorKind.PASS]

    def _merged(self, order: Sequence[tuple[Tensor, Wanted]]) -> tuple[Atoms, ...]:
        """The cuts of the first, and those of the others where they do not collide."""
        sizes = self.rule.sizes
        now: list[Atoms] = [()] * len(sizes)
        for tensor, sharding in order:
            if sharding is None or sharding.grid != self.grid:
                continue
            used = {a for atoms in now for a in atoms}
            for factor, atoms in enumerate(project(self.grid, tensor, sizes, sharding.dims)):
                if now[factor] or not atoms or used & {*atoms} or not self.may_cut(factor, atoms):
                    continue
                now[factor] = atoms
        return tuple(consistent(self.grid, self.rule.tensors, sizes, now))

    def _division(self, factors: tuple[Atoms, ...]) -> Division:
        def cut(tensor: Tensor) -> AxisSharding:
            return AxisSharding(self.grid, unproject(self.grid, tensor, self.rule.sizes, factors))

        kinds = zip(self.rule.kinds, factors, strict=True)
        partial = tuple(a for kind, atoms in kinds if kind is FactorKind.REDUCE for a in atoms)
        operands, results = (
            tuple(map(cut, side)) for side in (self.rule.operands, self.rule.results)
        )
        return Division(factors, operands, results, partial)

    def _cost(self, division: Division) -> tuple[int, int]:
        count = len(division.operands)
        moved = work = 0
        for number, (shape, given, cut) in enumerate(
            zip(self.shapes, self.given, division.operands, strict=False)
        ):
            if given is not None:
                others = self.also[number] if self.also else ()
                least = min(moved_bytes(shape, each, cut) for each in (given, *others))
                moved += 0 if number in self.free else least
                work += cut.part_bytes(shape)
        for shape, wanted, cut in zip(
            self.shapes[count:], self.wanted, division.results, strict=True
        ):
            moved += result_bytes(shape, division.partial, cut, wanted)
            work += cut.part_bytes(shape)
        return moved, work


def result_bytes(shape: Shape, partial: Atoms, cut: AxisSharding, wanted: Wanted) -> int:
    """Bytes that each device receives until a result is added up and lies as wanted."""
    return moved_bytes(shape, replace(cut, unreduced=partial), wanted or cut)
