"""The estimated time of one run: its thunks in order, with a clock for the host and each device.

It follows what a launch does. The host enqueues regions and goes on; where it moves a value to
another device, it waits for all that the device which holds it was given. A device whose memory is
the host's has the host wait for each region.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xladev.compiler.cost import loop_iterations
from xladev.compiler.options import CompileOptions
from xladev.compiler.partition.assignment import Assignment, CompileTarget
from xladev.compiler.placement.estimate import Estimate
from xladev.compiler.placement.region_kernels import KernelWork, PlannedRegions
from xladev.compiler.program.program import Procedure, Program
from xladev.compiler.program.program_builder import ProgramBuilder
from xladev.compiler.program.thunks import (
    Call,
    Conditional,
    Evaluate,
    RunExecutable,
    Thunk,
    Transfer,
    While,
)
from xladev.hlo.ir import HloModule
from xladev.instrument import without_decisions
from xladev.passes.pipeline import Instrumentation, instrumented


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

    def seconds(self) -> float:
        """Of one run, until its results are there; arguments are on the target before."""
        self._procedure(self._program.entry)
        return max(self._host, *self._busy_until)

    def _procedure(self, procedure: Procedure) -> None:
        for thunk in procedure.thunks:
            self._thunk(procedure, thunk)

    def _thunk(self, procedure: Procedure, thunk: Thunk) -> None:
        match thunk:
            case RunExecutable():
                platform = self._program.platforms.index(
                    self._program.executables[thunk.executable].signature.platform
                )
                self._region(platform, self._kernels[thunk.executable])
            case Evaluate():
                for slot in thunk.arguments:
                    self._to_host(procedure, slot)
            case Transfer():
                self._transfer(procedure, thunk)
            case While():
                self._while(thunk)
            case Conditional():
                self._to_host(procedure, thunk.index)
                self._longest(thunk.branches)
            case Call():
                self._procedure(self._program.procedures[thunk.procedure])
            case _:
                pass

    def _region(self, platform: int, kernels: Sequence[KernelWork]) -> None:
        number = self._numbers[platform]
        if number is None:
            return
        rates, waits = self._estimate.rates(number), self._estimate.computes_with_host(number)
        ready = self._busy_until[platform]
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

    def _transfer(self, procedure: Procedure, thunk: Transfer) -> None:
        source, target = (procedure.slots[s] for s in (thunk.source, thunk.result))
        self._to_host(procedure, thunk.source)
        self._copy(target.platform, target.shape.nbytes)
        if source.platform == target.platform:
            self._host = max(self._host, self._busy_until[target.platform])

    def _to_host(self, procedure: Procedure, slot: int) -> None:
        """The host waits for a device, and copies a value if it has to."""
        held = procedure.slots[slot]
        number = self._numbers[held.platform]
        self._host = max(self._host, self._busy_until[held.platform])
        link = None if number is None else self._estimate.host_link(number)
        if link is not None:
            self._host += link.seconds(held.shape.nbytes)

    def _copy(self, platform: int, nbytes: int) -> None:
        """A value of the host is enqueued for a device."""
        number = self._numbers[platform]
        link = None if number is None else self._estimate.host_link(number)
        if link is not None:
            start = max(self._host, self._busy_until[platform])
            self._busy_until[platform] = start + link.seconds(nbytes)

    def _while(self, thunk: While) -> None:
        condition, body = (self._program.procedures[n] for n in (thunk.condition, thunk.body))
        count = self._iterations.get(thunk.condition, 1)
        self._procedure(condition)
        self._to_host(condition, condition.results[0])
        before = max(self._host, *self._busy_until)
        self._procedure(body)
        self._procedure(condition)
        self._to_host(condition, condition.results[0])
        spent = max(self._host, *self._busy_until) - before
        self._host += spent * max(0, count - 1)  # further turns take as long

    def _longest(self, branches: Sequence[int]) -> None:
        """The branch that takes longest."""
        begin = self._host, list(self._busy_until)
        ends: list[tuple[float, list[float]]] = []
        for branch in branches:
            self._host, self._busy_until = begin[0], list(begin[1])
            self._procedure(self._program.procedures[branch])
            ends.append((self._host, self._busy_until))
        self._host, self._busy_until = max(ends, key=lambda end: max(end[0], *end[1]))


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
