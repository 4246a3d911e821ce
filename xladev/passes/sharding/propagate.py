"""Propagation: shardings spread along edges until nothing changes.

Rounds within rounds, as Shardy has them: first what the user gave the highest priority, then by
what an operation is, then the basic strategy before the aggressive one. Since shardings only grow,
it ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from xladev.hlo.sharding.factors import FactorKind
from xladev.hlo.sharding.grid import Grid
from xladev.passes.sharding.strategy import SpreadOf, Views, spread_aggressive, spread_basic
from xladev.passes.sharding.tensors import Border, Edge, Spread, Tensor

PASS_THROUGH = frozenset({"reshape", "transpose", "copy", "flow", "opt-barrier"})
"""Opcodes beside elementwise ones that give each element of an operand once."""


def propagate(
    grid: Grid, tensors: Iterable[Tensor], edges: Sequence[Edge], borders: Sequence[Border]
) -> None:
    """Lets tensors grow until nothing changes.

    Args:
        grid: of the devices.
        tensors: all of them; some may have shardings that count from a later round on.
        edges: along which shardings spread.
        borders: of manual regions.
    """
    waiting = [tensor for tensor in tensors if tensor.later]
    rounds = sorted({since for tensor in waiting for since, _, _ in tensor.later.values()} | {0})
    views = Views(grid)
    for number in rounds:
        for tensor in waiting:
            tensor.begin_round(number)
        _one_round(views, edges, borders)


def _one_round(views: Views, edges: Sequence[Edge], borders: Sequence[Border]) -> None:
    for level in LEVELS:
        _until_settled(views, edges, borders, level, spread_basic)
        _until_settled(views, edges, borders, level, spread_aggressive)


def _until_settled(
    views: Views,
    edges: Sequence[Edge],
    borders: Sequence[Border],
    level: SpreadOf,
    strategy: Callable[[Views, Edge, SpreadOf], bool],
) -> None:
    """Sweeps there and back, over edges whose members grew since they were looked at."""
    order = list(edges)
    seen: dict[Edge, int] = {}
    while True:
        changed = False
        for edge in order:
            state = edge.state
            if state < 0 or seen.get(edge) == state:
                continue
            seen[edge] = state
            changed |= strategy(views, edge, level)
        grown = [border.agree() for border in borders]
        if not changed and not any(grown):
            return
        order.reverse()


def _is_pass_through(edge: Edge) -> bool:
    return edge.opcode in PASS_THROUGH or edge.opcode == ELEMENTWISE


ELEMENTWISE = "elementwise"
"""The opcode of edges of elementwise instructions."""


def _first(edge: Edge, _: int) -> Spread:
    """Operations that pass elements through: backwards only where that is the one use."""
    if not _is_pass_through(edge):
        return Spread.NONE
    return _within(edge, Spread.BOTH if edge.is_used_once else Spread.FORWARD)


def _second(edge: Edge, _: int) -> Spread:
    return _within(edge, Spread.BOTH) if _is_pass_through(edge) else Spread.NONE


def _third(edge: Edge, factor: int) -> Spread:
    return _fourth(edge, factor) if edge.rule.kinds[factor] is FactorKind.PASS else Spread.NONE


def _fourth(edge: Edge, _: int) -> Spread:
    """Not from what is small to what is made of it by repetition."""
    return _within(edge, Spread.BACKWARD if edge.opcode == "broadcast" else Spread.BOTH)


def _fifth(edge: Edge, _: int) -> Spread:
    return _within(edge, Spread.BOTH)


def _within(edge: Edge, wanted: Spread) -> Spread:
    if edge.limit is Spread.BOTH or wanted is edge.limit:
        return wanted
    return edge.limit if wanted is Spread.BOTH else Spread.NONE


LEVELS: tuple[SpreadOf, ...] = (_first, _second, _third, _fourth, _fifth)
"""From where factors may spread, in the order of the rounds."""
