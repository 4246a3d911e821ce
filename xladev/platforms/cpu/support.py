"""What the CPU's kernels can do: answers `supports` from the tables of emitters."""

from __future__ import annotations

from xladev.codegen.elemental.rules import ELEMENT_RULES
from xladev.compiler.emitter_support import (
    array_refusal,
    bitcast_support,
    elementwise_support,
    first_refusal,
)
from xladev.compiler.partition.assignment import DEVICE_NUMBER_OPCODES, exchanges
from xladev.compiler.support import YES, Support, no
from xladev.hlo.ir import HloComputation, HloInstruction
from xladev.platforms.cpu.codegen.exchange import exchange_support
from xladev.platforms.cpu.codegen.fourier.kernel import has_transform
from xladev.platforms.cpu.codegen.lapack.calls import LAPACK_OPCODES
from xladev.platforms.cpu.codegen.lapack.choice import lapack_support
from xladev.platforms.cpu.codegen.sorting.top_k import has_top_k
from xladev.platforms.cpu.codegen.table import KERNEL_EMITTERS

_STRUCTURE = frozenset({
    "parameter", "constant", "tuple", "get-tuple-element", "after-all", "add-dependency",
    "opt-barrier", "fusion",
})  # fmt: skip
_CONTROL = frozenset({"while", "conditional", "call"})
_WITHIN_SCALARS = _CONTROL | _STRUCTURE


def cpu_supports(
    instruction: HloInstruction, has_lapack: bool = False, *, has_peers: bool = False
) -> Support:
    """Whether native code can be made of an instruction and all that it calls.

    Args:
        instruction: what is asked about.
        has_lapack: whether LAPACK may be called, if this process has it.
        has_peers: whether other devices are in this process, to exchange data with.
    """
    return _Answers(has_lapack, has_peers).to(instruction)


class _Answers:
    """Looks once at each computation that an instruction calls, however often it is called."""

    def __init__(self, has_lapack: bool, has_peers: bool) -> None:
        self._has_lapack = has_lapack
        self._has_peers = has_peers
        self._programs: dict[HloComputation, Support] = {}
        self._scalars: dict[HloComputation, Support] = {}

    def to(self, instruction: HloInstruction) -> Support:
        """Whether it can be a step of a program."""
        refusal = array_refusal(instruction)
        if refusal is not None:
            return refusal
        opcode = instruction.opcode
        if opcode in _CONTROL or opcode == "fusion":
            return first_refusal(map(self._program, instruction.called))
        if opcode in _STRUCTURE:
            return YES
        if opcode in LAPACK_OPCODES:
            return (
                lapack_support(instruction) if self._has_lapack else no(f"no kernel for {opcode}")
            )
        if exchanges(instruction):
            return exchange_support(instruction) if self._has_peers else no("no other devices")
        if opcode in DEVICE_NUMBER_OPCODES:
            return YES if self._has_peers else no("no other devices")
        if opcode == "bitcast":
            return bitcast_support(instruction)
        if opcode == "topk" and not has_top_k(instruction):
            return no("a topk of so many elements, or of this type, is a sort")
        if opcode == "fft" and not has_transform(instruction):
            return no("a transform of such lengths or types is made of products")
        if opcode in ELEMENT_RULES or opcode in KERNEL_EMITTERS:
            return first_refusal(map(self._scalar_computation, instruction.called))
        if instruction.op.elementwise:
            return elementwise_support(instruction)
        return no(f"no kernel for {opcode}")

    def _program(self, computation: HloComputation) -> Support:
        """Yes if every instruction of a computation can be a step."""
        if computation not in self._programs:
            answers = (_within(inner, self.to(inner)) for inner in computation.instructions)
            self._programs[computation] = first_refusal(answers)
        return self._programs[computation]

    def _scalar_computation(self, computation: HloComputation) -> Support:
        """Yes if a computation of scalars can be part of a kernel."""
        if computation not in self._scalars:
            answers = (self._scalar(inner, computation.name) for inner in computation.instructions)
            self._scalars[computation] = first_refusal(answers)
        return self._scalars[computation]

    def _scalar(self, inner: HloInstruction, where: str) -> Support:
        if not all(leaf.is_array and leaf.size == 1 for _, leaf in inner.shape.leaves()):
            return no(f"{inner.name} in {where} is no scalar")
        if inner.opcode in _WITHIN_SCALARS or inner.opcode in ELEMENT_RULES:
            return first_refusal(map(self._scalar_computation, inner.called))
        if inner.op.elementwise:
            return elementwise_support(inner)
        return no(f"no scalar code for {inner.opcode}")


def _within(inner: HloInstruction, answer: Support) -> Support:
    return answer if answer else no(f"{inner.name} within it: {answer.reason}")
