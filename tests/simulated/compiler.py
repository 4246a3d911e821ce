"""The compiler of a chip: kernels are modules for the evaluator."""

from __future__ import annotations

from tests.async_npu.compiler import AsyncCompiler
from tests.simulated.chip import NEVER, Chip
from xladev.compiler.description import DeviceDescription
from xladev.compiler.support import Support, no
from xladev.hlo.ir import HloInstruction


class SimulatedCompiler(AsyncCompiler):
    """Args: chip: what is compiled for."""

    def __init__(self, chip: Chip) -> None:
        self._chip = chip

    @property
    def platform(self) -> str:
        return self._chip.name

    def describe(self, target: str | None = None) -> DeviceDescription:
        return self._chip.description

    def supports(self, instruction: HloInstruction, description: DeviceDescription) -> Support:
        if instruction.opcode in self._chip.refused | NEVER:
            return no(f"the chip has no {instruction.opcode}")
        return super().supports(instruction, description)
