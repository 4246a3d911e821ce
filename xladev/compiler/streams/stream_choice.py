"""Which stream each step of a run goes to, and whether several are worth it: a small simulation.

Steps are taken in order, each to the stream where it can begin first. Time is that of a simple
device: a step takes what its bytes and operations take, the host enqueues one step after the other
(a recorded program costs it nothing), and steps that fill the device do not gain from company.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xladev.compiler.cost import whole_cost
from xladev.compiler.description import DeviceDescription
from xladev.compiler.streams.stream_waits import MAIN
from xladev.hlo.ir import HloInstruction
from xladev.hlo.opdef import Cost

LEAST_STEP_S = 2e-6
"""What the shortest kernel takes on a GPU, from its start to the start of what waits for it."""
WAIT_S = 1e-6
"""What an event between two streams adds; not measured."""
LEAST_GAIN_S = 10e-6
"""Seconds that several streams must save in one run."""
LEAST_GAIN = 0.05
"""Part of the time that they must save."""

_BANDWIDTH = 1e12
_FLOPS = 1e13
"""Rates of devices that do not say theirs, per second."""
_RESIDENT_NBYTES = 32 << 10
"""Bytes that a core of a GPU has on their way at once: 2,048 threads with 16 each."""


STREAMS_STEP = "concurrency"
"""What decisions on streams are about."""


@dataclass(frozen=True, slots=True)
class StreamChoice:
    """Where the steps of a run go.

    Attributes:
        streams: of each step.
        why: how many and why, as a clause; empty if no two steps could run at once.
    """

    streams: tuple[int, ...]
    why: str


@dataclass(frozen=True, slots=True)
class StepCost:
    """What a step costs the device.

    Attributes:
        seconds: how long it takes alone.
        share: part of the device that it fills, up to 1.
    """

    seconds: float
    share: float


@dataclass(frozen=True, slots=True)
class StreamSpread:
    """How a backend wants independent steps spread over streams.

    Attributes:
        most: streams.
        is_forced: use them wherever steps are independent, whether or not it is worth it.
        device: rates, cores, what a launch costs.
    """

    most: int
    is_forced: bool
    device: DeviceDescription

    def cost_of(self, instruction: HloInstruction) -> StepCost:
        """What a kernel costs."""
        return self._cost(whole_cost(instruction), _element_type(instruction))

    def cost_of_copy(self, nbytes: int) -> StepCost:
        """What a copy costs."""
        return self._cost(Cost(bytes_accessed=2 * nbytes), "")

    def _cost(self, cost: Cost, element_type: str) -> StepCost:
        device = self.device
        bandwidth = device.memory_spaces[0].bandwidth or _BANDWIDTH
        rate = device.peak_flops.get(element_type, _FLOPS)
        moving = cost.bytes_accessed / bandwidth
        seconds = max(moving, (cost.flops + cost.transcendentals) / rate, LEAST_STEP_S)
        if not device.streams_share_cores:
            return StepCost(seconds, moving / seconds)
        share = min(1.0, cost.bytes_accessed / (device.cores * _RESIDENT_NBYTES))
        return StepCost(seconds, share)

    def choice(
        self, needs: Sequence[Sequence[int]], costs: Sequence[StepCost], *, is_recorded: bool
    ) -> StreamChoice:
        """The stream of each step; all on the main one where several are not worth it.

        Args:
            needs: for each step, earlier steps that it must follow.
            costs: of each step.
            is_recorded: the device replays what was recorded, so that launches cost nothing.
        """
        overhead = 0.0 if is_recorded else self.device.launch_overhead_s
        alone = _simulated(needs, costs, 1, overhead)
        together = _simulated(needs, costs, self.most, overhead)
        count = len(set(together.streams))
        if self.is_forced:
            why = f"streams: {count}, because the option `streams` says so" if count > 1 else ""
            return StreamChoice(together.streams, why)
        busy = sum(c.seconds * c.share for c in costs)
        gain = alone.seconds - max(together.seconds, busy)
        least = max(LEAST_GAIN_S, LEAST_GAIN * alone.seconds)
        told = f"{_us(max(gain, 0.0))} of {_us(alone.seconds)}"
        if gain >= least:
            why = f"streams: {count}, because they are estimated to save {told}"
            return StreamChoice(together.streams, why)
        why = f"streams: 1, because {self.most} are estimated to save {told}"
        why += f", and {_us(least)} are wanted"
        if busy > together.seconds:
            why += f": the steps fill the device for {_us(busy)}"
        return StreamChoice(alone.streams, why if self._could_gain(needs) else "")

    def _could_gain(self, needs: Sequence[Sequence[int]]) -> bool:
        """True if some steps are independent: on free streams, more than one is used."""
        free = _simulated(needs, [StepCost(1.0, 0.0)] * len(needs), self.most, 0.0)
        return any(free.streams)


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:,.1f} us"


@dataclass(frozen=True, slots=True)
class _Simulated:
    streams: tuple[int, ...]
    seconds: float


def _simulated(
    needs: Sequence[Sequence[int]], costs: Sequence[StepCost], most: int, overhead: float
) -> _Simulated:
    """Steps in order, each on the stream where it begins first, and when all is done."""
    free = [0.0] * most
    ends: list[float] = []
    streams: list[int] = []
    issued = 0.0
    for needed, cost in zip(needs, costs, strict=True):
        begins = _begins(needed, streams, ends, free)
        stream = min(range(most), key=begins)
        issued += overhead
        end = max(begins(stream), issued) + cost.seconds
        free[stream] = end
        ends.append(end)
        streams.append(stream)
    late = [end + (0.0 if s == MAIN else WAIT_S) for s, end in enumerate(free) if end]
    return _Simulated(tuple(streams), max(late, default=0.0))


def _begins(
    needed: Sequence[int], streams: Sequence[int], ends: Sequence[float], free: Sequence[float]
) -> Callable[[int], float]:
    """When a step could begin on each stream."""
    last: dict[int, float] = {}
    for n in needed:
        last[streams[n]] = max(last.get(streams[n], 0.0), ends[n])

    def begin(stream: int) -> float:
        begun = WAIT_S if stream != MAIN else 0.0
        awaited = [end + WAIT_S for other, end in last.items() if other != stream]
        return max(begun, free[stream], *awaited)

    return begin


def _element_type(instruction: HloInstruction) -> str:
    """The type that a kernel reads first, or gives."""
    shapes = (*(o.shape for o in instruction.operands), instruction.shape)
    leaves = (leaf for shape in shapes for _, leaf in shape.leaves() if leaf.is_array)
    return next((leaf.element_type.name for leaf in leaves), "")
