"""Chooses devices by estimated time, within what constraints, support and memory allow.

Each computation that the SDK runs is a problem of its own: its parameters and its result are where
its callers have them, and control flow that the SDK runs is where its computations are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from xladev.compiler.partition.assignment import (
    EVALUATOR,
    SDK,
    Assignment,
    CompileTarget,
)
from xladev.compiler.partition.region_values import RegionValue, operand_sources, sources
from xladev.compiler.placement.colocation import colocated
from xladev.compiler.placement.earliest_finish import earliest_finish, fits
from xladev.compiler.placement.estimate import PICOSECONDS, Estimate
from xladev.compiler.placement.swaps import LabelProblem, Value, cheapest_labels
from xladev.compiler.program.program import Fallback
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.passes.effects import computations_with_effects, has_effect

HOME = 0
"""The label of the target, where arguments and results are."""
_STATEFUL = frozenset({"rng"})
"""Opcodes whose values depend on which device runs them."""


@dataclass(frozen=True, slots=True)
class _Unit:
    """Instructions that go together.

    Attributes:
        instructions: operands first; none for the interface of a computation.
        labels: the devices that it may go to.
        start: where it is at first.
    """

    instructions: tuple[HloInstruction, ...]
    labels: frozenset[int]
    start: int


class DeviceChoice:
    """Improves one assignment.

    Args:
        module: prepared.
        assignment: where constraints and support have put its instructions.
        devices: those to choose from, the target first.
        estimate: times on these devices.
    """

    def __init__(
        self,
        module: HloModule,
        assignment: Assignment,
        devices: Sequence[CompileTarget],
        estimate: Estimate,
    ) -> None:
        self._module = module
        self._assignment = assignment
        self._devices = devices
        self._numbers = {device.name: n for n, device in enumerate(devices)}
        self._estimate = estimate
        self._effects = computations_with_effects(module)
        self._homes: dict[HloComputation, int] = {}

    def run(self) -> Assignment:
        """The assignment with the devices that take the least time, one after the other."""
        chosen, reasons = dict(self._assignment.devices), dict(self._assignment.reasons)
        for computations in self._together():
            for i, device, why in self._choose(computations):
                chosen[i] = device
                if why:
                    reasons[i] = why
        return self._with_devices(chosen, reasons)

    def alternatives(self, chosen_before: Assignment) -> Iterator[tuple[str, Assignment]]:
        """Other assignments whose values fit into memory, and what each of them is.

        Args:
            chosen_before: what `run` gave, for all that cannot be elsewhere.
        """
        placed = [i for i, device in chosen_before.devices.items() if device != SDK]
        groups = list(colocated(placed))
        labels = {group[0]: frozenset.intersection(*map(self._labels, group)) for group in groups}
        for label, device in enumerate(self._devices):
            there = {i: label for group in groups if label in labels[group[0]] for i in group}
            what = f"all that is possible on {device.name}"
            yield from self._fitting(what, there, chosen_before)
        if len(self._devices) > 1:
            soonest = earliest_finish(groups, self._labels, self._estimate)
            yield from self._fitting("each where it is done first", soonest, chosen_before)

    def _fitting(
        self, what: str, there: Mapping[HloInstruction, int], before: Assignment
    ) -> Iterator[tuple[str, Assignment]]:
        """The assignment with some devices, if it is another one and values fit into memory."""
        names = {i: self._devices[label].name for i, label in there.items()}
        changed = {i: name for i, name in names.items() if before.devices[i] != name}
        chosen = dict(before.devices) | changed
        numbers = {i: n for i, name in chosen.items() if (n := self._numbers.get(name)) is not None}
        rooms = [self._estimate.room(n) for n in range(len(self._devices))]
        if changed and fits(numbers, rooms):
            why = f"a run takes least with {what}"
            reasons = dict(before.reasons) | dict.fromkeys(changed, why)
            yield what, self._with_devices(chosen, reasons)

    def _with_devices(
        self, chosen: Mapping[HloInstruction, str], reasons: Mapping[HloInstruction, str]
    ) -> Assignment:
        fallbacks = tuple(_moved(self._assignment, chosen))
        return replace(self._assignment, devices=chosen, fallbacks=fallbacks, reasons=reasons)

    def _together(self) -> list[list[HloComputation]]:
        """The computations that the SDK runs, those of one loop or branch together, callees first.

        They take their parameters and give their results in one place.
        """
        devices, groups = self._assignment.devices, dict[HloComputation, list[HloComputation]]()
        order = {c: n for n, c in enumerate(self._module.computations)}
        for computation in self._module.computations:
            groups.setdefault(computation, [computation])
            for i in computation.instructions:
                for callee in i.called if devices.get(i) == SDK else ():
                    _join(groups, i.called[0], callee)
        found = {id(group): group for group in groups.values()}.values()
        return sorted(found, key=lambda group: max(order[c] for c in group))

    def _choose(
        self, computations: Sequence[HloComputation]
    ) -> Iterator[tuple[HloInstruction, str, str]]:
        devices = self._assignment.devices
        placed = [i for c in computations for i in c.instructions if i in devices]
        if not placed:
            return
        units = [_Unit((), frozenset({HOME}), HOME), *self._units(placed)]
        values = [value for c in computations for value in _values(c, units)]
        problem = self._problem(units, values, {})
        labels = self._best(units, values, problem, is_entry=self._module.entry in computations)
        used = set(labels[1:])
        self._homes |= dict.fromkeys(computations, used.pop() if len(used) == 1 else HOME)
        tell = _Reasons(problem, labels, [device.name for device in self._devices])
        for number, unit in enumerate(units):
            device = self._devices[labels[number]].name
            why = tell.of(number, sorted(unit.labels)) if len(unit.labels) > 1 else ""
            for i in unit.instructions:
                if devices[i] != SDK and (why or device != devices[i]):
                    yield i, device, why

    def _best(
        self,
        units: Sequence[_Unit],
        values: Sequence[Value],
        problem: LabelProblem,
        *,
        is_entry: bool,
    ) -> list[int]:
        """The best labels; those of callees may be one device that has their interface too."""
        found = self._within_memory(units, values, problem)
        if is_entry:
            return found
        time = problem.time(found)
        for label in range(len(self._devices)):
            if all(label in unit.labels for unit in units[1:]):
                whole = sum(problem.work[n][label] or 0 for n in range(1, len(units)))
                if whole < time:
                    found, time = [label] * len(units), whole
        return found

    # Units

    def _units(self, placed: Sequence[HloInstruction]) -> Iterator[_Unit]:
        for group in colocated(placed):
            labels = frozenset.intersection(*map(self._labels, group))
            starts = [self._label(i) for i in group]
            start = next((n for n in starts if n in labels), min(labels, default=HOME))
            if labels:
                yield _Unit(tuple(group), labels, start)
            else:  # no device takes all of them
                for i, own in zip(group, starts, strict=True):
                    yield _Unit((i,), frozenset({own}), own)

    def _label(self, i: HloInstruction) -> int:
        """Where an instruction is; what the SDK runs is where its computations are."""
        device = self._assignment.devices[i]
        if device == SDK:
            homes = {self._homes.get(c, HOME) for c in i.called}
            return next(iter(homes)) if len(homes) == 1 else HOME
        return self._numbers[device]

    def _labels(self, i: HloInstruction) -> frozenset[int]:
        """Where an instruction may be."""
        device = self._assignment.devices[i]
        if device in (SDK, EVALUATOR) or self._is_fixed(i):
            return frozenset({self._label(i)})
        others = (
            n
            for n, each in enumerate(self._devices)
            if each.name not in (device, EVALUATOR) and each.supports(i)
        )
        return frozenset((self._label(i), *others))

    def _is_fixed(self, i: HloInstruction) -> bool:
        named = i.note.device is not None and i.note.device == self._assignment.devices[i]
        return named or i.opcode in _STATEFUL or has_effect(i, self._effects)

    # Problems

    def _problem(
        self, units: Sequence[_Unit], values: Sequence[Value], price: Mapping[int, int]
    ) -> LabelProblem:
        """Args: price: for each device, what a byte of a value there costs, in picoseconds."""
        labels = range(len(self._devices))
        work = [[self._work(unit, n, price.get(n, 0)) for n in labels] for unit in units]
        return LabelProblem(work, values, self._estimate.transfer)

    def _work(self, unit: _Unit, label: int, price: int) -> int | None:
        if label not in unit.labels:
            return None
        if len(unit.labels) == 1:
            return 0  # whatever it takes, it takes in any case
        nbytes = sum(i.shape.nbytes for i in unit.instructions) if price else 0
        return sum(self._estimate.work(i, label) for i in unit.instructions) + price * nbytes

    def _within_memory(
        self, units: Sequence[_Unit], values: Sequence[Value], problem: LabelProblem
    ) -> list[int]:
        """The best labels found that no memory is too small for.

        A byte of a memory that is full costs more and more; in the end what gains most comes back.
        All values of a computation are taken to be there at once, which is more than there are.
        """
        start = [unit.start for unit in units]
        labels = cheapest_labels(problem, start)
        rooms = [self._estimate.room(n) for n in range(len(self._devices))]
        price: dict[int, int] = {}
        for _ in range(_MOST_PRICES):
            full = _full(units, labels, rooms)
            if not full:
                break
            for n in full:
                price[n] = 4 * price.get(n, 1)
            labels = cheapest_labels(self._problem(units, values, price), start)
        return _refilled(problem, units, labels, rooms) if price else labels


_MOST_PRICES = 24
"""Prices of a byte of memory that are tried: from 4 picoseconds to minutes, in steps of four."""


def _used(units: Sequence[_Unit], labels: Sequence[int], count: int) -> list[int]:
    """Bytes of the values on each device."""
    used = [0] * count
    for unit, label in zip(units, labels, strict=True):
        used[label] += _nbytes(unit)
    return used


def _nbytes(unit: _Unit) -> int:
    return sum(i.shape.nbytes for i in unit.instructions)


def _full(units: Sequence[_Unit], labels: Sequence[int], rooms: Sequence[int | None]) -> list[int]:
    """Devices that hold less than they are given and could be given less."""
    movable = {label for unit, label in zip(units, labels, strict=True) if len(unit.labels) > 1}
    used = _used(units, labels, len(rooms))
    return [n for n in movable if (room := rooms[n]) is not None and used[n] > room]


def _refilled(
    problem: LabelProblem,
    units: Sequence[_Unit],
    labels: list[int],
    rooms: Sequence[int | None],
) -> list[int]:
    """The labels, where single units have gone where they take less time and there is room."""
    local, used = LocalTimes(problem, labels), _used(units, labels, len(rooms))
    for number, unit in enumerate(units):
        nbytes, own = _nbytes(unit), labels[number]
        fitting = (n for n in unit.labels if (r := rooms[n]) is None or used[n] + nbytes <= r)
        best = min((own, *fitting), key=lambda label: local.of(number, label))
        if best != own:
            used[own], used[best], labels[number] = used[own] - nbytes, used[best] + nbytes, best
    return labels


def _join(
    groups: dict[HloComputation, list[HloComputation]], one: HloComputation, other: HloComputation
) -> None:
    """Puts the groups of two computations together."""
    mine, theirs = groups.setdefault(one, [one]), groups.setdefault(other, [other])
    if mine is theirs:
        return
    mine.extend(theirs)
    groups.update(dict.fromkeys(theirs, mine))


def _values(computation: HloComputation, units: Sequence[_Unit]) -> list[Value]:
    """What units read of each other; unit 0 has the parameters and reads the result."""
    home = {i: n for n, unit in enumerate(units) for i in unit.instructions}
    readers: dict[RegionValue, dict[int, None]] = {}

    def read(found: Iterable[RegionValue], unit: int) -> None:
        for value in found:
            readers.setdefault(value, {})[unit] = None

    for number, unit in enumerate(units):
        for i in unit.instructions:
            read(operand_sources(i.operands), number)
    read(sources(computation.root), 0)
    values: list[Value] = []
    for value, found in readers.items():
        opcode = value.producer.opcode
        producer = 0 if opcode == "parameter" else home.get(value.producer, -1)
        consumers = tuple(n for n in found if n != producer)
        if producer >= 0 and consumers and value.shape.is_array:
            values.append(Value(producer, consumers, value.shape.nbytes))
    return values


class LocalTimes:
    """Times of single units and of the transfers around them, with all others as they are.

    Args:
        problem: what is labelled.
        labels: of all units; seen as they are when a time is asked for.
    """

    def __init__(self, problem: LabelProblem, labels: Sequence[int]) -> None:
        self._problem, self._labels = problem, labels
        self._around: list[list[Value]] = [[] for _ in labels]
        for value in problem.values:
            for unit in (value.producer, *value.consumers):
                self._around[unit].append(value)

    def of(self, unit: int, label: int) -> int:
        """The time if the unit has this label."""
        total = self._problem.work[unit][label] or 0
        for value in self._around[unit]:
            at = {u: self._labels[u] for u in (value.producer, *value.consumers)}
            at[unit] = label
            home = at[value.producer]
            for other in {at[c] for c in value.consumers} - {home}:
                total += self._problem.transfer(value.nbytes, home, other)
        return total


class _Reasons:
    """Says what it would take to have single units elsewhere."""

    def __init__(self, problem: LabelProblem, labels: Sequence[int], names: Sequence[str]) -> None:
        self._labels, self._names = labels, names
        self._times = LocalTimes(problem, labels)

    def of(self, unit: int, choices: Sequence[int]) -> str:
        """Times on the device chosen and on the others, transfers included."""
        own = self._labels[unit]
        others = (
            f"{_shown(self._times.of(unit, n))} on {self._names[n]}" for n in choices if n != own
        )
        return f"estimated {_shown(self._times.of(unit, own))} here, {', '.join(others)}"


def _shown(picoseconds: int) -> str:
    return f"{picoseconds / PICOSECONDS * 1e6:.3g} us"


def _moved(assignment: Assignment, chosen: Mapping[HloInstruction, str]) -> Iterator[Fallback]:
    """What the target refuses, with where it runs now."""
    devices = {i.name: device for i, device in chosen.items()}
    for fallback in assignment.fallbacks:
        yield replace(fallback, platform=devices.get(fallback.instruction, fallback.platform))
