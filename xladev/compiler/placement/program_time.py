"""The estimated time of one run: its thunks in order, with clocks for the host and each device.

It follows what a launch does. The host enqueues regions and copies, and goes on; where it reads a
value itself, it waits for that. Each device has a clock for its kernels and one for its copies, and
each value a time from which on it is there. A device whose memory is the host's has the host wait
for each region.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xladev.compiler.cost import loop_iterations
from xladev.compiler.description import Link
from xladev.compiler.options import CompileOptions
from xladev.compiler.partition.assignment import Assignment, CompileTarget
from xladev.compiler.placement.estimate import PICOSECONDS, Estimate
from xladev.compiler.placement.region_kernels import KernelWork, PlannedRegions
from xladev.compiler.program.program import Procedure, Program, Slot
from xladev.compiler.program.program_builder import ProgramBuilder
from xladev.compiler.program.thunks import (
    Call,
    Collective,
    Conditional,
    Constant,
    Evaluate,
    RunExecutable,
    Slots,
    Thunk,
    Transfer,
    While,
    writes,
)
from xladev.hlo.ir import HloModule
from xladev.instrument import without_decisions
from xladev.passes.pipeline import Instrumentation, instrumented

_Times = dict[int, float]
"""When the value of each slot is there, in seconds from the start of the run."""


class ProgramTime:
    """Runs a program on clocks alone.

    Args:
        program: of regions that need not be compiled.
        kernels: of each of its executables.
        numbers: of its platforms among the devices of the estimate; None: not among them.
        estimate: times on devices.
        iterations: how often loops run, by the number of the procedure of their condition; once
            where that is not known.
    """

    def __init__(
        self,
        program: Program,
        kernels: Sequence[Sequence[KernelWork]],
        numbers: Sequence[int | None],
        estimate: Estimate,
        iterations: Mapping[int, int],
    ) -> None:
        self._program, self._kernels, self._estimate = program, kernels, estimate
        self._numbers, self._iterations = numbers, iterations
        self._host = 0.0
        self._busy_until = [0.0] * len(numbers)
        self._copying_until = [0.0] * len(numbers)

    def seconds(self) -> float:
        """Of one run, until its results are there; arguments are on the target before."""
        entry = self._program.entry
        times = self._procedure(entry, [0.0] * len(entry.parameters))
        return max(self._host, *times, *self._busy_until, *self._copying_until)

    def _procedure(self, procedure: Procedure, given: Sequence[float]) -> list[float]:
        """When the results are there, if the arguments are there at the times given."""
        times = dict(zip(procedure.parameters, given, strict=True))
        for thunk in procedure.thunks:
            self._thunk(procedure, thunk, times)
        return [times[slot] for slot in procedure.results]

    def _called(self, number: int, slots: Slots, times: _Times) -> list[float]:
        return self._procedure(self._program.procedures[number], [times[slot] for slot in slots])

    def _thunk(self, procedure: Procedure, thunk: Thunk, times: _Times) -> None:
        found: Sequence[float]
        match thunk:
            case RunExecutable():
                platform = self._program.platforms.index(
                    self._program.executables[thunk.executable].signature.platform
                )
                ready = max((times[slot] for slot in thunk.arguments), default=0.0)
                done = self._region(platform, self._kernels[thunk.executable], ready)
                found = [done] * len(thunk.results)
            case Evaluate():
                for slot in thunk.arguments:
                    self._to_host(procedure, slot, times[slot])
                found = [self._host] * len(thunk.results)
            case Transfer():
                found = [self._transfer(procedure, thunk, times[thunk.source])]
            case While():
                found = self._while(thunk, [times[slot] for slot in thunk.arguments])
            case Conditional():
                self._to_host(procedure, thunk.index, times[thunk.index])
                found = self._longest(thunk, times)
            case Call():
                found = self._called(thunk.procedure, thunk.arguments, times)
            case Collective():
                found = [max((times[s] for s in thunk.arguments), default=0.0)] * len(thunk.results)
            case Constant():
                found = [0.0]
            case _:
                found = [self._host] * len(writes(thunk))
        times.update(zip(writes(thunk), found, strict=True))

    def _region(self, platform: int, kernels: Sequence[KernelWork], given: float) -> float:
        """When its results are there.

        Args:
            platform: where it runs.
            kernels: what it consists of.
            given: when its arguments are there.
        """
        number = self._numbers[platform]
        if number is None:
            return max(self._host, given)
        rates, waits = self._estimate.rates(number), self._estimate.computes_with_host(number)
        if waits:
            self._host = max(self._host, given)
        ready = max(self._busy_until[platform], given)
        self._host += rates.region_s
        for kernel in kernels:
            each = rates.start_s + self._estimate.work_seconds(kernel.work, number)
            if waits:
                ready = max(ready, self._host) + (rates.launch_s + each) * kernel.launches
                self._host = ready
                continue
            first = max(ready, self._host + rates.launch_s)
            self._host += rates.launch_s * kernel.launches
            ready = max(first + each * kernel.launches, self._host + each)
        self._busy_until[platform] = ready
        return ready

    def _transfer(self, procedure: Procedure, thunk: Transfer, ready: float) -> float:
        """When the copy is there; the host goes on."""
        source, target = (procedure.slots[s] for s in (thunk.source, thunk.result))
        if source == target:
            return ready
        nbytes = target.shape.nbytes
        if self._are_peers(source, target):
            took = self._between(source.platform, target.platform, nbytes)
            return self._copy(target.platform, max(ready, self._host), took)
        link = self._link(source.platform)
        if link is not None:
            ready = self._copy(source.platform, ready, link.seconds(nbytes))
        link = self._link(target.platform)
        if link is None:
            return ready
        return self._copy(target.platform, max(ready, self._host), link.seconds(nbytes))

    def _are_peers(self, source: Slot, target: Slot) -> bool:
        """Whether a platform copies between two of its devices."""
        names = [self._program.platforms[slot.platform] for slot in (source, target)]
        one, other = (name.partition(":")[0] for name in names)
        return one == other and names[0] != names[1] and source.shape == target.shape

    def _between(self, source: int, target: int, nbytes: int) -> float:
        one, other = self._numbers[source], self._numbers[target]
        if one is None or other is None:
            return 0.0
        return self._estimate.transfer(nbytes, one, other) / PICOSECONDS

    def _link(self, platform: int) -> Link | None:
        number = self._numbers[platform]
        return None if number is None else self._estimate.host_link(number)

    def _copy(self, platform: int, ready: float, took: float) -> float:
        """When a device has copied what is there at a time."""
        self._copying_until[platform] = max(self._copying_until[platform], ready) + took
        return self._copying_until[platform]

    def _to_host(self, procedure: Procedure, slot: int, ready: float) -> None:
        """The host waits for a value, and copies it if it has to."""
        held = procedure.slots[slot]
        self._host = max(self._host, ready)
        link = self._link(held.platform)
        if link is not None:
            self._host += link.seconds(held.shape.nbytes)

    def _while(self, thunk: While, state: Sequence[float]) -> list[float]:
        condition, body = (self._program.procedures[n] for n in (thunk.condition, thunk.body))
        count = self._iterations.get(thunk.condition, 1)
        (flag,) = self._procedure(condition, state)[:1]
        self._to_host(condition, condition.results[0], flag)
        before = max(self._host, *self._busy_until)
        state = self._procedure(body, state)
        (flag,) = self._procedure(condition, state)[:1]
        self._to_host(condition, condition.results[0], flag)
        spent = max(self._host, *self._busy_until) - before
        more = spent * max(0, count - 1)  # further turns take as long
        self._host += more
        return [time + more for time in state]

    def _longest(self, thunk: Conditional, times: _Times) -> list[float]:
        """The branch that takes longest."""
        begin = self._host, list(self._busy_until), list(self._copying_until)
        ends: list[tuple[float, list[float], list[float], list[float]]] = []
        for branch, slots in zip(thunk.branches, thunk.arguments, strict=True):
            self._host = begin[0]
            self._busy_until, self._copying_until = list(begin[1]), list(begin[2])
            found = self._called(branch, slots, times)
            ends.append((self._host, self._busy_until, self._copying_until, found))
        longest = max(ends, key=lambda end: max(end[0], *end[1], *end[2], *end[3]))
        self._host, self._busy_until, self._copying_until, found = longest
        return found


def planned_seconds(
    module: HloModule,
    assignment: Assignment,
    targets: Sequence[CompileTarget],
    devices: Sequence[CompileTarget],
    estimate: Estimate,
    options: CompileOptions,
) -> float:
    """The time of one run of a module that is placed in some way.

    Args:
        module: prepared.
        assignment: where its instructions run.
        targets: the devices that it may name, the platform wanted first.
        devices: those of the estimate.
        estimate: times on them.
        options: how it is to be compiled.

    Raises:
        PluginError: a backend raised while it formed kernels.
    """
    planned = PlannedRegions()
    builder = ProgramBuilder(module, targets, options, assignment, compiled=planned)
    with instrumented(Instrumentation()), without_decisions():  # it is a trial
        program = builder.build()
    places = {device.name: n for n, device in enumerate(devices)}
    numbers = [places.get(name) for name in program.platforms]
    turns = builder.turns(loop_iterations(module))
    return ProgramTime(program, planned.kernels, numbers, estimate, turns).seconds()
