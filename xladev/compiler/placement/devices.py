"""The devices of one compilation by the names that programs and options give them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from xladev.compiler.options import CompileOptions
from xladev.compiler.partition.assignment import CompileTarget
from xladev.compiler.placement.forms import FormingTarget
from xladev.compiler.support import Support
from xladev.hlo.ir import HloInstruction, HloModule

FindDevice = Callable[[str], CompileTarget | None]
"""Gives the device of a name in any spelling, under its one name; None where there is none."""


class PlacementDevices:
    """Looks each name up once.

    Args:
        find: looks a name up.

    Attributes:
        found: the devices that were asked for and are there, by their one name.
    """

    def __init__(self, find: FindDevice | None) -> None:
        self._find = find
        self._spelled: dict[str, str] = {}
        self.found: dict[str, CompileTarget] = {}

    def find(self, name: str) -> CompileTarget | None:
        """The device that a name means."""
        if name not in self._spelled:
            target = None if self._find is None else self._find(name)
            target = target and FormingTarget.of(target)
            self._spelled[name] = name if target is None else target.name
            if target is not None:
                self.found.setdefault(target.name, target)
        return self.found.get(self._spelled[name])

    def spellings(self, names: Iterable[str]) -> tuple[tuple[str, str], ...]:
        """Each name with the one name of its device, where that is another."""
        for name in sorted(names):  # an order that every process finds
            self.find(name)
        return tuple(pair for pair in self._spelled.items() if pair[0] != pair[1])


def named_devices(module: HloModule) -> Iterator[str]:
    """The names that instructions themselves give, each once."""
    seen: set[str] = set()
    for computation in module.computations:
        for i in computation.instructions:
            device = i.note.device
            if device is not None and device not in seen:
                seen.add(device)
                yield device


def wanted_devices(module: HloModule, options: CompileOptions) -> frozenset[str]:
    """The names of devices that a module or its options give, in any spelling."""
    ruled = (device for _, device in options.placement)
    return frozenset((*named_devices(module), *ruled, *options.devices))


@dataclass(frozen=True, slots=True)
class PlacedTarget(CompileTarget):
    """The target as passes see it that ask it: what names another device is that one's affair.

    Attributes:
        others: the other devices.
        choice: those that what names no device may go to, besides the target.
    """

    others: tuple[CompileTarget, ...] = ()
    choice: tuple[CompileTarget, ...] = ()

    @staticmethod
    def of(
        target: CompileTarget,
        devices: Iterable[CompileTarget],
        choice: Iterable[CompileTarget] = (),
    ) -> CompileTarget:
        """The target itself, if there are no others."""
        others = tuple(d for d in devices if d.name != target.name)
        if not others:
            return target
        mine = (target.name, target.compiler, target.description, target.ordinal)
        return PlacedTarget(*mine, others, tuple(choice))

    def takes_wherever_it_goes(self, instruction: HloInstruction) -> bool:
        """The answer of all, where no device is named."""
        if not self.supports(instruction) or instruction.note.device:
            return bool(self.supports(instruction))
        return all(CompileTarget.supports(each, instruction) for each in self.choice)

    def supports(self, instruction: HloInstruction) -> Support:
        """The answer of the device that the instruction names."""
        wanted = instruction.note.device
        for device in self.others if wanted else ():
            if device.name == wanted:
                return device.supports(instruction)
        return CompileTarget.supports(self, instruction)
