"""Places the instructions of one compilation: constraints, then support, then estimated time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xladev.compiler.options import CompileOptions
from xladev.compiler.partition.assignment import Assignment, CompileTarget, assign
from xladev.compiler.placement.devices import (
    FindDevice,
    PlacedTarget,
    PlacementDevices,
    wanted_devices,
)
from xladev.compiler.placement.rules import ApplyPlacementRules
from xladev.hlo.ir import HloModule
from xladev.passes.pipeline import run_pass

PLACEMENT = "placement"
"""Name of the pipeline of what is done to a program before it is placed."""


class Placer:
    """Places the instructions of one module.

    Args:
        target: the platform wanted.
        hosts: gives platforms for what it refuses; asked only if there is any.
        find: looks up the devices that options and instructions name.
        options: how.
    """

    def __init__(
        self,
        target: CompileTarget,
        hosts: Callable[[], Sequence[CompileTarget]],
        find: FindDevice | None,
        options: CompileOptions,
    ) -> None:
        self._target = target
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
        return PlacedTarget.of(self._target, self.devices)

    def assign(self, ready: HloModule) -> Assignment:
        """Where each instruction of the prepared module runs.

        Raises:
            UnsupportedError: nobody runs an instruction, or placement is not soft and the device
                that one names does not take it.
            PluginError: a compiler raised.
        """
        options = self._options
        return assign(
            ready,
            self._target,
            self._hosts,
            op_by_op=options.op_by_op,
            devices=self._devices.found,
            soft=options.soft_placement,
        )
