"""What the kernels can do: answers `supports` from the tables of elemental emitters."""

from __future__ import annotations

from xladev.codegen.elemental.rules import ELEMENT_RULES
from xladev.compiler.emitter_support import (
    array_refusal,
    bitcast_support,
    elementwise_support,
    first_refusal,
)
from xladev.compiler.support import YES, Support, no
from xladev.hlo.dtype import F32
from xladev.hlo.ir import HloComputation, HloInstruction
from xladev.platforms.cuda.libraries.rules import library_support

_STRUCTURE = frozenset({
    "parameter", "constant", "tuple", "get-tuple-element", "after-all", "add-dependency",
    "opt-barrier",
})  # fmt: skip
_CONTROL = frozenset({"while", "conditional", "call", "fusion"})

_KERNELS = frozenset({"scatter", "select-and-scatter", "sort"})
"""Opcodes without code for one element, which have kernels of their own."""


def cuda_supports(
    instruction: HloInstruction, library_opcodes: frozenset[str] = frozenset()
) -> Support:
    """Whether kernels or libraries compute an instruction and all that it calls.

    Args:
        instruction: what is asked about.
        library_opcodes: opcodes whose libraries there are.
    """
    return _Answers(library_opcodes).to(instruction)


class _Answers:
    """Looks once at each computation that an instruction calls, however often it is called."""

    def __init__(self, library_opcodes: frozenset[str]) -> None:
        self._libraries = library_opcodes
        self._known: dict[tuple[HloComputation, bool], Support] = {}

    def to(self, i: HloInstruction) -> Support:
        """Whether it can be a step of a program."""
        refusal = array_refusal(i)
        if refusal is not None:
            return refusal
        if i.opcode in self._libraries and library_support(i):
            return YES
        if i.opcode in _CONTROL:
            return first_refusal(self._within(c, scalar=False) for c in i.called)
        if i.opcode in _STRUCTURE:
            return YES
        return self._element(i)

    def _element(self, i: HloInstruction) -> Support:
        """Whether there is code for one element."""
        if i.opcode == "bitcast":
            return bitcast_support(i)
        if i.opcode in ELEMENT_RULES or i.opcode in _KERNELS:
            return first_refusal(self._within(c, scalar=True) for c in i.called)
        if not i.op.elementwise:
            return no(f"no kernel for {i.opcode}")
        return _NO_SIGN if _orders_narrow_floats(i) else elementwise_support(i)

    def _within(self, computation: HloComputation, *, scalar: bool) -> Support:
        """Yes if every instruction of a computation can be a step, or part of one thread's code."""
        key = computation, scalar
        if key not in self._known:
            ask = self._scalar if scalar else self.to
            self._known[key] = first_refusal(_named(i, ask(i)) for i in computation.instructions)
        return self._known[key]

    def _scalar(self, i: HloInstruction) -> Support:
        if not all(leaf.is_array and leaf.size == 1 for _, leaf in i.shape.leaves()):
            return no(f"{i.shape} is no scalar")
        if i.opcode in _CONTROL:
            return first_refusal(self._within(c, scalar=True) for c in i.called)
        return YES if i.opcode in _STRUCTURE else self._element(i)


def _orders_narrow_floats(i: HloInstruction) -> bool:
    """True for a total order of what is widened to f32 before it is compared."""
    if i.opcode != "compare" or i["type"] != "TOTALORDER":
        return False
    return i.operands[0].shape.element_type.bits < F32.bits


_NO_SIGN = no("a NaN that is widened to f32 has no sign on a GPU, and total order asks for it")


def _named(inner: HloInstruction, answer: Support) -> Support:
    return answer if answer else no(f"{inner.name} within it: {answer.reason}")
