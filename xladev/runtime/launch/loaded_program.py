"""LoadedProgram: a Program with its regions loaded on devices; to a launch, one more executable."""

from __future__ import annotations

from collections.abc import Sequence

from xladev.compiler.program.program import Program
from xladev.compiler.program.program_check import check_program
from xladev.compiler.program.thunks import RunExecutable
from xladev.errors import ArgumentError
from xladev.runtime.device import Device
from xladev.runtime.launch.definition_event import DefinitionEvent
from xladev.runtime.launch.launchable import Launchable
from xladev.runtime.launch.program_parts import ProgramParts, load_executable
from xladev.runtime.launch.program_run import ProgramRun
from xladev.runtime.launch.value_executable import RunOutcome, ValueExecutable
from xladev.runtime.loaded_executable import LaunchContext


def load_program(program: Program, devices: Sequence[Device]) -> Launchable:
    """The program, ready to launch.

    Args:
        program: what to load.
        devices: one for each of `Program.platforms`; the first one is where arrays live.

    Raises:
        FormatError: the program is damaged, or was made for another platform or target.
        XladevError: a platform could not load its part.
    """
    check_program(program)
    if len(devices) != len(program.platforms):
        raise ArgumentError(
            f"program {program.name!r} runs on {len(program.platforms)} platforms, "
            f"not {len(devices)}"
        )
    if _is_one_region(program):
        (executable,) = program.executables
        return Launchable(devices[0], program.signature, load_executable(devices[0], executable))
    return Launchable(devices[0], program.signature, LoadedProgram(ProgramParts(program, devices)))


def _is_one_region(program: Program) -> bool:
    """True if the program is one executable of the target and nothing else."""
    entry = program.entry
    if len(program.procedures) != 1 or len(entry.thunks) != 1:
        return False
    (thunk,) = entry.thunks
    return (
        isinstance(thunk, RunExecutable)
        and thunk.arguments == entry.parameters
        and thunk.results == entry.results
        and all(entry.slots[s].platform == 0 for s in entry.parameters + entry.results)
    )


class LoadedProgram(ValueExecutable):
    """A program on devices. Thread-safe."""

    def __init__(self, parts: ProgramParts) -> None:
        self._parts = parts

    @property
    def traces_itself(self) -> bool:
        """Yes: region by region."""
        return True

    @property
    def kernel_names(self) -> Sequence[str]:
        """Those on the target."""
        return self._parts.kernel_names(self._parts.devices[0].platform)

    def run(self, context: LaunchContext, upstream: Sequence[DefinitionEvent]) -> RunOutcome:
        """Runs the entry procedure; the host waits only for what it reads."""
        return ProgramRun(self._parts, context, upstream).run()
