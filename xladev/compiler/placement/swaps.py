"""The cheapest labels of units that exchange values: for two labels exactly, by a minimum cut.

For more, pairs of labels are settled in turn: what has either is labelled anew, all else stays
(swap moves; Boykov, Veksler and Zabih, "Fast approximate energy minimization via graph cuts", IEEE
Transactions on Pattern Analysis and Machine Intelligence 23, 2001), until no pair gains anything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

from xladev.compiler.placement.min_cut import ENDLESS, CutGraph

MOST_ROUNDS = 8
Labels = list[int]
TransferTime = Callable[[int, int, int], int]
"""Args: bytes, source and target."""


class Value(NamedTuple):
    """What one unit gives to others.

    Attributes:
        producer: a unit.
        consumers: other units, each once.
        nbytes: its size.
    """

    producer: int
    consumers: tuple[int, ...]
    nbytes: int


@dataclass(frozen=True, slots=True)
class LabelProblem:
    """What is to be labelled; times are whole numbers.

    Attributes:
        work: the time of each unit by label; None where it cannot have the label.
        values: what units exchange. A value is moved once to each label that reads it.
        transfer: what moving a value takes.
    """

    work: Sequence[Sequence[int | None]]
    values: Sequence[Value]
    transfer: TransferTime

    def time(self, labels: Sequence[int]) -> int:
        """The time of all work and all transfers, one after the other."""
        total = sum(self.work[unit][label] or 0 for unit, label in enumerate(labels))
        for value in self.values:
            home = labels[value.producer]
            for label in {labels[c] for c in value.consumers} - {home}:
                total += self.transfer(value.nbytes, home, label)
        return total


def cheapest_labels(problem: LabelProblem, start: Sequence[int]) -> Labels:
    """Labels of the least time that swaps of pairs find; of two labels, of the least there is.

    Args:
        problem: what is to be labelled.
        start: labels that the units can have.
    """
    labels, time = list(start), problem.time(start)
    used = range(len(problem.work[0]) if problem.work else 0)
    pairs = [p for p in combinations(used, 2) if any(_is_free(row, p) for row in problem.work)]
    for _ in range(MOST_ROUNDS if len(pairs) > 1 else 1):
        before = time
        for pair in pairs:
            made = _swapped(problem, labels, pair)
            if (taken := problem.time(made)) < time:
                labels, time = made, taken
        if time == before:
            break
    return labels


def _is_free(row: Sequence[int | None], pair: tuple[int, int]) -> bool:
    return row[pair[0]] is not None and row[pair[1]] is not None


def _swapped(problem: LabelProblem, labels: Sequence[int], pair: tuple[int, int]) -> Labels:
    """The best labels where units of either label of a pair may take the other."""
    cut = _PairCut(problem, labels, pair)
    sides = cut.sides()
    made = list(labels)
    for unit, node in cut.nodes.items():
        made[unit] = pair[0] if sides[node] else pair[1]
    return made


class _PairCut:
    """A cut whose source's side is the first label of a pair."""

    def __init__(self, problem: LabelProblem, labels: Sequence[int], pair: tuple[int, int]) -> None:
        self._problem, self._labels, self._pair = problem, labels, pair
        self._graph = CutGraph()
        self.nodes = {u: self._graph.node() for u, label in enumerate(labels) if label in pair}
        self._costs = {u: self._work(u) for u in self.nodes}
        for value in problem.values:
            self._add(value)
        for unit, node in self.nodes.items():
            first, second = self._costs[unit]
            self._graph.terminals(node, second, first)

    def sides(self) -> list[bool]:
        """For each node, whether it has the first label."""
        return self._graph.cut()

    def _work(self, unit: int) -> list[int]:
        row = self._problem.work[unit]
        return [ENDLESS if (time := row[label]) is None else time for label in self._pair]

    def _add(self, value: Value) -> None:
        """What moving a value costs, by which of its units are on which side."""
        nodes, labels, pair = self.nodes, self._labels, self._pair
        inside = [nodes[c] for c in value.consumers if c in nodes]
        if value.producer not in nodes:
            if inside:
                self._from_elsewhere(value, inside)
            return
        node = nodes[value.producer]
        for label in {labels[c] for c in value.consumers if c not in nodes}:
            for at, own in enumerate(pair):
                self._costs[value.producer][at] += self._problem.transfer(value.nbytes, own, label)
        if not inside:
            return
        there = self._problem.transfer(value.nbytes, pair[0], pair[1])
        back = self._problem.transfer(value.nbytes, pair[1], pair[0])
        if len(inside) == 1:
            self._graph.edge(node, inside[0], there, back)
            return
        any_second, any_first = self._graph.node(), self._graph.node()
        self._graph.edge(node, any_second, there)
        self._graph.edge(any_first, node, back)
        for consumer in inside:
            self._graph.edge(any_second, consumer, ENDLESS)
            self._graph.edge(consumer, any_first, ENDLESS)

    def _from_elsewhere(self, value: Value, inside: Sequence[int]) -> None:
        """A value of a third label is moved once to either label of the pair that reads it."""
        home = self._labels[value.producer]
        any_first, any_second = self._graph.node(), self._graph.node()
        first, second = (self._problem.transfer(value.nbytes, home, p) for p in self._pair)
        self._graph.terminals(any_first, 0, first)
        self._graph.terminals(any_second, second, 0)
        for consumer in inside:
            self._graph.edge(consumer, any_first, ENDLESS)
            self._graph.edge(any_second, consumer, ENDLESS)
