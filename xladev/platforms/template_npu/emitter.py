"""From a kernel to a command list: stages, each of which computes one array tile by tile.

A kernel's instructions are inlined into as few stages as possible. A stage is a loop over tiles of
an iteration space; what it needs in memory and is not there is computed by an earlier stage, into
the kernel's workspace.

What a vendor replaces: the stages, where their hardware does more at once. `lower_<family>` of
`compiler.py` comes here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from xladev.codegen.kernel_spec import KernelSpec
from xladev.errors import CompileError
from xladev.hlo.ir import HloInstruction
from xladev.platforms.template_npu.codegen import (
    convolution,
    dot,
    loops,
    movement,
    reduction,
)
from xladev.platforms.template_npu.codegen.command_list import CommandList, TrackedBytes
from xladev.platforms.template_npu.codegen.expression import Rule
from xladev.platforms.template_npu.codegen.loops import Destination, LoopStage
from xladev.platforms.template_npu.codegen.nodes import Array
from xladev.platforms.template_npu.codegen.rules import RULES
from xladev.platforms.template_npu.codegen.tiles import DOUBLE

ALIGNMENT = 64
MAX_WINDOWS = 255


@dataclass(frozen=True, slots=True)
class NpuKernel:
    """What a kernel becomes.

    Attributes:
        code: its command list; windows are operands, results, then the workspace if any.
        workspace_nbytes: size of the workspace.
    """

    code: bytes
    workspace_nbytes: int


def emit_kernel(spec: KernelSpec, buffering: int = DOUBLE) -> NpuKernel:
    """The command list of a kernel.

    Args:
        spec: the kernel.
        buffering: slots of the scratchpad for each value of a tile.

    Raises:
        CompileError: more buffers than a list has windows.
    """
    return KernelEmitter(spec, buffering).emit()


class KernelEmitter:
    """Emits one kernel.

    Attributes:
        commands: the list.
        spec: the kernel.
        buffering: see `LoopStage.buffering`.
    """

    def __init__(self, spec: KernelSpec, buffering: int) -> None:
        self.spec = spec
        self.buffering = buffering
        self.commands = CommandList()
        count = len(spec.operands) + len(spec.results)
        if count >= MAX_WINDOWS:
            raise CompileError(f"a kernel of {count} buffers", where=spec.name)
        self._windows = [TrackedBytes(n) for n in range(count + 1)]
        self._arrays = {
            p: Array(w) for p, w in zip(spec.computation.parameters, self._windows, strict=False)
        }
        self._workspace_nbytes = 0
        self._padded: dict[HloInstruction, Array] = {}

    def emit(self) -> NpuKernel:
        """All results."""
        root = self.spec.computation.root
        first = len(self.spec.operands)
        results = [Array(self._windows[first + n]) for n in range(len(self.spec.results))]
        if root.opcode != "tuple":
            self._compute(root, results)
        else:
            self._tuple(root.operands, results)
        return NpuKernel(self.commands.code(), self._workspace_nbytes)

    def _tuple(self, roots: Sequence[HloInstruction], results: Sequence[Array]) -> None:
        """Roots of equal dimensions in one stage: one may overwrite what another reads there."""
        groups: dict[tuple[int, ...], list[Destination]] = {}
        for root, result in zip(roots, results, strict=True):
            groups.setdefault(root.shape.dims, []).append(Destination(root, result))
        for members in groups.values():
            loops.emit_loop(self, members)

    def _compute(self, i: HloInstruction, results: Sequence[Array]) -> None:
        stage = STAGES.get(i.opcode)
        if stage is not None:
            stage(self, i, results)
            return
        core = i if i.opcode in EPILOGUES else loops.core_of(i, frozenset(EPILOGUES))
        if core is not None:
            EPILOGUES[core.opcode](self, core, results, i)
        else:
            loops.emit_loop(self, [Destination(i, results[0])])

    # What stages ask

    @property
    def rules(self) -> Mapping[str, Rule]:
        """See `ArrayReads.rules`."""
        return RULES

    def find(self, instruction: HloInstruction) -> Array | None:
        """See `ArrayReads.find`."""
        return self._arrays.get(instruction)

    def array(self, instruction: HloInstruction) -> Array:
        """See `ArrayReads.array`."""
        found = self._arrays.get(instruction)
        if found is None:
            found = self.workspace(instruction.shape.nbytes)
            self._compute(instruction, [found])
            self._arrays[instruction] = found
        return found

    def window_array(self, instruction: HloInstruction) -> tuple[Array, tuple[int, ...]]:
        """See `ArrayReads.window_array`."""
        operand, init = instruction.operands
        return self.padded(instruction, operand, init, movement.window_padding(instruction))

    def padded(
        self,
        key: HloInstruction,
        operand: HloInstruction,
        value: HloInstruction | None,
        padding: Sequence[tuple[int, int, int]],
    ) -> tuple[Array, tuple[int, ...]]:
        """An operand with (low, high, interior) padding in memory, and its dimensions.

        Args:
            key: whose operand it is; padded once for each.
            operand: the array.
            value: what to pad with; None for zero.
            padding: one for each dimension.
        """
        dims = movement.padded_dims(operand.shape.dims, padding)
        if dims == operand.shape.dims:
            return self.array(operand), dims
        if key not in self._padded:
            nbytes = operand.shape.element_type.host_nbytes
            for n in dims:
                nbytes *= n
            self._padded[key] = result = self.workspace(nbytes)
            movement.emit_padded(self, operand, value, padding, result)
        return self._padded[key], dims

    def workspace(self, nbytes: int) -> Array:
        """New memory that lives as long as the kernel runs."""
        found = Array(self._windows[-1], self._workspace_nbytes)
        self._workspace_nbytes += -(-max(nbytes, 1) // ALIGNMENT) * ALIGNMENT
        return found

    def shares(self, result: int, operand: HloInstruction) -> bool:
        """True if a result is where an operand of the kernel does."""
        parameters = self.spec.computation.parameters
        return operand in parameters and (result, parameters.index(operand)) in self.spec.in_place


STAGES: Mapping[str, Callable[[LoopStage, HloInstruction, Sequence[Array]], None]] = (
    MappingProxyType(
        {
            "pad": movement.emit_pad,
            "concatenate": movement.emit_concatenate,
            "dynamic-update-slice": movement.emit_dynamic_update_slice,
            "scatter": movement.emit_scatter,
        }
    )
)
"""Opcodes that are a stage of their own, and nothing more."""

EPILOGUES = MappingProxyType(
    {
        "dot": dot.emit_dot,
        "convolution": convolution.emit_convolution,
        "reduce": reduction.emit_reduce,
    }
)
"""Opcodes whose stage goes on with elementwise instructions on its result, before it is stored."""
