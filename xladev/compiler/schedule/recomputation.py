"""Which steps of a work graph to run again, and where, so that fewer bytes live at once.

At the step where most bytes live, values that wait for a later reader are dropped, the most useful
ones first, and their steps run again before that reader; until the peak is low enough or stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from xladev.compiler.schedule.work_graph import WorkGraph, live_bytes

MAX_ROUNDS = 256
"""Most times that the peak is looked for; each is linear in the steps."""

PATIENCE = 8
"""Rounds without gain after which no more are made."""


@dataclass(slots=True)
class _Slot:
    """One run of a step: the values of a second run are new ones."""

    step: int
    makes: tuple[int, ...]
    reads: tuple[int, ...]
    reusable: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class _Drop:
    """A value to drop, and the slot before which it is made again."""

    value: int
    maker: int
    before: int
    gain: int


def recompute(graph: WorkGraph, repeatable: AbstractSet[int], allowed_nbytes: int) -> list[int]:
    """An order in which steps may occur more than once.

    Args:
        graph: the steps in the order in which they run.
        repeatable: steps of one result that may run again, each read by steps alone.
        allowed_nbytes: bytes of the arena that should be enough.

    Returns:
        Step numbers; from its second occurrence on, a step makes its result anew, for whoever
        comes after. The best order found, whether or not it keeps to what is allowed.
    """
    run = _Run(graph, repeatable)
    best = list(range(len(graph.steps)))
    best_cost: tuple[int, int] | None = None
    stale = 0
    for _ in range(MAX_ROUNDS):
        live = run.live_bytes()
        peak = max(live, default=0)
        cost = (peak, sum(n - allowed_nbytes for n in live if n > allowed_nbytes))
        stale += 1
        if best_cost is None or cost < best_cost:
            best, best_cost, stale = run.order(), cost, 0
        if not live or peak <= allowed_nbytes or stale > PATIENCE:
            break
        if not run.relieve(live.index(peak), peak - allowed_nbytes):
            break
    return best


class _Run:
    """The steps as they run, some of them again."""

    def __init__(self, graph: WorkGraph, repeatable: AbstractSet[int]) -> None:
        self._graph = graph
        self._repeatable = repeatable
        self._sizes = list(graph.sizes)
        rows = zip(graph.makes, graph.reads, graph.reusable, strict=True)
        self._slots = [_Slot(n, *row) for n, row in enumerate(rows)]

    def order(self) -> list[int]:
        """Step numbers as they run."""
        return [slot.step for slot in self._slots]

    def live_bytes(self) -> list[int]:
        """Bytes that live at each slot."""
        slots = self._slots
        now = replace(
            self._graph,
            makes=tuple(s.makes for s in slots),
            reads=tuple(s.reads for s in slots),
            reusable=tuple(s.reusable for s in slots),
            inner=tuple(self._graph.inner[s.step] for s in slots),
            sizes=tuple(self._sizes),
        )
        return live_bytes(now, range(len(slots)))

    def relieve(self, at: int, excess_nbytes: int) -> bool:
        """Drops values that wait across slot ``at``; False if there is none worth it."""
        chosen: list[_Drop] = []
        taken: set[int] = set()
        for drop in sorted(self._drops(at), key=lambda d: -d.gain):
            touched = {drop.value, *self._slots[drop.maker].reads}
            if excess_nbytes <= 0:
                break
            if drop.value in taken or any(d.value in touched for d in chosen):
                continue
            chosen.append(drop)
            taken |= touched
            excess_nbytes -= drop.gain
        for drop in sorted(chosen, key=lambda d: -d.before):
            self._repeat(drop)
        return bool(chosen)

    def _drops(self, at: int) -> list[_Drop]:
        last: dict[int, int] = {}
        following: dict[int, int] = {}
        for n, slot in enumerate(self._slots):
            for value in slot.reads:
                last[value] = n
                if n > at:
                    following.setdefault(value, n)
        read = self._slots[at].reads
        found: list[_Drop] = []
        for n, slot in enumerate(self._slots[:at]):
            if slot.step not in self._repeatable or slot.makes[0] in read:
                continue
            (value,) = slot.makes
            if value not in following or value in self._graph.results:
                continue
            kept_anew = sum(
                self._sizes[o] for o in slot.reads if last[o] < at and o not in self._graph.results
            )
            gain = self._sizes[value] - kept_anew
            if gain > 0:
                found.append(_Drop(value, n, following[value], gain))
        return found

    def _repeat(self, drop: _Drop) -> None:
        maker = self._slots[drop.maker]
        value = len(self._sizes)
        self._sizes.append(self._sizes[drop.value])
        for slot in self._slots[drop.before :]:
            if drop.value in slot.reads:
                slot.reads = _with(slot.reads, drop.value, value)
                slot.reusable = tuple(
                    (made, value if read == drop.value else read) for made, read in slot.reusable
                )
        self._slots.insert(drop.before, _Slot(maker.step, (value,), maker.reads, ()))


def _with(values: Sequence[int], old: int, new: int) -> tuple[int, ...]:
    return tuple(new if value == old else value for value in values)
