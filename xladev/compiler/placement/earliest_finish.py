"""Gives each instruction, in order, to the device on which it would be done first.

A device is busy until it has done what it was given before, so what does not depend on each other
comes to run beside one another: list scheduling for unlike processors (HEFT; Topcuoglu, Hariri and
Wu, "Performance-effective and low-complexity task scheduling for heterogeneous computing", IEEE
Transactions on Parallel and Distributed Systems 13, 2002), in the order of the program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from xladev.compiler.partition.region_values import operand_sources
from xladev.compiler.placement.estimate import Estimate
from xladev.hlo.ir import HloInstruction

HOME = 0
"""The device that parameters are on."""


def earliest_finish(
    groups: Iterable[Sequence[HloInstruction]],
    labels: Callable[[HloInstruction], frozenset[int]],
    estimate: Estimate,
) -> dict[HloInstruction, int]:
    """Devices of instructions, by their numbers.

    Args:
        groups: instructions that go together; operands come in earlier groups or places.
        labels: where one may go; never nothing.
        estimate: times on the devices.
    """
    plan = _Plan(estimate)
    for group in groups:
        allowed = frozenset.intersection(*map(labels, group))
        for i in group:
            plan.place(i, allowed or labels(i))
            allowed = allowed & {plan.devices[i]} or allowed
    return plan.devices


class _Plan:
    """What is placed so far.

    Attributes:
        devices: of instructions.
    """

    def __init__(self, estimate: Estimate) -> None:
        self._estimate = estimate
        self._free: dict[int, int] = {}
        self._done: dict[HloInstruction, int] = {}
        self._there: dict[tuple[HloInstruction, int], int] = {}
        self.devices: dict[HloInstruction, int] = {}

    def place(self, i: HloInstruction, allowed: frozenset[int]) -> None:
        """Puts an instruction where it is done first."""
        ends = {label: self._end(i, label) for label in sorted(allowed)}
        label = min(ends, key=ends.__getitem__)
        for value in operand_sources(i.operands):
            arrival = self._arrival(value.producer, value.shape.nbytes, label)
            self._there[value.producer, label] = arrival
        self.devices[i], self._done[i] = label, ends[label]
        self._free[label] = ends[label]

    def _end(self, i: HloInstruction, label: int) -> int:
        arrivals = (
            self._arrival(value.producer, value.shape.nbytes, label)
            for value in operand_sources(i.operands)
        )
        begin = max((self._free.get(label, 0), *arrivals))
        return begin + self._estimate.work(i, label)

    def _arrival(self, producer: HloInstruction, nbytes: int, label: int) -> int:
        """When a value is on a device; constants are made where they are read."""
        if producer.opcode == "constant":
            return 0
        if (producer, label) in self._there:
            return self._there[producer, label]
        held = self.devices.get(producer, HOME)
        return self._done.get(producer, 0) + self._estimate.transfer(nbytes, held, label)


def fits(devices: Mapping[HloInstruction, int], rooms: Sequence[int | None]) -> bool:
    """Whether the values on each device fit into its memory, all of them at once."""
    used = [0] * len(rooms)
    for i, label in devices.items():
        used[label] += i.shape.nbytes
    return all(room is None or nbytes <= room for nbytes, room in zip(used, rooms, strict=True))
