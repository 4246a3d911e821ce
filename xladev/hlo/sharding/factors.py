"""Factor rules: which dimensions of an instruction's operands and results go together.

A factor is an index that an operation runs over: the rows of a product, say. Each dimension of each
tensor is a product of factors. Where the same atoms of a grid cut a factor in all tensors that have
it, each device can do its part alone; what more it takes depends on the kind of the factor. Source:
Shardy's `OpShardingRuleAttr` (`shardy/dialect/sdy/ir/attrs.td`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from math import prod

from xladev.hlo.sharding.grid import Atoms, Grid

Factors = tuple[int, ...]
"""Numbers of factors that make one dimension, outermost first."""

Tensor = tuple[Factors, ...]
"""The factors of each dimension of an array; () for tokens too."""


class FactorKind(Enum):
    """What a cut of a factor means for the operation."""

    PASS = "pass-through"  # each device computes its part
    REDUCE = "reduction"  # each device computes a part of a sum, which are then added up
    WHOLE = "need replication"  # the operation needs all of it
    MOVE = "permutation"  # elements move along it: needs those of neighbours


@dataclass(frozen=True, slots=True)
class FactorRule:
    """The factors of one instruction.

    Attributes:
        sizes: of each factor.
        operands: for each operand its dimensions.
        results: for each array of the result its dimensions.
        kinds: of each factor.
        blocked: factors along which shardings do not spread.
    """

    sizes: tuple[int, ...]
    operands: tuple[Tensor, ...]
    results: tuple[Tensor, ...]
    kinds: tuple[FactorKind, ...]
    blocked: frozenset[int] = frozenset()

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """Operands, then results."""
        return (*self.operands, *self.results)

    def __str__(self) -> str:
        """As Shardy prints rules, such as ``([i, k],[k, j])->([i, j]) {i=8, j=4, k=2}``."""
        sides = (",".join(map(self._text, side)) for side in (self.operands, self.results))
        sizes = ", ".join(f"{_letter(f)}={n}" for f, n in enumerate(self.sizes))
        text = "({})->({}) ".format(*sides) + f"{{{sizes}}}"
        for kind in (FactorKind.REDUCE, FactorKind.WHOLE, FactorKind.MOVE):
            named = [_letter(f) for f, k in enumerate(self.kinds) if k is kind]
            text += f" {kind.value}={{{', '.join(named)}}}" if named else ""
        return text

    def _text(self, tensor: Tensor) -> str:
        return "[" + ", ".join("".join(map(_letter, factors)) for factors in tensor) + "]"


def _letter(factor: int) -> str:
    letters = "ijklmnopqrstuvwxyz"
    return letters[factor] if factor < len(letters) else f"z_{factor}"


class RuleBuilder:
    """Collects the factors of an instruction.

    Args:
        operands: ranks of the operands.
        results: ranks of the arrays of the result.
    """

    def __init__(self, operands: Sequence[int], results: Sequence[int]) -> None:
        self._operands: list[list[list[int]]] = [[[] for _ in range(r)] for r in operands]
        self._results: list[list[list[int]]] = [[[] for _ in range(r)] for r in results]
        self._sizes: list[int] = []
        self._kinds: list[FactorKind] = []
        self._blocked: set[int] = set()

    def factor(
        self,
        operands: Sequence[int | None],
        results: Sequence[int | None],
        size: int,
        kind: FactorKind = FactorKind.PASS,
        *,
        blocked: bool = False,
    ) -> RuleBuilder:
        """Adds one factor, inside of those that its dimensions have already.

        Args:
            operands: its dimension in each operand; None where an operand does not have it.
            results: likewise for the results.
            size: how long it is.
            kind: what a cut means.
            blocked: True if shardings do not spread along it.
        """
        number = len(self._sizes)
        self._sizes.append(size)
        self._kinds.append(kind)
        if blocked:
            self._blocked.add(number)
        for side, dims in ((self._operands, operands), (self._results, results)):
            for tensor, dim in zip(side, dims, strict=True):
                if dim is not None:
                    tensor[dim].append(number)
        return self

    def build(self) -> FactorRule:
        """The rule."""
        operands, results = (
            tuple(tuple(map(tuple, tensor)) for tensor in side)
            for side in (self._operands, self._results)
        )
        return FactorRule(
            tuple(self._sizes), operands, results, tuple(self._kinds), frozenset(self._blocked)
        )


def project(grid: Grid, tensor: Tensor, sizes: Sequence[int], dims: Sequence[Atoms]) -> list[Atoms]:
    """The atoms of each factor that a sharding of a tensor gives; () for factors it does not cut.

    A dimension's atoms go to its factors from the outside; the next factor gets some once the one
    before is cut to pieces of one element. Atoms that fit no factor are left out.
    """
    found: list[Atoms] = [()] * len(sizes)
    for factors, atoms in zip(tensor, dims, strict=True):
        for factor, own in _split(grid, factors, sizes, atoms):
            found[factor] = own
    return found


def _split(
    grid: Grid, factors: Factors, sizes: Sequence[int], atoms: Atoms
) -> Iterable[tuple[int, Atoms]]:
    if len(factors) == 1:
        yield factors[0], atoms
        return
    rest = list(atoms)
    for factor in factors:
        own: list[int] = []
        while rest and sizes[factor] % grid.count([*own, rest[0]]) == 0:
            own.append(rest.pop(0))
        yield factor, tuple(own)
        if grid.count(own) != sizes[factor]:
            return


def unproject(
    grid: Grid, tensor: Tensor, sizes: Sequence[int], factors: Sequence[Atoms]
) -> tuple[Atoms, ...]:
    """The sharding of a tensor that factors cut so; what lies behind a factor not cut up ends."""
    return tuple(_joined(grid, dim, sizes, factors) for dim in tensor)


def _joined(grid: Grid, dim: Factors, sizes: Sequence[int], factors: Sequence[Atoms]) -> Atoms:
    if len(dim) == 1:
        return factors[dim[0]]
    found: list[int] = []
    for factor in dim:
        if sizes[factor] % grid.count(factors[factor]):
            break
        found += factors[factor]
        if grid.count(factors[factor]) != sizes[factor]:
            break
    return tuple(found)


def consistent(
    grid: Grid, tensors: Iterable[Tensor], sizes: Sequence[int], factors: Sequence[Atoms]
) -> list[Atoms]:
    """The factors, but for cuts that some tensor cannot have: each ends up cut alike everywhere."""
    now = list(factors)
    listed = list(tensors)
    while True:
        before = list(now)
        for tensor in listed:
            for dim in tensor:
                _drop_hidden(grid, dim, sizes, now)
        if now == before:
            return now


def _drop_hidden(grid: Grid, dim: Factors, sizes: Sequence[int], now: list[Atoms]) -> None:
    if len(dim) == 1:
        return
    is_hidden = False
    for factor in dim:
        if is_hidden or sizes[factor] % grid.count(now[factor]):
            now[factor] = ()
        is_hidden = is_hidden or grid.count(now[factor]) != sizes[factor]


def covered(sizes: Sequence[int], dim: Factors) -> int:
    """The product of a dimension's factors."""
    return prod(sizes[f] for f in dim)
