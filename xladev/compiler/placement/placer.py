"""Places the instructions of one compilation: constraints, then support, then estimated time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import itemgetter
from types import MappingProxyType

from xladev.compiler.contract import HostOnlyCompiler
from xladev.compiler.description import DeviceDescription, MemorySpace
from xladev.compiler.options import CompileOptions
from xladev.compiler.partition.assignment import EVALUATOR, Assignment, CompileTarget, assign
from xladev.compiler.placement.choice import DeviceChoice
from xladev.compiler.placement.colocation import colocates
from xladev.compiler.placement.devices import (
    FindDevice,
    PlacedTarget,
    PlacementDevices,
    wanted_devices,
)
from xladev.compiler.placement.estimate import Estimate
from xladev.compiler.placement.forms import FormingTarget
from xladev.compiler.placement.kept_rates import kept_rates
from xladev.compiler.placement.program_time import planned_seconds
from xladev.compiler.placement.rules import ApplyPlacementRules
from xladev.hlo.ir import HloModule
from xladev.passes.pipeline import run_pass

PLACEMENT = "placement"
"""Name of the pipeline of what is done to a program before it is placed."""


_EVALUATOR = CompileTarget(
    EVALUATOR,
    HostOnlyCompiler(),
    DeviceDescription(
        peak_flops=MappingProxyType({"f32": 1e9}),
        memory_spaces=(MemorySpace("host", bandwidth=1e9, host_addressable=True),),
    ),
)
"""What has no other place, as a device that takes nothing else."""


_MOST_TRIED = 10_000
"""Instructions of a program for which whole runs are compared; of larger ones, single choices."""


class Placer:
    """Places the instructions of one module.

    Args:
        target: the platform wanted.
        hosts: gives platforms for what it refuses; asked only if there is any.
        find: looks up the devices that options and instructions name.
        options: how.

    Attributes:
        target: the platform wanted, with what it takes in another form.
    """

    def __init__(
        self,
        target: CompileTarget,
        hosts: Callable[[], Sequence[CompileTarget]],
        find: FindDevice | None,
        options: CompileOptions,
    ) -> None:
        self._plain = target
        self.target = FormingTarget.of(target)
        self._hosts = hosts
        self._options = options
        self._devices = PlacementDevices(find)

    @property
    def devices(self) -> tuple[CompileTarget, ...]:
        """The devices that were named and are there."""
        return tuple(self._devices.found.values())

    def constrained(self, module: HloModule) -> HloModule:
        """The module, each instruction with the device that it is constrained to, if any."""
        rules = self._options.placement
        names = wanted_devices(module, self._options)
        if not names:
            return module
        spellings = self._devices.spellings(names)
        return run_pass(ApplyPlacementRules(rules, spellings), module, PLACEMENT)

    def asked(self) -> CompileTarget:
        """Whom passes ask that depend on what devices take."""
        return PlacedTarget.of(self._plain, self.devices, self._listed())

    def _listed(self) -> list[CompileTarget]:
        """The devices that the options let it choose from."""
        return list(filter(None, map(self._devices.find, self._options.devices)))

    def assign(self, ready: HloModule) -> Assignment:
        """Where each instruction of the prepared module runs.

        Raises:
            UnsupportedError: nobody runs an instruction, or placement is not soft and the device
                that one names does not take it.
            PluginError: a compiler raised.
        """
        options = self._options
        assignment = assign(
            ready,
            self.target,
            self._hosts,
            op_by_op=options.level == 0,
            devices=self._devices.found,
            soft=options.soft_placement,
        )
        order = self._launch_order() if self._devices.found else ()
        assignment = replace(assignment, launch_order=order)
        return self._chosen(ready, assignment) if self._is_chosen(assignment) else assignment

    def _chosen(self, ready: HloModule, assignment: Assignment) -> Assignment:
        """The assignment whose run takes least by estimate, transfers and waiting included."""
        candidates = self._candidates(assignment)
        estimate = Estimate(candidates, kept_rates)
        targets = (self.target, *self._hosts(), *self.devices)

        def seconds(each: Assignment) -> float:
            return planned_seconds(ready, each, targets, candidates, estimate, self._options)

        choice = DeviceChoice(ready, assignment, candidates, estimate)
        chosen = choice.run()
        if ready.instruction_count > _MOST_TRIED:
            return chosen
        tried = [("as chosen one by one", chosen), *choice.alternatives(chosen)]
        timed = [(how, each, seconds(each)) for how, each in tried]
        timed.sort(key=itemgetter(2))
        told = tuple((how, time) for how, _, time in timed)
        return replace(timed[0][1], estimates=told)

    def _launch_order(self) -> tuple[str, ...]:
        """Devices with memory of their own first: they may work while the host does."""
        devices = (self.target, *self.devices)
        ordered = sorted(devices, key=lambda device: device.description.host_addressable)
        return tuple(dict.fromkeys(device.name for device in ordered))

    def _is_chosen(self, assignment: Assignment) -> bool:
        """Whether estimated times decide where there is a choice.

        They do among devices that the options name; and where the vendor states links, as soon as a
        program is on several devices anyway.
        """
        if self._options.devices or colocates(assignment.devices):
            return True
        is_split = bool(assignment.fallbacks or self._devices.found)
        return is_split and bool(self.target.description.links)

    def _candidates(self, assignment: Assignment) -> list[CompileTarget]:
        """The target, then what is named, then hosts; the evaluator if it has anything."""
        devices = [self.target, *self._listed(), *self.devices]
        if not self._options.devices or assignment.fallbacks:
            devices += self._hosts()
        if EVALUATOR in assignment.devices.values():
            devices.append(_EVALUATOR)
        return list({device.name: device for device in devices}.values())
