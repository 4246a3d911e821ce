"""Orders of the steps of a work graph that tend to keep few bytes alive; each near-linear."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

from xladev.compiler.schedule.work_graph import WorkGraph


def forward(graph: WorkGraph) -> list[int]:
    """From the front: of the steps that are ready, the one that frees most and makes least."""
    readers = _readers(graph)
    unread = [len(r) for r in readers]
    for value in graph.results:
        unread[value] += 1
    gain = [-sum(graph.sizes[value] for value in made) for made in graph.makes]

    def only_reader_left(value: int) -> None:
        for step in readers[value]:
            if step not in done:
                gain[step] += graph.sizes[value]
                ready.update(step)

    done: set[int] = set()
    ready = _Ready(graph.needs, gain, reverse=False)
    for value, count in enumerate(unread):
        if count == 1 and value not in graph.results:
            only_reader_left(value)
    for step in ready:
        done.add(step)
        for value in graph.reads[step]:
            unread[value] -= 1
            if unread[value] == 1 and value not in graph.results:
                only_reader_left(value)
    return ready.taken


def backward(graph: WorkGraph) -> list[int]:
    """From the back: of the steps all of whose readers are placed, the one that needs least.

    Seen from the back, a step ends the life of what it makes and begins that of what it reads.
    """
    readers = _readers(graph)
    live = set(graph.results)
    gain = [sum(graph.sizes[value] for value in made) for made in graph.makes]
    for step, read in enumerate(graph.reads):
        gain[step] -= sum(graph.sizes[value] for value in read if value not in live)
    ready = _Ready(_inverse(graph.needs), gain, reverse=True)
    for step in ready:
        for value in graph.reads[step]:
            if value in live:
                continue
            live.add(value)
            for reader in readers[value]:
                gain[reader] += graph.sizes[value]
                ready.update(reader)
    return ready.taken[::-1]


def depth_first(graph: WorkGraph) -> list[int]:
    """Each step after what it needs; first what takes much and leaves little.

    As registers are given to a tree of expressions (Sethi and Ullman, 1970).
    """
    needs = _by_demand(graph)
    needed = {n for row in graph.needs for n in row}
    order: list[int] = []
    seen: set[int] = set()
    for start in range(len(graph.steps)):
        if start in needed or start in seen:
            continue
        seen.add(start)
        stack = [(start, iter(needs[start]))]
        while stack:
            step, left = stack[-1]
            following = next((n for n in left if n not in seen), None)
            if following is None:
                order.append(step)
                stack.pop()
            else:
                seen.add(following)
                stack.append((following, iter(needs[following])))
    return order


def _by_demand(graph: WorkGraph) -> list[list[int]]:
    """For each step, what it needs, by bytes taken while it is made less bytes then kept."""
    kept = [sum(graph.sizes[value] for value in made) for made in graph.makes]
    peak: list[int] = []
    sorted_needs: list[list[int]] = []
    for step, needed in enumerate(graph.needs):
        best = sorted(needed, key=lambda n: kept[n] - peak[n])
        held, most = 0, 0
        for n in best:
            most = max(most, held + peak[n])
            held += kept[n]
        peak.append(max(most, held + kept[step] + graph.inner[step]))
        sorted_needs.append(best)
    return sorted_needs


def _readers(graph: WorkGraph) -> list[list[int]]:
    readers: list[list[int]] = [[] for _ in graph.sizes]
    for step, read in enumerate(graph.reads):
        for value in read:
            readers[value].append(step)
    return readers


def _inverse(needs: Sequence[Sequence[int]]) -> list[list[int]]:
    found: list[list[int]] = [[] for _ in needs]
    for step, needed in enumerate(needs):
        for n in needed:
            found[n].append(step)
    return found


class _Ready:
    """Steps whose needs are met, the one of highest gain first; iterating takes them.

    Gains may change while they wait: an entry of the heap whose gain is not the step's any more is
    stale and skipped. Ties are broken by program order.
    """

    def __init__(self, needs: Sequence[Sequence[int]], gain: list[int], *, reverse: bool) -> None:
        self.taken: list[int] = []
        self._gain = gain
        self._sign = -1 if reverse else 1
        self._missing = [len(needed) for needed in needs]
        self._needed_by = _inverse(needs)
        self._placed = [False] * len(needs)
        self._heap = [self._entry(n) for n, missing in enumerate(self._missing) if not missing]
        heapify(self._heap)

    def _entry(self, step: int) -> tuple[int, int]:
        return -self._gain[step], self._sign * step

    def update(self, step: int) -> None:
        """To be called when the gain of a step has changed."""
        if not self._missing[step] and not self._placed[step]:
            heappush(self._heap, self._entry(step))

    def __iter__(self) -> _Ready:
        return self

    def __next__(self) -> int:
        while self._heap:
            entry = heappop(self._heap)
            step = self._sign * entry[1]
            if self._placed[step] or entry != self._entry(step):
                continue
            self._placed[step] = True
            self.taken.append(step)
            for later in self._needed_by[step]:
                self._missing[later] -= 1
                if not self._missing[later]:
                    heappush(self._heap, self._entry(later))
            return step
        raise StopIteration
