"""What the kernels can do: answers `supports` from the tables of elemental emitters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType

from xladev.codegen.elemental.rules import ELEMENT_RULES
from xladev.codegen.llvm import VOID, ModuleBuilder
from xladev.codegen.scalar.constants import constant_element
from xladev.codegen.scalar.elementwise import emit_elementwise
from xladev.compiler.support import YES, Support, no
from xladev.errors import UnsupportedError
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.ir import HloComputation, HloInstruction

_STRUCTURE = frozenset({
    "parameter", "constant", "tuple", "get-tuple-element", "after-all", "add-dependency",
    "opt-barrier",
})  # fmt: skip
_CONTROL = frozenset({"while", "conditional", "call", "fusion"})

_REFUSED: Mapping[str, str] = MappingProxyType(
    {
        "scatter": "threads that update the same element need atomic operations, not there yet",
        "select-and-scatter": "threads that update the same element need atomic operations",
        "sort": "no kernel for sort yet",
    }
)
"""Opcodes that the CPU's emitters have and these kernels have not, with reasons."""


def cuda_supports(instruction: HloInstruction) -> Support:
    """Whether kernels can be made of an instruction and all that it calls."""
    return _Answers().to(instruction)


class _Answers:
    """Looks once at each computation that an instruction calls, however often it is called."""

    def __init__(self) -> None:
        self._known: dict[tuple[HloComputation, bool], Support] = {}

    def to(self, i: HloInstruction) -> Support:
        """Whether it can be a step of a program."""
        refusal = _array_refusal(i) or _REFUSED.get(i.opcode, "")
        if refusal:
            return no(refusal)
        if i.opcode in _CONTROL:
            return _all(self._within(c, scalar=False) for c in i.called)
        if i.opcode in _STRUCTURE:
            return YES
        return self._element(i)

    def _element(self, i: HloInstruction) -> Support:
        """Whether there is code for one element."""
        if i.opcode == "bitcast":
            return _bitcast(i)
        if i.opcode in ELEMENT_RULES:
            return _all(self._within(c, scalar=True) for c in i.called)
        return _elementwise(i) if i.op.elementwise else no(f"no kernel for {i.opcode}")

    def _within(self, computation: HloComputation, *, scalar: bool) -> Support:
        """Yes if every instruction of a computation can be a step, or part of one thread's code."""
        key = computation, scalar
        if key not in self._known:
            ask = self._scalar if scalar else self.to
            self._known[key] = _all(_named(i, ask(i)) for i in computation.instructions)
        return self._known[key]

    def _scalar(self, i: HloInstruction) -> Support:
        if not all(leaf.is_array and leaf.size == 1 for _, leaf in i.shape.leaves()):
            return no(f"{i.shape} is no scalar")
        if i.opcode in _CONTROL:
            return _all(self._within(c, scalar=True) for c in i.called)
        return YES if i.opcode in _STRUCTURE else self._element(i)


def _all(answers: Iterable[Support]) -> Support:
    """The first refusal, or yes."""
    return next((answer for answer in answers if not answer), YES)


def _named(inner: HloInstruction, answer: Support) -> Support:
    return answer if answer else no(f"{inner.name} within it: {answer.reason}")


def _array_refusal(instruction: HloInstruction) -> str:
    for shape in (instruction.shape, *(o.shape for o in instruction.operands)):
        for _, leaf in shape.leaves():
            if leaf.is_dynamic:
                return "a dynamic dimension must be padded away first"
            if not leaf.is_array and not leaf.is_token:
                return f"values of type {leaf.element_type} have no memory"
    return ""


def _bitcast(i: HloInstruction) -> Support:
    """Movement of whole elements in memory order; types may differ if they fill their bytes."""
    shapes = (i.operands[0].shape, i.shape)
    for shape in shapes:
        if shape.layout is not None and (shape.layout.tiles or shape.layout.element_bits):
            return no(f"no code for a bitcast of the layout {shape.layout}")
    types = {shape.element_type for shape in shapes}
    if len(types) > 1 and not all(map(_fills_bytes, types)):
        return no(f"no code for a bitcast from {shapes[0]} to {shapes[1]}")
    return YES


def _fills_bytes(dtype: PrimitiveType) -> bool:
    return (dtype.is_float or dtype.is_integral) and dtype.bits % 8 == 0


def _elementwise(i: HloInstruction) -> Support:
    operands = tuple(o.shape.element_type for o in i.operands)
    attrs = tuple(sorted((k, v) for k, v in i.attrs.items() if isinstance(v, (str, int))))
    reason = _refusal(i.opcode, operands, i.shape.element_type, attrs)
    return no(reason) if reason else YES


@lru_cache(maxsize=4096)
def _refusal(
    opcode: str,
    operands: tuple[PrimitiveType, ...],
    result: PrimitiveType,
    attrs: tuple[tuple[str, str | int], ...],
) -> str:
    """Why there is no code for an elementwise opcode on these types; empty if there is."""
    b = ModuleBuilder("probe").function("probe", VOID)
    try:
        elements = [constant_element(t, 1) for t in operands]
        emit_elementwise(b, opcode, operands, result, elements, dict(attrs))
    except UnsupportedError as e:
        return f"{e.what}: {e.why}" if e.why else e.what
    return ""
