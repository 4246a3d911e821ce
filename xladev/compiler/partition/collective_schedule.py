"""Collectives beside kernels: each begins when its operands are there, and ends before its result
is needed, with what does not need it in between.

A list schedule on two clocks, one for kernels and one for collectives, which run one after the
other. Of the collectives that may begin, the one whose operands are there first comes next. While
the kernels would wait for a result, they are given other work. The idea of such schedules is that
of XLA's latency-hiding scheduler (`xla/service/latency_hiding_scheduler.h`), which orders
instructions; here work is cut into pieces that become regions, so pieces that hide little are not
made.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Protocol

from xladev.compiler.partition.assignment import SDK
from xladev.hlo.ir import HloInstruction

Needs = Mapping[HloInstruction, AbstractSet[HloInstruction]]
"""Instructions that run, operands first, with those that must run before each."""

MOST_COLLECTIVES = 256
"""Collectives of one computation that begin apart from their ends; the largest."""

_OPCODES = frozenset(
    {"all-gather", "all-reduce", "all-to-all", "collective-permute", "reduce-scatter"}
)
_CHEAP = frozenset({"broadcast", "iota", "reshape", "bitcast", "slice", "transpose", "copy"})
"""What is better made where it is used, besides elementwise instructions."""


class Costs(Protocol):
    """Estimates of seconds."""

    @property
    def least_s(self) -> float:
        """What it must save to begin a collective apart from its end."""
        ...

    def work_s(self, instruction: HloInstruction) -> float:
        """Of what is no collective."""
        ...

    def exchange_s(self, instruction: HloInstruction) -> float:
        """Of a collective."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class StartStep:
    """Begins a collective; its operands stay as they are until it ends."""

    instruction: HloInstruction


@dataclass(frozen=True, slots=True, eq=False)
class DoneStep:
    """Ends a collective: its results are there for what comes after."""

    instruction: HloInstruction


Piece = tuple[HloInstruction, ...] | StartStep | DoneStep
"""Instructions between two borders, or a border."""


def pieces(needs: Needs, devices: Mapping[HloInstruction, str], costs: Costs) -> list[Piece]:
    """The instructions in pieces, each of which needs only earlier ones.

    Args:
        needs: what to schedule.
        devices: where each runs.
        costs: estimates.

    Returns:
        All instructions, once each; one piece where no collective is worth being begun early.
    """
    chosen = _worth_it(needs, devices, costs)
    if not chosen:
        return [tuple(needs)]
    return _with_late_views(_ListSchedule(needs, chosen, costs).run(), needs)


# Which collectives


def is_candidate(instruction: HloInstruction, devices: Mapping[HloInstruction, str]) -> bool:
    """True for a collective that the SDK runs, whose operands alone say what it does."""
    if instruction.opcode not in _OPCODES or devices[instruction] != SDK:
        return False
    return "slice_sizes" not in instruction.attrs or not instruction["slice_sizes"]


def _worth_it(
    needs: Needs, devices: Mapping[HloInstruction, str], costs: Costs
) -> list[HloInstruction]:
    """Collectives that can be hidden under what neither needs them nor is needed by them."""
    found = [i for i in needs if is_candidate(i, devices)]
    if len(found) > MOST_COLLECTIVES:
        largest = sorted(found, key=costs.exchange_s, reverse=True)[:MOST_COLLECTIVES]
        kept = set(largest)
        found = [i for i in found if i in kept]
    before = _masks(needs, found)
    after = _masks(_users(needs), found)
    work: defaultdict[tuple[int, int], float] = defaultdict(float)
    for i in needs:
        if not is_candidate(i, devices):
            work[before[i], after[i]] += costs.work_s(i)
    chosen = []
    for number, collective in enumerate(found):
        bit = 1 << number
        beside = sum(s for (b, a), s in work.items() if not (b | a) & bit)
        if min(beside, costs.exchange_s(collective)) >= costs.least_s:
            chosen.append(collective)
    return chosen


def _users(needs: Needs) -> Needs:
    """The same graph the other way round, users first."""
    found: dict[HloInstruction, set[HloInstruction]] = {i: set() for i in reversed([*needs])}
    for i, needed in needs.items():
        for n in needed:
            found[n].add(i)
    return found


def _masks(needs: Needs, collectives: Sequence[HloInstruction]) -> dict[HloInstruction, int]:
    """For each instruction a bit for each of the collectives that it needs."""
    own = {c: 1 << number for number, c in enumerate(collectives)}
    masks: dict[HloInstruction, int] = {}
    for i, needed in needs.items():
        mask = 0
        for n in needed:
            mask |= masks[n] | own.get(n, 0)
        masks[i] = mask
    return masks


# Their order


class _ListSchedule:
    """One run of the schedule.

    Args:
        needs: what to schedule.
        chosen: the collectives that begin apart from their ends.
        costs: estimates.
    """

    def __init__(self, needs: Needs, chosen: Sequence[HloInstruction], costs: Costs) -> None:
        self._needs, self._costs = needs, costs
        self._masks = _masks(needs, chosen)
        self._bits = {c: 1 << number for number, c in enumerate(chosen)}
        self._unstarted = dict.fromkeys(chosen)
        self._left = {i: costs.work_s(i) for i in needs if i not in self._bits}
        self._wanted: dict[HloInstruction, dict[HloInstruction, float]] = {}
        self._totals: dict[HloInstruction, float] = {}
        self._ends: dict[HloInstruction, float] = {}
        self._awaited = 0
        self._now = self._link_free = 0.0
        self._pieces: list[Piece] = []

    def run(self) -> list[Piece]:
        """The pieces."""
        while self._unstarted:
            self._start(min(self._startable(), key=self._ready_s))
        while self._left:
            self._work([i for i in self._left if self._is_ready(i)])
            self._await_enough()
        self._await(self._ends)
        return self._pieces

    def _startable(self) -> list[HloInstruction]:
        """Those that need none that was not begun."""
        missing = sum(self._bits[c] for c in self._unstarted)
        return [c for c in self._unstarted if not self._masks[c] & missing]

    def _ready_s(self, collective: HloInstruction) -> float:
        """When its operands could be there."""
        self._work_for(collective)
        work = self._totals[collective]
        awaited = (self._ends[c] for c in self._unmet(collective))
        return max(self._now + work, *awaited, 0.0)

    def _work_for(self, collective: HloInstruction) -> dict[HloInstruction, float]:
        """What has still to run before it, with seconds."""
        found = self._wanted.get(collective)
        if found is None:
            found = self._wanted[collective] = {}
            pending = [*self._needs[collective]]
            while pending:
                i = pending.pop()
                if i in self._left and i not in found:
                    found[i] = self._left[i]
                    pending.extend(self._needs[i])
            self._totals[collective] = sum(found.values())
        return found

    def _unmet(self, instruction: HloInstruction) -> list[HloInstruction]:
        """The collectives that it needs and nobody waited for, as they end."""
        mask = self._masks[instruction] & ~self._awaited
        return [c for c in self._ends if self._bits[c] & mask] if mask else []

    def _is_ready(self, instruction: HloInstruction) -> bool:
        return not self._masks[instruction] & ~self._awaited

    def _start(self, collective: HloInstruction) -> None:
        work = dict(self._work_for(collective))
        unmet = self._unmet(collective)
        if unmet:
            first = {i for i in work if self._is_ready(i)}
            spent = self._now + sum(work[i] for i in first)
            first |= self._filling(max(self._ends[c] for c in unmet) - spent, work)
            self._work([i for i in self._left if i in first])
            self._await(unmet)
        self._work([i for i in self._left if i in work])
        self._pieces.append(StartStep(collective))
        del self._unstarted[collective], self._wanted[collective]
        begin = max(self._now, self._link_free)
        self._link_free = self._ends[collective] = begin + self._costs.exchange_s(collective)

    def _filling(self, idle_s: float, apart: Mapping[HloInstruction, float]) -> set[HloInstruction]:
        """Other work for that time, in program order, so that what it needs is in it too."""
        found: set[HloInstruction] = set()
        if idle_s < self._costs.least_s:
            return found
        for i, seconds in self._left.items():
            if idle_s <= 0:
                break
            if i not in apart and self._is_ready(i):
                found.add(i)
                idle_s -= seconds
        return found

    def _work(self, instructions: Sequence[HloInstruction]) -> None:
        """One piece."""
        if not instructions:
            return
        self._pieces.append(tuple(instructions))
        for i in instructions:
            self._now += self._left.pop(i)
            for collective, wanted in self._wanted.items():
                self._totals[collective] -= wanted.pop(i, 0.0)

    def _await_enough(self) -> None:
        """Waits for one collective, and for more as long as there would be little to do."""
        done = 0.0
        for collective in [c for c in self._ends if not self._bits[c] & self._awaited]:
            if done >= self._costs.least_s and self._ends[collective] > self._now:
                return
            self._await((collective,))
            done = sum(s for i, s in self._left.items() if self._is_ready(i))

    def _await(self, collectives: Iterable[HloInstruction]) -> None:
        for collective in collectives:
            if not self._bits[collective] & self._awaited:
                self._pieces.append(DoneStep(collective))
                self._awaited |= self._bits[collective]
                self._now = max(self._now, self._ends[collective])


# Afterwards


def _with_late_views(made: Sequence[Piece], needs: Needs) -> list[Piece]:
    """Cheap instructions where they are first used, if nothing of their piece makes their operands.

    Else their values would be written to memory in one region and read in another.
    """
    place: dict[HloInstruction, int] = {}
    for number, piece in enumerate(made):
        for i in piece if isinstance(piece, tuple) else ():
            place[i] = number
        if isinstance(piece, StartStep):
            place[piece.instruction] = number
    movable: set[HloInstruction] = set()
    for i, needed in needs.items():
        is_cheap = isinstance(made[place[i]], tuple) and (i.op.elementwise or i.opcode in _CHEAP)
        if is_cheap and all(n in movable or place[n] < place[i] for n in needed):
            movable.add(i)
    users = _users(needs)
    for i, by in users.items():
        if i in movable and by:
            place[i] = max(place[i], _last_work(made, min(place[u] for u in by)))
    rows: list[list[HloInstruction]] = [[] for _ in made]
    for i in needs:
        rows[place[i]].append(i)
    return [
        tuple(row) if isinstance(piece, tuple) else piece
        for row, piece in zip(rows, made, strict=True)
        if row or isinstance(piece, DoneStep)
    ]


def _last_work(made: Sequence[Piece], number: int) -> int:
    """The last piece of instructions up to that one."""
    return next(n for n in range(number, -1, -1) if isinstance(made[n], tuple))
